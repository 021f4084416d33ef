"""What each endpoint gives: exact shapes, errors, gzip and ETag."""

import asyncio
import csv
import gzip
import io
import json
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from memory.exchange import Evidence, Exchange, Scan, SentTo, Sighting, Usage
from memory.notes import MemoryDocument
from tests.web.conftest import READ_ONLY
from web.api import accepts_gzip

START = datetime(2026, 3, 4, 5, 6, 7, 890_000, UTC)
CANARY = Sighting(
    "shelf/birds/Canary.md", "Canary", "content", "line", 1, 1, (Evidence("/messages/0/content", 1, "line"),)
)
CAGE = Sighting("shelf/Cage.md", "Cage", "reference", "reference", 0, 0)
SONNET = SentTo("claude-sonnet-4", "cloud", "api.anthropic.com:443")
LLAMA = SentTo("llama3.2", "local", "127.0.0.1:11434")


def exchange(number: int, *sightings: Sighting, client: str = "claude-code", sent: SentTo = SONNET) -> Exchange:
    return Exchange(
        id=f"{number:04}",
        started_at=START + timedelta(seconds=number),
        provider="anthropic",
        protocol="anthropic",
        model=sent.model,
        client=client,
        conversation=None,
        to=sent.to,
        upstream=sent.upstream,
        scan=Scan("complete", (), sightings),
        sent_to=[sent],
    )


async def error_of(answer: Any) -> tuple[int, dict[str, str]]:
    body = await answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    return answer.status, body["error"]


async def test_a_name_that_is_no_utf8_hides_no_note(dashboard: Any) -> None:
    dashboard.shelf.documents.append(MemoryDocument("Half \udcff.md", "A file's name may be any bytes.\n"))
    nodes = (await get_json(dashboard, "/api/memory"))["nodes"]
    assert sorted(node["id"] for node in nodes) == ["shelf/Cage.md", "shelf/Half \udcff.md", "shelf/birds/Canary.md"]


async def test_the_map_is_scanned_for_the_first_who_asks(dashboard: Any) -> None:
    answers = await asyncio.gather(*(get_json(dashboard, "/api/memory") for _ in range(5)))
    assert dashboard.shelf.loads == 1
    body = answers[0]
    assert all(answer == body for answer in answers)
    assert list(body) == ["loadedAt", "sources", "nodes", "links", "exposure"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["loadedAt"])
    assert body["sources"] == [
        {
            "name": "shelf",
            "kind": "markdown",
            "location": "the test",
            "enabled": True,
            "notes": 2,
            "skipped": 0,
            "scannedAt": body["loadedAt"],
            "warnings": [],
            "error": None,
        }
    ]
    assert [(node["id"], node["title"], node["folder"], node["tags"], node["aliases"]) for node in body["nodes"]] == [
        ("shelf/birds/Canary.md", "Canary", "shelf/birds", ["birds"], []),
        ("shelf/Cage.md", "Cage", "shelf", [], ["Aviary"]),
    ]
    assert body["links"] == [["shelf/birds/Canary.md", "shelf/Cage.md"]]
    assert body["exposure"] == {}
    assert body == dashboard.services.note_library.snapshot.to_json() | {"exposure": {}}


async def test_the_map_carries_the_sharing_counts(dashboard: Any) -> None:
    await get_json(dashboard, "/api/memory")
    exposure = dashboard.services.exposure
    exposure.record([CANARY, CAGE], SONNET, START)
    exposure.record([CANARY], LLAMA, START + timedelta(seconds=1))
    body = await get_json(dashboard, "/api/memory")
    assert body["exposure"] == {
        "shelf/birds/Canary.md": {
            "localContent": 1,
            "localReference": 0,
            "cloudContent": 1,
            "cloudReference": 0,
            "firstShared": "2026-03-04T05:06:07.890Z",
            "lastShared": "2026-03-04T05:06:08.890Z",
            "models": {"claude-sonnet-4": 1, "llama3.2": 1},
        },
        "shelf/Cage.md": {
            "localContent": 0,
            "localReference": 0,
            "cloudContent": 0,
            "cloudReference": 1,
            "firstShared": "2026-03-04T05:06:07.890Z",
            "lastShared": "2026-03-04T05:06:07.890Z",
            "models": {"claude-sonnet-4": 1},
        },
    }


