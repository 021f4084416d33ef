"""The sources as the dashboard changes them: what is written to mitm.yaml, what is refused, what is taken over."""

import asyncio
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from addons import config_writing
from addons.config import Config, load_config
from addons.suite import Suite
from memory.sources.markdown import MarkdownSource
from tests.addons.changing import (
    TEXT,
    Change,
    at_home,
    source,
    stat_of,
    text_of,
    write,
    written,
)
from tests.addons.conftest import configuration
from tests.harness import SuiteProcess
from web.settings import NotChangedError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


async def test_what_stands_in_the_file(file: Path, home: Path) -> None:
    change = Change(file)
    assert await change.settings.sources() == {
        "sources": [
            source("first", path=str(file.parent / "first"), exclude=["Old/*"]),
            source("second", path=str(home / "second"), enabled=False),
        ],
        "version": config_writing.version_of(TEXT.encode()),
        "file": str(file),
        "allowProcessSettings": False,
        "claudeCode": str(home / ".claude"),
    }


async def test_claude_code_is_added_and_all_else_stays(file: Path, home: Path) -> None:
    change = Change(file)
    given = await change.sources()
    answer = await change.settings.change_sources([*given, source("claude-code", "claude_code")], None)
    line = "    - {name: claude-code, type: claude_code}\n"
    assert text_of(file) == TEXT.replace("enabled: no}\n", f"enabled: no}}\n{line}")
    assert answer["sources"] == [*given, source("claude-code", "claude_code", str(home / ".claude"))]
    assert answer["version"] == config_writing.version_of(text_of(file).encode())
    assert change.taken_over == [file]


async def test_conversations_are_added_where_they_are_kept(file: Path) -> None:
    text = TEXT.replace("state: null", "state: kept")
    write(file, text)
    change = Change(file)
    given = await change.sources()
    answer = await change.settings.change_sources([*given, source("conversations", "conversations")], None)
    line = "    - {name: conversations, type: conversations}\n"
    assert text_of(file) == text.replace("enabled: no}\n", f"enabled: no}}\n{line}")
    directory = str(file.parent / "kept" / "memory")
    assert answer["sources"] == [*given, source("conversations", "conversations", directory)]
    await change.settings.change_sources([*answer["sources"][:2], answer["sources"][2] | {"name": "talk"}], None)
    assert "- {name: talk, type: conversations}" in text_of(file)
    elsewhere = source("elsewhere", "conversations", str(file.parent))
    refused = await Change(file).refused([*given, elsewhere])
    assert refused[1].startswith("elsewhere would have mitmemory read a place that mitm.yaml does not name")


async def test_a_source_is_switched_renamed_and_reads_less(file: Path) -> None:
    change = Change(file)
    first, second = await change.sources()
    await change.settings.change_sources(
        [first | {"exclude": ["Old/*", "Inbox.md"], "enabled": False}, second | {"name": "Zweite", "enabled": True}],
        None,
    )
    assert text_of(file) == TEXT.replace(
        'exclude: ["Old/*"]}   # the first', 'exclude: ["Old/*", "Inbox.md"], enabled: false} # the first'
    ).replace("{name: second, path: ~/second, enabled: no}", "{name: Zweite, path: ~/second, enabled: true}")


async def test_sources_are_removed(file: Path) -> None:
    change = Change(file)
    _, second = await change.sources()
    await change.settings.change_sources([second], None)
    assert text_of(file) == TEXT.replace('    - {name: first, path: first, exclude: ["Old/*"]}   # the first\n', "")
    assert (await change.settings.change_sources([], None))["sources"] == []
    assert "# and more" in text_of(file)


async def test_nothing_changed_writes_nothing(file: Path) -> None:
    change = Change(file)
    before = stat_of(file)
    await change.settings.change_sources(await change.sources(), None)
    assert stat_of(file) == before


