"""Where the notes lie on the map, as a page left them, so that the map stays the same after a reload.

A position belongs to a note's id and is two numbers in the map's own units. Ids are names here and nothing else: none
becomes a path.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

FILE_NAME = "layout.json"
FARTHEST = 1e6
"""A coordinate lies within this of the middle; pages stay far below."""
DECIMALS = 2

type Positions = dict[str, tuple[float, float]]


def read_positions(value: Any, known: Container[str] | None = None) -> Positions:
    """`{id: [x, y]}` as JSON gives it; ids that are not `known` are left out.

    Raises ValueError, which names no id, for anything but finite numbers within `FARTHEST`.
    """
    if not isinstance(value, Mapping):
        raise ValueError("positions must be an object: {id: [x, y]}")  # noqa: TRY004 - one error for bad input
    positions: Positions = {}
    for note, point in value.items():
        if not isinstance(point, list) or len(point) != 2 or not all(_is_coordinate(one) for one in point):
            raise ValueError(f"a position must be two numbers within {FARTHEST:,.0f} of 0")
        if known is None or note in known:
            positions[note] = (round(float(point[0]), DECIMALS), round(float(point[1]), DECIMALS))
    return positions


class MapLayout:
    """The positions that were saved last. With a `file` they outlive the suite; it is 0600 and replaced whole.

    `load` and `save` read and write it and block; both may run in a thread, one at a time.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._positions: Positions | None = None if file else {}

    def load(self) -> Positions:
        """What was saved; nothing where that cannot be read: pages then lay the map out anew."""
        if self._positions is None:
            self._positions = self._read()
        return self._positions

    def save(self, positions: Positions) -> None:
        """Keep these instead of the ones before. Raises OSError; they are known until the suite ends all the same."""
        self._positions = positions
        if self._file is not None:
            _write(self._file, json.dumps({"positions": positions}, separators=(",", ":")))

    def _read(self) -> Positions:
        assert self._file
        try:
            return read_positions(json.loads(self._file.read_text("utf-8"))["positions"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            logger.warning("%s cannot be read: the map is laid out anew", self._file)
            return {}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
            new.write(text)
        unfinished.replace(file)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _is_coordinate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= FARTHEST  # NaN is not
