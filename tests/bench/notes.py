"""Reading a folder of notes and building map and index (goals: notes.md, "Speed to reach").

The files have just been written, so reading them is reading memory: what is measured is our own work. Beside it stands
obsidiantools on a vault of 1,000 notes, where it is installed (`pip install --group bench`): it reads notes and links
into a graph, and has no index.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import NamedTuple

from markdown_it import MarkdownIt

from memory.note_library import NoteLibrary
from memory.sources import make_source
from memory.sources.markdown import SETTLED_AFTER
from tests.bench.measure import Figure, settled_memory
from tests.bench.synthetic import SyntheticNote, Writer, write_vault

ROUNDS = 2
RESCANS = 5
BESIDE = 1_000
"""Notes that obsidiantools reads too."""


class Goals(NamedTuple):
    """(reach, aim), in seconds."""

    first: tuple[float, float]
    second: tuple[float, float]
    unchanged: tuple[float, float]
    edited: tuple[float, float]
    note: str = ""


GOALS = {
    5_000: Goals((6.0, 2.0), (2.0, 1.0), (0.1, 0.04), (0.15, 0.05), "goals of rescans: 10% of those for 50,000"),
    50_000: Goals((60.0, 20.0), (15.0, 6.0), (1.0, 0.4), (1.5, 0.5)),
}


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    with _vault(seed, BESIDE) as (folder, _):
        yield asyncio.run(_beside_a_peer(folder))
    for count in GOALS if large else [5_000]:
        with _vault(seed, count) as (folder, notes):
            yield from asyncio.run(_measured(folder, notes, rounds=1 if count > 5_000 else ROUNDS))


@contextmanager
def _vault(seed: int, count: int) -> Iterator[tuple[Path, list[SyntheticNote]]]:
    with tempfile.TemporaryDirectory(prefix="mitmemory-bench-") as folder:
        notes = Writer(seed).vault(count)
        write_vault(Path(folder), notes)
        yield Path(folder), notes


async def _measured(folder: Path, notes: list[SyntheticNote], *, rounds: int) -> list[Figure]:
    count, megabytes = len(notes), sum(len(note.text.encode()) for note in notes) / 1e6
    loads: list[float] = []
    seconds: list[float] = []
    parses: list[float] = []
    edited: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mitmemory-bench-") as cache, settled_memory():
        for number in range(rounds):
            library = _library(folder, count, Path(cache) / str(number))
            loads.append(await _seconds_of_scan(library))
            await library.aclose()
            library = _library(folder, count, Path(cache) / str(number))
            seconds.append(await _seconds_of_scan(library))
            start = time.process_time()
            _read_and_parse(folder)
            parses.append(time.process_time() - start)
        assert len(library.snapshot.index.notes) == count
        await asyncio.sleep(SETTLED_AFTER / 1e9)
        await library.scan()  # what was written a moment ago is read once more
        unchanged = [await _seconds_of_scan(library) for _ in range(RESCANS)]
        for number in range(rounds):
            with (folder / notes[number].path).open("a", encoding="utf-8") as file:
                file.write(f"One more line that the person added, number {number}.\n")
            before = library.snapshot.index
            edited.append(await _seconds_of_scan(library))
            assert library.snapshot.index is not before
        encoded = [_seconds(library.snapshot.to_json) for _ in range(RESCANS)]
        await library.aclose()
    load, goals = median(loads), GOALS[count]
    first = f"the first load, {load:.1f} s"
    return [
        Figure(
            f"first load and index, {count:,} notes ({megabytes:.0f} MB)",
            load,
            "s",
            *goals.first,
            baseline=f"markdown-it-py alone, {median(parses):.1f} s",
            ratio=median(parses) / load,
        ),
        Figure("second start, from the cache", median(seconds), "s", *goals.second, first, load / median(seconds)),
        Figure(
            "rescan, nothing changed",
            median(unchanged),
            "s",
            *goals.unchanged,
            first,
            load / median(unchanged),
            goals.note,
        ),
        Figure("rescan after one edit", median(edited), "s", *goals.edited, first, load / median(edited), goals.note),
        Figure("the map as JSON", median(encoded) * 1e3, "ms"),
    ]


async def _beside_a_peer(folder: Path) -> Figure:
    """Ours is the whole load, index and all."""
    ours = median([await _seconds_of_scan(_library(folder, BESIDE)) for _ in range(ROUNDS)])
    what = f"first load and index, {BESIDE:,} notes"
    try:
        from obsidiantools.api import Vault  # of the dependency group `bench`
    except ImportError:
        return Figure(what, ours, "s", baseline="obsidiantools is not installed")
    theirs = median([_seconds(lambda: Vault(folder).connect().gather()) for _ in range(ROUNDS)])
    version = metadata.version("obsidiantools")
    return Figure(
        what, ours, "s", None, None, f"obsidiantools {version}, without an index, {theirs:.1f} s", theirs / ours
    )


def _library(folder: Path, count: int, cache: Path | None = None) -> NoteLibrary:
    return NoteLibrary([make_source("vault", "markdown", folder, max_notes=count)], cache=cache)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


async def _seconds_of_scan(library: NoteLibrary) -> float:
    """CPU time of the whole process: a scan works in a thread of its own."""
    start = time.process_time()
    await library.scan()
    return time.process_time() - start


def _read_and_parse(folder: Path) -> None:
    parser = MarkdownIt()
    for file in folder.rglob("*.md"):
        parser.parse(file.read_text("utf-8"))
