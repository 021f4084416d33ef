"""The saved layout and the communities through the API: who may, what is kept, what is refused, where it lies."""

import asyncio
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from memory.map_layout import MapLayout
from web.layout_api import LARGEST_LAYOUT

LAYOUT = "/api/memory/layout"
CANARY = "shelf/birds/Canary.md"
CAGE = "shelf/Cage.md"
READ_ONLY = "read-only-token-of-the-tests"


async def saved(dashboard: Any, token: str = READ_ONLY) -> Any:
    async with dashboard.ask("GET", LAYOUT, token=token) as answer:
        assert answer.status == 200
        return await answer.json()


async def put(dashboard: Any, value: Any) -> tuple[int, Any]:
    body = io.BytesIO(json.dumps(value).encode())
    async with dashboard.ask("PUT", LAYOUT, data=body, headers={"Content-Type": "application/json"}) as answer:
        return answer.status, await answer.json()


async def test_what_an_admin_saves_everybody_reads(dashboard: Any) -> None:
    assert await saved(dashboard) == {"positions": {}}
    assert await put(dashboard, {"positions": {CANARY: [1.239, -2], CAGE: [0, 1e6]}}) == (200, {"saved": 2})
    assert await saved(dashboard) == {"positions": {CANARY: [1.24, -2.0], CAGE: [0.0, 1e6]}}
    assert await put(dashboard, {"positions": {CAGE: [5, 6]}}) == (200, {"saved": 1})
    assert await saved(dashboard) == {"positions": {CAGE: [5.0, 6.0]}}


async def test_it_is_scanned_first_so_that_a_page_from_before_the_start_loses_nothing(dashboard: Any) -> None:
    assert await put(dashboard, {"positions": {CAGE: [1, 2]}}) == (200, {"saved": 1})
    assert dashboard.shelf.loads == 1


async def test_who_only_reads_does_not_save(dashboard: Any) -> None:
    async with dashboard.ask("PUT", LAYOUT, token=READ_ONLY, json={"positions": {CAGE: [1, 2]}}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "admin_only")
    async with dashboard.ask("PUT", LAYOUT, token=None, json={"positions": {CAGE: [1, 2]}}) as answer:
        assert answer.status == 401
    assert await saved(dashboard) == {"positions": {}}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[]",
        '{"positions": []}',
        '{"positions": {"shelf/Cage.md": 1}}',
        '{"positions": {"shelf/Cage.md": [1]}}',
        '{"positions": {"shelf/Cage.md": [1, 2, 3]}}',
        '{"positions": {"shelf/Cage.md": ["1", "2"]}}',
        '{"positions": {"shelf/Cage.md": [true, 2]}}',
        '{"positions": {"shelf/Cage.md": [NaN, 2]}}',
        '{"positions": {"shelf/Cage.md": [1, Infinity]}}',
        '{"positions": {"shelf/Cage.md": [1, 1e999]}}',
        '{"positions": {"shelf/Cage.md": [1, 1000001]}}',
        '{"positions": {"shelf/Cage.md": [1, -1' + "0" * 400 + "]}}",
        '{"positions": {"shelf/Cage.md": [1, 1' + "0" * 5000 + "]}}",
        '{"positions": {"nobody": [null, 2]}}',
        '{"positions": {}, "more": 1}',
        '{"positions": ' + '{"a":' * 100_000 + "}",
    ],
    ids=range(18),
)
async def test_what_cannot_be_a_layout_is_refused_and_the_old_one_kept(dashboard: Any, body: str) -> None:
    assert (await put(dashboard, {"positions": {CAGE: [1, 2]}}))[0] == 200
    async with dashboard.ask("PUT", LAYOUT, data=body.encode(), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] in ("bad_json", "bad_request")
    assert await saved(dashboard) == {"positions": {CAGE: [1.0, 2.0]}}


async def test_ten_megabytes_are_refused(dashboard: Any) -> None:
    layout = {"positions": {f"shelf/{number:0100}.md": [1, 2] for number in range(90_000)}}
    assert len(json.dumps(layout)) > 10_000_000 > LARGEST_LAYOUT
    status, answer = await put(dashboard, layout)
    assert (status, answer["error"]["code"]) == (413, "too_large")


