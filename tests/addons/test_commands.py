"""The commands, called as mitmproxy calls them."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mitmproxy.addons.view import View
from mitmproxy.test import taddons

from addons.annotate import ENTRY, NOTES, annotate
from addons.commands import Commands
from memory.exchange import Scan
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from memory.scan import Scanner
from tests.addons.parts import MESSAGES, TIDES, Shelf, content, exchange_of, flow_to, seen


class Desk:
    def __init__(self, context: taddons.context) -> None:
        self.shelf = Shelf()
        self.note_library = NoteLibrary([self.shelf])
        self.master = context.master
        self.call = context.master.commands.call
        context.master.addons.add(Commands(self.note_library, Scanner(), largest_body=10**6))


async def scanned() -> None:
    """Once what `memory.scan` began is done."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "memory.scan"]
    assert len(tasks) == 1
    await tasks[0]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    with taddons.context(View()) as context:
        desk = Desk(context)
        await desk.note_library.scan()
        yield desk
        await desk.note_library.aclose()


async def test_refresh_reads_the_sources_again(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.shelf.documents.append(MemoryDocument("Clock.md", "The brass clock strikes thirteen on Mondays."))
    caplog.set_level(logging.INFO)
    desk.call("memory.refresh")
    desk.call("memory.refresh")  # while it is at it: once is enough
    async with asyncio.timeout(60):
        while "2 notes read" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
    assert (desk.shelf.loads, caplog.text.count("notes read")) == (2, 1)


async def test_notes_lists_id_title_and_lines(desk: Desk) -> None:
    assert desk.call("memory.notes") == [("vault/Tides.md", "Tides", "2")]


async def test_scan_looks_again_with_the_notes_of_now(desk: Desk) -> None:
    body = gzip.compress(json.dumps({"messages": [{"role": "user", "content": TIDES}]}).encode())
    known, unknown = (flow_to(MESSAGES, body, headers={"Content-Encoding": "gzip"}) for _ in range(2))
    annotate(known, exchange_of())
    assert known.comment == "0 notes -> claude-test (cloud)"
    desk.call("memory.scan", [known, unknown])
    await scanned()
    assert (known.comment, unknown.comment) == ("1 note -> claude-test (cloud)", "1 note")
    assert known.metadata[NOTES] == unknown.metadata[NOTES] == ["vault/Tides.md"]
    assert [note["matched"] for note in known.metadata[ENTRY]["notes"]] == [2]
    assert ENTRY not in unknown.metadata


async def test_scan_says_what_it_cannot_read(desk: Desk) -> None:
    flow = flow_to(MESSAGES, b"no gzip", headers={"Content-Encoding": "gzip"})
    desk.call("memory.scan", [flow])
    await scanned()
    assert (flow.comment, flow.metadata) == ("unscanned", {})


async def test_a_note_that_is_gone_is_listed_no_more(desk: Desk) -> None:
    flow = flow_to(MESSAGES, {"messages": [{"role": "user", "content": "Hello."}]})
    annotate(flow, exchange_of(scan=seen(content())))
    assert flow.metadata[NOTES] == ["vault/Tides.md"]
    desk.call("memory.scan", [flow])
    await scanned()
    assert NOTES not in flow.metadata


async def test_scan_leaves_the_event_loop_to_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    scan = Scanner.scan

    def watched(*arguments: Any) -> Scan:
        threads.append(threading.current_thread())
        return scan(*arguments)

    monkeypatch.setattr(Scanner, "scan", watched)
    desk.call("memory.scan", [flow_to(), flow_to()])
    await scanned()
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_scan_takes_what_a_filter_finds_as_in_the_console(desk: Desk) -> None:
    flow = flow_to(MESSAGES, {"messages": [{"role": "user", "content": TIDES}]})
    view = desk.master.addons.get("view")
    view.add([flow])
    desk.master.commands.execute("memory.scan @all")
    await scanned()
    assert flow.comment == "1 note"
