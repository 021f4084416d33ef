"""Server-sent events over a real connection: order, replay, resync, slow readers, the end."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from memory.exchange import timestamp
from memory.note_map import NoteMap
from memory.notes import MemoryDocument
from tests.own_time import OwnTime
from web.events import WRITE_INTERVAL, EventHub

RETRY = {"retry": "2000"}


class Stream:
    """The blocks of an event stream, as dictionaries of their fields; comments have the key ''."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def block(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while line := (await self.answer.content.readline()).decode():
                if line == "\n":
                    return fields
                name, _, value = line.rstrip("\n").partition(":")
                fields[name] = value.removeprefix(" ")
        raise EOFError

    async def event(self) -> tuple[str, str, Any]:
        block = await self.block()
        return block["id"], block["event"], json.loads(block["data"])


@asynccontextmanager
async def listening(dashboard: Any, last: str | None = None, query: str = "") -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": last} if last else {}
    async with dashboard.ask("GET", f"/api/events{query}", headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        yield Stream(answer)


def publish(dashboard: Any, *numbers: int) -> None:
    for number in numbers:
        dashboard.services.events.publish("activity", {"number": number, "text": "ä\n\u2028"})


def expected(hub: EventHub, *numbers: int) -> list[tuple[str, str, Any]]:
    return [(f"{hub.boot}-{number}", "activity", {"number": number, "text": "ä\n\u2028"}) for number in numbers]


async def test_every_reader_gets_every_event_in_order(dashboard: Any) -> None:
    hub = dashboard.services.events
    publish(dashboard, 1)
    async with listening(dashboard) as one, listening(dashboard) as other:
        for stream in (one, other):
            assert await stream.block() == RETRY | {"id": f"{hub.boot}-1"}
        assert hub.readers == 2
        publish(dashboard, 2, 3)
        for stream in (one, other):
            assert [await stream.event() for _ in range(2)] == expected(hub, 2, 3)


async def test_what_is_no_unicode_arrives_all_the_same(dashboard: Any) -> None:
    hub = dashboard.services.events
    async with listening(dashboard) as stream:
        await stream.block()
        hub.publish("activity", {"model": "half of a pair: \ud83d"})
        assert await stream.event() == (f"{hub.boot}-1", "activity", {"model": "half of a pair: \ud83d"})


async def test_an_event_arrives_at_once_and_bursts_are_gathered(dashboard: Any) -> None:
    async with listening(dashboard) as stream:
        await stream.block()
        delays = []
        for number in range(1, 6):
            time_since = OwnTime()
            publish(dashboard, number)
            await stream.event()
            delays.append(time_since.seconds())
            await asyncio.sleep(WRITE_INTERVAL)
        assert min(delays) < WRITE_INTERVAL  # the least of five: other programs may hold up one of them
        publish(dashboard, *range(6, 406))
        assert [await stream.event() for _ in range(400)] == expected(dashboard.services.events, *range(6, 406))


@pytest.mark.parametrize("by_query", [False, True])
async def test_a_reader_that_comes_back_gets_what_it_missed(dashboard: Any, by_query: bool) -> None:
    hub = dashboard.services.events
    publish(dashboard, 1, 2, 3, 4)
    last = f"{hub.boot}-2"
    async with listening(dashboard, *((None, f"?lastEventId={last}") if by_query else (last,))) as stream:
        assert await stream.block() == RETRY
        assert [await stream.event() for _ in range(2)] == expected(hub, 3, 4)
        publish(dashboard, 5)
        assert await stream.event() == expected(hub, 5)[0]


async def test_a_reader_that_missed_nothing_gets_nothing(dashboard: Any) -> None:
    hub = dashboard.services.events
    for published in (0, 2):
        async with listening(dashboard, f"{hub.boot}-{published}") as stream:
            assert await stream.block() == RETRY
            publish(dashboard, published + 1, published + 2)
            assert [await stream.event() for _ in range(2)] == expected(hub, published + 1, published + 2)


async def test_events_that_nobody_can_have_missed_are_not_kept(open_dashboard: Any) -> None:
    async with open_dashboard(events=EventHub(return_seconds=0.0)) as dashboard:
        hub = dashboard.services.events
        async with listening(dashboard) as stream:
            await stream.block()
            publish(dashboard, 1)
            assert await stream.event() == expected(hub, 1)[0]
        async with asyncio.timeout(60):
            while hub.readers:
                await asyncio.sleep(0.01)
                publish(dashboard, 2)  # the hub notices a gone reader when it writes
        seen = hub.published
        async with listening(dashboard, f"{hub.boot}-{seen}") as stream:
            assert await stream.block() == RETRY
            publish(dashboard, seen + 1)
            assert await stream.event() == expected(hub, seen + 1)[0]
        async with asyncio.timeout(60):
            while hub.readers:
                await asyncio.sleep(0.01)
                publish(dashboard, 3)
        publish(dashboard, 4)
        async with listening(dashboard, f"{hub.boot}-{seen + 1}") as stream:
            assert (await stream.block())["event"] == "resync"


@pytest.mark.parametrize(
    "last",
    ["another-3", "{boot}-1", "{boot}-7", "{boot}-", "{boot}", "{boot}-x", "{boot}-٣", "-", "{boot}--1", "7" * 999],
)
async def test_a_reader_that_cannot_be_helped_loads_anew(open_dashboard: Any, last: str) -> None:
    async with open_dashboard(events=EventHub(ring_events=4)) as dashboard:
        hub = dashboard.services.events
        publish(dashboard, *range(1, 7))
        query = f"?lastEventId={last.format(boot=hub.boot)}"
        async with listening(dashboard, query=query) as stream:
            assert await stream.block() == RETRY | {"id": f"{hub.boot}-6", "event": "resync", "data": "{}"}
            publish(dashboard, 7)
            assert await stream.event() == expected(hub, 7)[0]
        async with listening(dashboard, f"{hub.boot}-3") as stream:
            assert await stream.block() == RETRY
            assert [await stream.event() for _ in range(4)] == expected(hub, 4, 5, 6, 7)


async def test_the_ring_is_bounded_by_bytes_too(open_dashboard: Any) -> None:
    async with open_dashboard(events=EventHub(ring_bytes=160)) as dashboard:
        hub = dashboard.services.events
        publish(dashboard, 1, 2, 3, 4)
        async with listening(dashboard, f"{hub.boot}-1") as stream:
            assert (await stream.block())["event"] == "resync"
        async with listening(dashboard, f"{hub.boot}-2") as stream:
            assert await stream.block() == RETRY
            assert await stream.event() == expected(hub, 3)[0]


async def test_a_quiet_stream_is_kept_alive(open_dashboard: Any) -> None:
    async with open_dashboard(events=EventHub(ping_interval=0.02)) as dashboard, listening(dashboard) as stream:
        await stream.block()
        assert await stream.block() == {"": "ping"}
        publish(dashboard, 1)
        while (block := await stream.block()) == {"": "ping"}:
            pass
        assert block["event"] == "activity"


async def test_a_reader_that_leaves_is_forgotten(dashboard: Any) -> None:
    hub = dashboard.services.events
    async with listening(dashboard) as stream:
        await stream.block()
        assert hub.readers == 1
        stream.answer.close()
    await until(lambda: hub.readers == 0)
    assert hub.dropped == 0


@pytest.mark.parametrize("bound", [{"queue_bytes": 400_000}, {"queue_events": 5}])
async def test_a_slow_reader_is_dropped_and_the_others_are_not(open_dashboard: Any, bound: dict[str, int]) -> None:
    hub = EventHub(ring_bytes=500_000, **bound)
    async with open_dashboard(events=hub) as dashboard, listening(dashboard) as quick, stuck_reader(dashboard):
        await quick.block()
        sent = 0
        while hub.dropped == 0:
            assert sent < 400, "the slow reader was never dropped"
            sent += 1
            hub.publish("activity", {"number": sent, "text": "x" * 120_000})
            assert (await quick.event())[2]["number"] == sent
        assert (hub.readers, hub.dropped) == (1, 1)
        assert sum(len(chunk) for _, chunk in hub._ring) <= 500_000
        publish(dashboard, sent + 1)
        assert await quick.event() == expected(hub, sent + 1)[0]


async def test_there_is_a_most_of_readers(open_dashboard: Any) -> None:
    async with open_dashboard(events=EventHub(most_readers=1)) as dashboard, listening(dashboard) as stream:
        await stream.block()
        async with dashboard.ask("GET", "/api/events") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "too_many_readers")