async def test_a_layout_of_a_large_map_is_more_than_other_bodies_may_have(dashboard: Any) -> None:
    positions = {f"shelf/{number:060}.md": [1, 2] for number in range(20_000)}
    assert await put(dashboard, {"positions": positions | {CAGE: [1, 2]}}) == (200, {"saved": 1})


async def test_an_id_is_a_name_and_no_path(open_dashboard: Any, tmp_path: Path) -> None:
    file = tmp_path / "state" / "layout.json"
    async with open_dashboard(map_layout=MapLayout(file)) as dashboard:
        ids = ["../../../etc/passwd", "shelf/../../x", "/etc/passwd", "..", "\ud800", "__proto__", CAGE]
        assert await put(dashboard, {"positions": {one: [1, 2] for one in ids}}) == (200, {"saved": 1})
        assert await saved(dashboard) == {"positions": {CAGE: [1.0, 2.0]}}
    assert sorted(path for path, *_ in os.walk(tmp_path)) == [str(tmp_path), str(file.parent)]
    assert os.listdir(file.parent) == [file.name]  # noqa: PTH208 - as pathlib it would be a call that waits


async def test_it_outlives_the_suite_in_a_file_of_its_own(open_dashboard: Any, tmp_path: Path) -> None:
    file = tmp_path / "state" / "layout.json"
    async with open_dashboard(map_layout=MapLayout(file)) as dashboard:
        await put(dashboard, {"positions": {CAGE: [1, 2]}})
        await put(dashboard, {"positions": {CAGE: [3, 4]}})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == [file.name]  # noqa: PTH208 - as pathlib it would be a call that waits
    async with open_dashboard(map_layout=MapLayout(file)) as dashboard:
        assert await saved(dashboard) == {"positions": {CAGE: [3.0, 4.0]}}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"positions": {"a": [1]}}', '{"positions": 1}', "\xff"])
async def test_a_damaged_file_is_no_layout(
    open_dashboard: Any, tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "layout.json"
    file.write_bytes(content.encode("latin-1"))
    async with open_dashboard(map_layout=MapLayout(file)) as dashboard:
        assert await saved(dashboard) == {"positions": {}}
        assert "laid out anew" in caplog.text
        assert await put(dashboard, {"positions": {CAGE: [1, 2]}}) == (200, {"saved": 1})


async def test_where_it_cannot_be_written_it_is_said_and_holds_until_the_end(
    open_dashboard: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    async with open_dashboard(map_layout=MapLayout(tmp_path / "file" / "layout.json")) as dashboard:
        status, answer = await put(dashboard, {"positions": {CAGE: [1, 2]}})
        assert (status, answer["error"]["code"]) == (503, "not_kept")
        assert await saved(dashboard) == {"positions": {CAGE: [1.0, 2.0]}}


async def test_saving_at_once_keeps_one_whole_layout(open_dashboard: Any, tmp_path: Path) -> None:
    file = tmp_path / "layout.json"
    async with open_dashboard(map_layout=MapLayout(file)) as dashboard:
        answers = await asyncio.gather(*(put(dashboard, {"positions": {CAGE: [one, one]}}) for one in range(8)))
        assert answers == [(200, {"saved": 1})] * 8
        kept = json.loads(file.read_text("utf-8"))["positions"][CAGE]
        assert kept == (await saved(dashboard))["positions"][CAGE]
        assert kept[0] == kept[1]


async def test_communities_are_found_when_asked_for(dashboard: Any) -> None:
    await dashboard.services.note_library.scan()
    async with dashboard.ask("GET", "/api/memory/communities", token=READ_ONLY) as answer:
        assert await answer.json() == {"communities": [[CAGE, CANARY]]}
    dashboard.shelf.documents.pop()
    await dashboard.services.note_library.scan()
    async with dashboard.ask("GET", "/api/memory/communities") as answer:
        assert await answer.json() == {"communities": []}  # a note alone is no group