async def test_a_new_place_is_refused_and_allowed_by_the_setting(file: Path, home: Path) -> None:
    (home / "second").mkdir(parents=True)
    given = await Change(file).sources()
    new = [*given, source("etc", path="/etc", extensions=[".conf"])]
    cause, message = await Change(file).refused(new)
    assert (cause, message.partition(":")[0]) == (
        "refused",
        "etc would have mitmemory read a place that mitm.yaml does not name",
    )

    allowed = Change(file, allowed=True)
    await allowed.settings.change_sources([*new, source("own", "facts:Facts", "~/facts.db")], None)
    assert text_of(file) == TEXT.replace(
        "enabled: no}\n",
        'enabled: no}\n    - {name: etc, type: markdown, path: "/etc", extensions: [".conf"]}\n'
        '    - {name: own, type: "facts:Facts", path: "~/facts.db"}\n',
    )


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (
            source("first", path="x"),
            "memory.sources[2]: `first` is the name of `memory.sources[0]` too; mend: give each",
        ),
        (source("", path="x"), "memory.sources[2].name: '' is no name; mend: write a word or two"),
        (source("a/b", path="x"), "memory.sources[2].name: `a/b` holds a slash"),
        (
            source("a", "markdwon", "x"),
            "memory.sources[2].type: `markdwon` is no type of source; mend: did you mean `markdown`?",
        ),
        (source("a"), "memory.sources[2]: `path` is missing; mend: say where the notes are"),
        (source("a", path=""), "memory.sources[2].path: `` is empty"),
        (source("a", path="$NOT_SET_ANYWHERE"), "memory.sources[2].path: `$NOT_SET_ANYWHERE` names the variable"),
        (source("a", path="x\0"), "memory.sources[2].path: `x\\x00` holds a NUL character"),
        (source("a", path="x", exclude=["!"]), "memory.sources[2].exclude[0]: `!` is no pattern"),
        (source("a", path="x", extensions=["*"]), "memory.sources[2].extensions[0]: `*` is no extension"),
        (
            source("a", "claude_code", extensions=[".x"]),
            "memory.sources[2].extensions: only sources of type `markdown`",
        ),
        (source("a", path="x" * 1_100_000), "the configuration would be larger than 1 MiB"),
    ],
)
async def test_what_makes_no_configuration(file: Path, new: dict[str, Any], said: str) -> None:
    change = Change(file, allowed=True)
    cause, message = await change.refused([*(await change.sources()), new])
    assert (cause, message[: len(said)]) == ("invalid", said)


async def test_a_source_that_a_rule_names_is_not_removed(file: Path) -> None:
    write(file, f"{TEXT}rules:\n  - {{name: r, when: {{folder: 'first/**'}}, then: block}}\n")
    cause, message = await Change(file).refused([source("second", path="~/second", enabled=False)])
    assert cause == "invalid"
    assert message.startswith("rules[0]")


@pytest.fixture
async def suite(file: Path) -> AsyncIterator[Suite]:
    (file.parent / "first").mkdir()
    (file.parent / "first" / "a.md").write_text("a line that is long enough to be found again")
    write(file, f"{TEXT}dashboard: {{listen: 127.0.0.1:8090}}\n")
    suite = Suite(load_config(file))
    await suite.note_library.scan()
    yield suite
    suite.reload.done()
    await suite.note_library.aclose()


async def test_the_running_suite_takes_it_over_at_once(suite: Suite) -> None:
    suite.reload._every = 0.01
    suite.reload.running()
    await asyncio.sleep(0)
    settings = suite._settings()
    [first, _] = (await settings.sources())["sources"]
    kept = suite.note_library.sources[0]
    applied: list[Config] = []
    apply = suite.reload._apply

    def counted(config: Config) -> None:
        applied.append(config)
        apply(config)

    suite.reload._apply = counted
    answer = await settings.change_sources([first, source("claude-code", "claude_code")], None)
    assert [one.name for one in suite.note_library.sources] == ["first", "claude-code"]
    assert suite.note_library.sources[0] is kept, "it knows what it has read"
    assert isinstance(kept, MarkdownSource)
    assert [one["name"] for one in answer["sources"]] == ["first", "claude-code"]
    assert suite.status()["warnings"] == []
    await settings.change_sources([first], None)
    for _ in range(10):  # looks of the watch, which finds what it was told already
        await asyncio.sleep(0.02)
    assert [one.name for one in suite.note_library.sources] == ["first"]
    assert [count for count, _ in groupby(len(config.memory.sources) for config in applied)] == [2, 1]


