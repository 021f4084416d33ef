"""The state directory is its owner's alone, whichever command makes it first."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from addons.certificates import ensure_certificates
from addons.presence import hold_start
from memory.sources.cache import write_cache
from web.access import load_or_make_tokens


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda state: ensure_certificates(state, key_bits=1024), id="env"),
        pytest.param(lambda state: hold_start(state, seconds=5).close(), id="with"),
        pytest.param(lambda state: write_cache(state / "notes" / "vault.json", b"key", {}), id="map"),
        pytest.param(load_or_make_tokens, id="tokens"),
    ],
)
def test_nobody_else_looks_into_it(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    state = tmp_path / "above" / "state"
    make(state)
    folders = [state, *(path for path in state.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