async def test_no_text_of_a_note_is_given(dashboard: Any) -> None:
    dashboard.services.exposure.record([CANARY], SONNET, START)
    dashboard.services.activity.put(exchange(1, CANARY))
    for path in ("/api/memory", "/api/activity", "/api/status"):
        assert "third cage" not in json.dumps(await get_json(dashboard, path))


async def test_refresh_reads_the_sources_again(dashboard: Any) -> None:
    await get_json(dashboard, "/api/memory")
    dashboard.shelf.documents.append(MemoryDocument("Seed.md", "For the canary.\n"))
    async with dashboard.ask("POST", "/api/memory/refresh") as answer:
        assert answer.status == 200
        body = await answer.json()
    assert [node["id"] for node in body["nodes"]] == ["shelf/birds/Canary.md", "shelf/Cage.md", "shelf/Seed.md"]
    assert dashboard.shelf.loads == 2
    assert (await get_json(dashboard, "/api/memory")) == body


async def test_reset_forgets_the_sharing_counts(dashboard: Any) -> None:
    dashboard.services.exposure.record([CANARY], SONNET, START)
    assert (await get_json(dashboard, "/api/memory"))["exposure"] != {}
    async with dashboard.ask("POST", "/api/memory/exposure/reset") as answer:
        assert (answer.status, await answer.json()) == (200, {"exposure": {}})
    assert (await get_json(dashboard, "/api/memory"))["exposure"] == {}


@pytest.mark.parametrize("path", ["/api/memory/refresh", "/api/memory/exposure/reset"])
async def test_a_write_takes_an_empty_body_or_an_object(dashboard: Any, path: str) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    for body, status in ((b"", 200), (b"{}", 200), (b"[]", 400), (b"{", 400), (b"\xff", 400), (b"[" * 100_000, 400)):
        async with dashboard.ask("POST", path, headers=headers, data=body) as answer:
            assert answer.status == status
            if status == 400:
                assert (await error_of(answer))[1]["code"] == "bad_json"


async def test_the_map_is_zipped_and_has_a_tag(dashboard: Any) -> None:
    async with dashboard.ask("GET", "/api/memory") as answer:
        plain, tag = await answer.read(), answer.headers["ETag"]
        assert "Content-Encoding" not in answer.headers
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert re.fullmatch(r'W/"[0-9a-f]{32}"', tag)
    async with dashboard.ask("GET", "/api/memory", headers={"Accept-Encoding": "br, gzip"}) as answer:
        assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert answer.headers["ETag"] == tag
        assert gzip.decompress(await answer.read()) == plain
    for sent in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
        async with dashboard.ask("GET", "/api/memory", headers={"If-None-Match": sent}) as answer:
            assert (answer.status, answer.headers["ETag"], await answer.read()) == (304, tag, b"")
    async with dashboard.ask("POST", "/api/memory/refresh", headers={"If-None-Match": "*"}) as answer:
        assert answer.status == 200
    dashboard.services.exposure.record([CAGE], SONNET, START)
    async with dashboard.ask("GET", "/api/memory", headers={"If-None-Match": tag}) as answer:
        assert answer.status == 200
        assert answer.headers["ETag"] != tag


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("GZIP;q=0.5", True),
        ("*", True),
        ("*;q=0, gzip", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("xgzip", False),
    ],
)
def test_accepts_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