async def test_the_end_comes_in_under_a_second_with_streams_open(dashboard: Any) -> None:
    hub = dashboard.services.events
    async with listening(dashboard) as stream, stuck_reader(dashboard):
        await stream.block()
        for _ in range(200):  # until the socket's buffers are full, and the hub is stuck in a write
            hub.publish("activity", {"text": "x" * 120_000})
            await stream.event()
            if any(reader.writing for reader in hub._readers):
                break
        assert (hub.readers, hub.dropped) == (2, 0)
        publish(dashboard, 1)
        time_since = OwnTime()
        await dashboard.sidecar.stop()
        assert time_since.seconds() < 1.0
        assert (await stream.event())[2]["number"] == 1
        with pytest.raises(EOFError):
            await stream.block()
        assert hub.readers == 0
        publish(dashboard, 2)  # goes nowhere, harms nothing
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", dashboard.port)


async def test_a_change_of_the_map_is_told(dashboard: Any) -> None:
    async with listening(dashboard) as stream:
        await stream.block()
        async with dashboard.ask("POST", "/api/memory/refresh") as answer:
            loaded = (await answer.json())["loadedAt"]
        assert (await stream.event())[1:] == ("map", {"reason": "refresh", "loadedAt": loaded})
        async with dashboard.ask("POST", "/api/memory/refresh"):
            pass  # nothing changed: nothing is told
        dashboard.shelf.documents.append(MemoryDocument("Seed.md", "For the canary.\n"))
        await dashboard.services.note_library.scan()
        assert (await stream.event())[1:2] == ("map",)
        loaded = dashboard.services.note_library.snapshot.to_json()["loadedAt"]
        async with dashboard.ask("POST", "/api/memory/exposure/reset"):
            pass
        assert (await stream.event())[1:] == ("map", {"reason": "reset", "loadedAt": loaded})
    assert len(dashboard.services.note_library.on_change) == 1
    await dashboard.sidecar.stop()
    assert dashboard.services.note_library.on_change == []


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of notes of each map that is encoded."""
    counts: list[int] = []
    each_node = NoteMap.each_node

    def counting(note_map: NoteMap) -> Iterator[dict[str, Any]]:
        counts.append(len(note_map))
        return each_node(note_map)

    monkeypatch.setattr(NoteMap, "each_node", counting)
    return counts


async def test_a_changed_map_is_ready_when_pages_are_told(dashboard: Any, encodings: list[int]) -> None:
    library = dashboard.services.note_library
    async with listening(dashboard) as stream:
        await stream.block()
        told = []
        for count in (3, 4, 5):
            dashboard.shelf.documents.append(MemoryDocument(f"{count}.md", "For the canary.\n"))
            told.append((await library.scan()).loaded_at)
        for loaded in told:
            assert (await stream.event())[2]["loadedAt"] == timestamp(loaded)
        assert encodings[-1] == 5
        ready = len(encodings)
        async with dashboard.ask("GET", "/api/memory") as answer:
            assert len((await answer.json())["nodes"]) == 5
        assert len(encodings) == ready


async def test_without_a_page_a_change_is_not_encoded(dashboard: Any, encodings: list[int]) -> None:
    told = asyncio.Event()
    dashboard.services.events.publish = lambda kind, data: told.set()
    await dashboard.services.note_library.scan()
    await asyncio.wait_for(told.wait(), 60)
    assert encodings == []
    async with dashboard.ask("GET", "/api/memory") as answer:
        assert len((await answer.json())["nodes"]) == 2
    assert encodings == [2]


@asynccontextmanager
async def stuck_reader(dashboard: Any) -> AsyncIterator[None]:
    """A reader that asks for the events and never reads."""
    readers = dashboard.services.events.readers
    loop = asyncio.get_running_loop()
    request = (
        f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\n"
        "Authorization: Bearer admin-token-of-the-tests\r\n\r\n"
    )
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await loop.sock_connect(slow, ("127.0.0.1", dashboard.port))
        await loop.sock_sendall(slow, request.encode())
        await until(lambda: dashboard.services.events.readers == readers + 1)
        yield


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the hub has no reason to tell anyone of its readers
            await asyncio.sleep(0.01)
