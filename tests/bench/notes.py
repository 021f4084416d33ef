"""Reading a folder of notes and building map and index (goals: notes.md, "Speed to reach").

The files have just been written, so reading them is reading memory: what is measured is our own work.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from markdown_it import MarkdownIt

from memory.library import NoteLibrary
from memory.sources import make_source
from tests.bench.measure import Figure, settled_memory
from tests.bench.synthetic import SyntheticNote, Writer, write_vault

ROUNDS = 2
RESCANS = 5
GOALS = {5_000: (6.0, 2.0), 50_000: (60.0, 20.0)}
"""Notes -> seconds for the first load."""
UNCHANGED = (1.0, 0.4)
"""Seconds for 50,000 notes; fewer notes get their share of it."""
EDITED = (1.5, 0.5)


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    for count in GOALS if large else [5_000]:
        with tempfile.TemporaryDirectory(prefix="mitmemory-bench-") as folder:
            notes = Writer(seed).vault(count)
            write_vault(Path(folder), notes)
            yield from asyncio.run(_measured(Path(folder), notes, rounds=1 if count > 5_000 else ROUNDS))


async def _measured(folder: Path, notes: list[SyntheticNote], *, rounds: int) -> list[Figure]:
    count, megabytes = len(notes), sum(len(note.text.encode()) for note in notes) / 1e6
    loads: list[float] = []
    parses: list[float] = []
    with settled_memory():
        for _ in range(rounds):
            library = _library(folder, count)
            loads.append(await _seconds_of_scan(library))
            start = time.process_time()
            _read_and_parse(folder)
            parses.append(time.process_time() - start)
        assert len(library.snapshot.index.notes) == count
        unchanged = [await _seconds_of_scan(library) for _ in range(RESCANS)]
        edited = []
        for number in range(rounds):
            with (folder / notes[number].path).open("a", encoding="utf-8") as file:
                file.write(f"One more line that the person added, number {number}.\n")
            before = library.snapshot.index
            edited.append(await _seconds_of_scan(library))
            assert library.snapshot.index is not before
    await library.aclose()
    load, share = median(loads), count / 50_000
    tenth = "" if share == 1 else f"goals: {share:.0%} of those for 50,000"
    return [
        Figure(
            f"first load and index, {count:,} notes ({megabytes:.0f} MB)",
            load,
            "s",
            *GOALS[count],
            baseline=f"markdown-it-py alone, {median(parses):.1f} s",
            ratio=median(parses) / load,
        ),
        *(
            Figure(
                f"rescan, {what}, {count:,} notes",
                median(seconds),
                "s",
                *(goal * share for goal in goals),
                baseline=f"the first load, {load:.1f} s",
                ratio=load / median(seconds),
                note=tenth,
            )
            for what, seconds, goals in (("nothing changed", unchanged, UNCHANGED), ("after one edit", edited, EDITED))
        ),
    ]


def _library(folder: Path, count: int) -> NoteLibrary:
    return NoteLibrary([make_source("vault", "markdown", folder, max_notes=count)])


async def _seconds_of_scan(library: NoteLibrary) -> float:
    """CPU time of the whole process: a scan works in a thread of its own."""
    start = time.process_time()
    await library.scan()
    return time.process_time() - start


def _read_and_parse(folder: Path) -> None:
    parser = MarkdownIt()
    for file in folder.rglob("*.md"):
        parser.parse(file.read_text("utf-8"))
