"""The library takes over other sources and options while it runs."""

import asyncio
from pathlib import Path
from typing import Any

from memory.note_library import LibraryOptions, NoteLibrary
from memory.notes import MemoryDocument
from memory.sources import make_source


class Shelf:
    kind = location = "shelf"

    def __init__(self, *documents: MemoryDocument, name: str = "shelf") -> None:
        self.name = name
        self.documents = documents
        self.is_loading = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> Any:
        self.is_loading.set()
        await self.gate.wait()
        return self.documents


async def test_sources_are_replaced_at_the_next_scan() -> None:
    first, second = Shelf(MemoryDocument("a.md", "x")), Shelf(MemoryDocument("b.md", "x"))
    library = NoteLibrary([first])
    before = await library.scan()
    heard: list[object] = []
    library.on_change.append(heard.append)

    library.configure([second])

    assert library.sources == (second,)
    assert library.snapshot is before
    library.refresh_if_old()
    async with asyncio.timeout(60):
        await second.is_loading.wait()
        while not heard:  # noqa: ASYNC110  # a listener is a plain function
            await asyncio.sleep(0.01)
    after = library.snapshot
    assert [node["id"] for node in after.map.nodes()] == ["shelf/b.md"]
    assert heard == [after]


async def test_a_scan_that_is_running_starts_over() -> None:
    slow = Shelf(MemoryDocument("slow.md", "x"))
    slow.gate.clear()
    library = NoteLibrary([slow])
    heard: list[Any] = []
    library.on_change.append(heard.append)
    running = asyncio.ensure_future(library.scan())
    await slow.is_loading.wait()

    library.configure([Shelf(MemoryDocument("a.md", "x"), name="one")])
    slow.gate.set()

    assert [node["id"] for node in (await running).map.nodes()] == ["one/a.md"]
    assert len(heard) == 1


async def test_other_options_make_another_index(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("twelve chars")
    source = make_source("shelf", "markdown", tmp_path)
    library = NoteLibrary([source], options=LibraryOptions())
    first = await library.scan()

    library.configure([source], LibraryOptions(refresh_interval=5.0))
    assert (await library.scan()).index is first.index
    assert library.options.refresh_interval == 5.0
    library.configure([source], LibraryOptions(minimum_line_length=12))
    assert (await library.scan()).index.facts("shelf/a.md").distinctive == 1
    library.configure([source])
    assert library.options.minimum_line_length == 12