async def test_the_memory_of_a_client_is_switched(file: Path) -> None:
    text = (
        "clients:\n  - {name: Editor, match: {proxy_user: ed}}  # mine\n"
        "  - {name: b, match: {proxy_user: b}, memory_enabled: false}\n"
    )
    write(file, text)
    change = Change(file)
    await change.settings.switch_memory("b", enabled=False)
    assert text_of(file) == text
    await change.settings.switch_memory("editor", enabled=True)
    switched = text.replace("{proxy_user: ed}}  #", "{proxy_user: ed}, memory_enabled: true} #")
    assert text_of(file) == switched
    await change.settings.switch_memory("b", enabled=True)
    assert text_of(file) == switched.replace("memory_enabled: false", "memory_enabled: true")
    assert change.taken_over == [file] * 3
    for client in ("curl", "Editor", "../b"):
        with pytest.raises(NotChangedError, match="names no such client") as raised:
            await change.settings.switch_memory(client, enabled=True)
        assert raised.value.cause == "unknown"


async def test_a_memory_without_a_place_is_not_switched_on(file: Path) -> None:
    write(file, "state: null\nclients:\n  - {name: a, match: {proxy_user: a}}\n")
    with pytest.raises(NotChangedError, match="there is no place for it") as raised:
        await Change(file).settings.switch_memory("a", enabled=True)
    assert raised.value.cause == "invalid"


def test_the_status_says_which_file_and_what_is_not_seen(suite: Suite, file: Path) -> None:
    suite.stages.scan.reasons["off"] = 3
    suite.stages.record.clients.add("curl")
    status = suite.status()
    assert status["configuration"] == str(file)
    assert status["configFlag"] == f"--config {file}"
    assert status["authority"] is None, "without a state directory it is made when the proxy starts"
    assert status["notSeen"] == {"reasons": {"off": 3}, "untrustingHosts": [], "passedThroughHosts": []}
    given = suite.clients()
    assert [one["client"] for one in given["clients"]] == ["curl"]
    assert (given["lines"], given["conversations"]) == ([], None)


def test_a_suite_that_runs(tmp_path: Path, vault: Path) -> None:
    clients = [{"name": "nightly", "match": {"proxy_user": "nightly"}}]
    with SuiteProcess(tmp_path, configuration(vault, {}, clients=clients)) as suite:
        given = suite.api("api/memory/sources", token="read_only").body
        sources = [*given["sources"], source("claude-code", "claude_code", enabled=False)]
        wanted = {"sources": sources, "version": given["version"]}
        assert suite.api("api/memory/sources", method="PUT", token="read_only", body=wanted).status == 403
        answer = suite.api("api/memory/sources", method="PUT", body=wanted)
        assert (answer.status, [one["name"] for one in answer.body["sources"]]) == (200, ["vault", "claude-code"])
        assert suite.api("api/memory/sources", method="PUT", body=wanted).status == 409
        status = suite.api("api/status").body
        assert [
            (one["name"], one["enabled"]) for one in suite.api("api/memory/refresh", method="POST").body["sources"]
        ] == [
            ("vault", True),
            ("claude-code", False),
        ]
        assert load_config(suite.config).memory.sources[1].name == "claude-code"
        assert status["configuration"] == str(suite.config)
        assert (status["authority"]["certificate"], status["authority"]["problem"]) == (str(suite.ca), None)
        lines = suite.api("api/clients").body["lines"]
        assert lines[0]["client"] == "nightly"
        assert f"@{suite.proxy.removeprefix('http://')}\n" in lines[0]["shells"]["bash"]
        assert str(suite.ca) in lines[0]["shells"]["powershell"]