async def test_an_activity_entry_is_given_whole(dashboard: Any) -> None:
    one = exchange(1, CANARY)
    one.finished_at = START + timedelta(seconds=3)
    one.usage = Usage(12, 34, 5, 6)
    one.request_bytes, one.response_bytes, one.status, one.outcome = 100, 200, 200, "answered"
    dashboard.services.activity.put(one)
    assert await get_json(dashboard, "/api/activity") == {
        "entries": [
            {
                "id": "0001",
                "startedAt": "2026-03-04T05:06:08.890Z",
                "finishedAt": "2026-03-04T05:06:10.890Z",
                "client": "claude-code",
                "conversation": None,
                "provider": "anthropic",
                "protocol": "anthropic",
                "model": "claude-sonnet-4",
                "to": "cloud",
                "askedTo": "cloud",
                "sentTo": [{"model": "claude-sonnet-4", "to": "cloud", "upstream": "api.anthropic.com:443"}],
                "notes": [
                    {
                        "id": "shelf/birds/Canary.md",
                        "title": "Canary",
                        "by": "content",
                        "grade": "line",
                        "matched": 1,
                        "distinctive": 1,
                        "resent": False,
                        "evidence": [{"pointer": "/messages/0/content", "lines": 1, "grade": "line"}],
                    }
                ],
                "decision": {"action": "allow", "rule": None, "rules": []},
                "scan": {"state": "complete", "reasons": []},
                "usage": {"input": 12, "output": 34, "cacheRead": 5, "cacheWrite": 6},
                "recalls": {"searches": 0, "memories": 0},
                "bytes": {"request": 100, "response": 200},
                "status": 200,
                "outcome": "answered",
                "sideRequest": False,
            }
        ],
        "next": None,
    }


@pytest.mark.parametrize(
    ("query", "ids", "following"),
    [
        ("", ["0004", "0003", "0002", "0001"], None),
        ("limit=4", ["0004", "0003", "0002", "0001"], None),
        ("limit=3", ["0004", "0003", "0002"], "0002"),
        ("limit=3&before=0002", ["0001"], None),
        ("before=0001", [], None),
        ("notes=only", ["0003", "0001"], None),
        ("note=shelf/Cage.md", ["0003"], None),
        ("note=shelf%2FCage.md", ["0003"], None),
        ("note=shelf", [], None),
        ("client=codex", ["0004", "0002"], None),
        ("model=llama3.2", ["0004"], None),
        ("client=codex&model=claude-sonnet-4&limit=1", ["0002"], None),
    ],
)
async def test_activity_is_filtered_and_paged(
    dashboard: Any, query: str, ids: list[str], following: str | None
) -> None:
    for one in (
        exchange(1, CANARY),
        exchange(2, client="codex"),
        exchange(3, CAGE, CANARY),
        exchange(4, client="codex", sent=LLAMA),
    ):
        dashboard.services.activity.put(one)
    body = await get_json(dashboard, f"/api/activity?{query}")
    assert ([entry["id"] for entry in body["entries"]], body["next"]) == (ids, following)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number from 1 to 1000"),
        ("limit=-1", "limit must be a number from 1 to 1000"),
        ("limit=", "limit must be a number from 1 to 1000"),
        ("limit=1e3", "limit must be a number from 1 to 1000"),
        ("limit=%D9%A3", "limit must be a number from 1 to 1000"),
        ("limit=" + "9" * 5000, "limit must be a number from 1 to 1000"),
        ("notes=all", "notes can only be 'only'; leave it out for all exchanges"),
        ("after=1", "there is no parameter 'after' here"),
    ],
)
async def test_activity_says_what_is_wrong_with_a_question(dashboard: Any, query: str, message: str) -> None:
    async with dashboard.ask("GET", f"/api/activity?{query}") as answer:
        assert await error_of(answer) == (400, {"code": "bad_request", "message": message})


async def test_status_says_who_asks(dashboard: Any) -> None:
    events = {"readers": 0, "published": 0, "dropped": 0}
    assert await get_json(dashboard, "/api/status") == {"version": "0", "role": "admin", "events": events}
    headers = await dashboard.log_in("read_only")
    async with dashboard.ask("GET", "/api/status", token=None, headers=headers) as answer:
        assert await answer.json() == {"version": "0", "role": "read_only", "events": events}


async def test_errors_of_the_server_have_the_same_shape(
    dashboard: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard.ask("GET", "/api/nothing") as answer:
        assert await error_of(answer) == (404, {"code": "not_found", "message": "there is nothing here"})
    async with dashboard.ask("DELETE", "/api/memory") as answer:
        assert answer.headers["Allow"] == "GET,HEAD"
        assert (await error_of(answer))[1]["code"] == "method_not_allowed"
    async with dashboard.ask(
        "POST", "/api/memory/refresh", headers={"Content-Type": "application/json"}, data=io.BytesIO(b" " * (2**20 + 1))
    ) as answer:
        assert (answer.status, (await error_of(answer))[1]["code"]) == (413, "too_large")
    assert caplog.records == []

    def broken() -> dict[str, Any]:
        raise RuntimeError("only for the terminal")

    monkeypatch.setattr(dashboard.services.note_library, "scan", broken)
    async with dashboard.ask("GET", "/api/memory") as answer:
        text = await answer.text()
        assert (answer.status, json.loads(text)["error"]["code"]) == (500, "internal")
    assert "only for the terminal" not in text
    assert "Traceback" not in text
    assert [record.getMessage() for record in caplog.records] == ["GET /api/memory failed"]


async def test_a_body_that_is_not_what_its_headers_say(dashboard: Any, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
    writer.write(
        f"POST /api/memory/refresh HTTP/1.1\r\nHost: 127.0.0.1:{dashboard.port}\r\n"
        "Authorization: Bearer admin-token-of-the-tests\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\nnot a size\r\n".encode()
    )
    async with asyncio.timeout(60):
        head = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert b" 400 " in head
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_page_that_is_not_there_is_no_page(dashboard: Any) -> None:
    async with dashboard.ask("GET", "/forecast") as answer:
        assert (await error_of(answer))[0] == 404


async def get_json(dashboard: Any, path: str) -> Any:
    async with dashboard.ask("GET", path) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        return await answer.json()


async def test_the_activity_as_a_file(dashboard: Any) -> None:
    for one in (exchange(1, CANARY, CAGE), exchange(2, client="=1+1")):
        dashboard.services.activity.put(one)
    entries = (await get_json(dashboard, "/api/activity"))["entries"]
    async with dashboard.ask("GET", "/api/activity/export", token=READ_ONLY) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/jsonl; charset=utf-8")
        assert re.fullmatch(
            r'attachment; filename="mitmemory-activity-\d{8}-\d{6}\.jsonl"', answer.headers["Content-Disposition"]
        )
        assert [json.loads(line) for line in (await answer.text()).splitlines()] == entries[::-1]
    async with dashboard.ask("GET", "/api/activity/export?format=csv") as answer:
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        rows = list(csv.DictReader((await answer.text("utf-8-sig")).splitlines()))
    assert [(row["id"], row["client"], row["note"]) for row in rows] == [
        ("0001", "claude-code", CANARY.note),
        ("0001", "claude-code", CAGE.note),
        ("0002", "'=1+1", ""),
    ]


async def test_the_export_begins_where_it_shall(dashboard: Any) -> None:
    for number in (1_700_000_000_000_000, 1_900_000_000_000_000):
        dashboard.services.activity.put(replace(exchange(1), id=f"{number:014x}"))
    for since, count in (("", 2), ("?since=30d", 1), ("?since=2023-11-14", 2), ("?since=2023-11-15", 1)):
        async with dashboard.ask("GET", f"/api/activity/export{since}") as answer:
            assert len((await answer.text()).splitlines()) == count, since


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("format=xlsx", "format can only be csv or jsonl"),
        ("since=yesterday", "since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z"),
        ("since=", "since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z"),
        ("limit=5", "there is no parameter 'limit' here"),
    ],
)
async def test_the_export_says_what_is_wrong_with_a_question(dashboard: Any, query: str, message: str) -> None:
    async with dashboard.ask("GET", f"/api/activity/export?{query}") as answer:
        assert await error_of(answer) == (400, {"code": "bad_request", "message": message})


async def test_an_export_that_breaks_off_does_not_look_whole(dashboard: Any, monkeypatch: Any, caplog: Any) -> None:
    async def broken(_: Any) -> Any:
        yield [exchange(1).to_json()]
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(dashboard.services.activity, "export", broken)
    async with dashboard.ask("GET", "/api/activity/export") as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.text()
    assert "the export of the activity broke off" in caplog.text
    assert (await get_json(dashboard, "/api/activity"))["entries"] == []
