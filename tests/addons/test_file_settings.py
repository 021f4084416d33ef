"""The sources as the dashboard changes them: what is written to mitm.yaml, what is refused, what is taken over."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from addons import config_writing
from addons.config import Config, load_config
from addons.config_writing import ConfigFile, NotWrittenError
from addons.file_settings import FileSettings
from addons.suite import Suite
from memory.sources.markdown import MarkdownSource
from tests.addons.conftest import configuration
from tests.harness import SuiteProcess
from web.settings import NotChangedError

TEXT = """\
# mine
memory:
  sources:
    - {name: first, path: first, exclude: ["Old/*"]}   # the first
    # and more
    - {name: second, path: ~/second, enabled: no}
state: null
"""


class Change:
    """Changes one mitm.yaml, and says what was taken over."""

    def __init__(self, file: Path, *, allowed: bool = False) -> None:
        self.file = file
        self.taken_over: list[Path] = []
        self.config_file = ConfigFile(file)
        self.settings = FileSettings(self.config_file, allow_process_settings=allowed, take_over=self._take_over)

    async def _take_over(self, file: Path) -> None:
        self.taken_over.append(file)

    async def sources(self) -> list[dict[str, Any]]:
        return list((await self.settings.sources())["sources"])

    async def refused(self, sources: list[dict[str, Any]], version: str | None = None) -> tuple[str, str]:
        before = self.file.read_bytes() if self.file.exists() else None
        with pytest.raises(NotChangedError) as raised:
            await self.settings.change_sources(sources, version)
        assert (self.file.read_bytes() if self.file.exists() else None) == before
        assert self.taken_over == []
        assert [
            path.name for path in self.file.parent.iterdir() if path.name.endswith("yaml") or "yaml." in path.name
        ] in (
            [self.file.name],
            [],
        )
        return raised.value.cause, str(raised.value)


def text_of(file: Path) -> str:
    return file.read_text("utf-8")


def write(file: Path, text: str | bytes) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def chmod(file: Path, mode: int) -> None:
    file.chmod(mode)


def remove(file: Path) -> None:
    file.unlink()


def link(file: Path, real: Path) -> None:
    file.unlink()
    file.symlink_to(real)


def is_link(file: Path) -> bool:
    return file.is_symlink()


def stat_of(file: Path) -> os.stat_result:
    return file.stat()


def source(name: str, kind: str = "markdown", path: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "path": path, "exclude": [], "extensions": [], "enabled": True} | more


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("MITMEMORY_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "mitm.yaml").write_text(TEXT, "utf-8")
    return folder / "mitm.yaml"


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


async def test_a_file_that_changed_meanwhile(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change(file)
    given = await change.settings.sources()
    write(file, TEXT.replace("# mine", "# mine too"))
    assert (await change.refused([], given["version"]))[0] == "changed"

    def meanwhile(path: Path, data: bytes) -> None:
        path.write_bytes(data)
        write(file, "state: null\n")

    monkeypatch.setattr(config_writing, "_write", meanwhile)
    with pytest.raises(NotChangedError, match="was changed meanwhile") as raised:
        await change.settings.change_sources([], None)
    assert raised.value.cause == "changed"
    assert text_of(file) == "state: null\n"
    assert [one.name for one in file.parent.iterdir()] == ["mitm.yaml"]


async def test_two_changes_at_once(file: Path) -> None:
    change = Change(file)
    given = await change.settings.sources()
    first, second = given["sources"]
    answers = await asyncio.gather(
        change.settings.change_sources([first], given["version"]),
        change.settings.change_sources([second], given["version"]),
        return_exceptions=True,
    )
    assert isinstance(answers[0], dict)
    assert isinstance(answers[1], NotChangedError)
    assert (answers[1].cause, [one["name"] for one in await change.sources()]) == ("changed", ["first"])

    await asyncio.gather(
        change.settings.change_sources([first, source("a", "claude_code")], None),
        change.settings.change_sources([source("b", "claude_code")], None),
    )
    assert [one["name"] for one in await change.sources()] == ["b"], "one after the other, each whole"
    assert load_config(file).memory.sources[0].name == "b"


async def test_a_file_that_is_missing_broken_or_read_only(file: Path) -> None:
    change = Change(file)
    given = await change.sources()
    chmod(file, 0o444)
    assert await change.refused(given[:1]) == (
        "unwritable",
        f"{file} is read-only: make it writable, or edit it by hand",
    )
    chmod(file, 0o644)
    write(file, "memory: [\n")
    cause, message = await change.refused(given)
    assert (cause, message.partition(".")[0]) == ("unwritable", f"Mend {file.parent}/mitm")
    write(file, b"\xff")
    assert (await change.refused(given))[1] == f"{file} is not UTF-8: save it as UTF-8"
    remove(file)
    assert (await change.refused(given))[1] == (
        f"{file} cannot be read (No such file or directory): put it back, or restart mitmemory"
    )
    with pytest.raises(NotChangedError):
        await change.settings.sources()


async def test_a_folder_that_may_not_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(path: Path, _: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(config_writing, "_write", no)
    cause, message = await Change(file).refused([])
    assert (cause, message.endswith("cannot be written (Permission denied)")) == ("unwritable", True)


async def test_mode_link_and_byte_order_mark_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    link(file, real)
    change = Change(file)
    given = await change.sources()
    await change.settings.change_sources([source(**given[0] | {"path": "first"})], None)
    assert is_link(file)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    kept = TEXT.replace("    - {name: second, path: ~/second, enabled: no}\n", "").replace("\n", "\r\n")
    assert real.read_bytes() == b"\xef\xbb\xbf" + kept.encode()


@pytest.mark.parametrize(
    "text",
    [
        "proxy: {mitmproxy: {ignored: &out [x]}}\nmemory:\n  sources:\n    - {name: a, path: a, exclude: *out}\n",
        "memory:\n  sources: &all\n    - {name: a, path: a, exclude: &out [x]}\nproxy: {mitmproxy: {ignored: *out}}\n",
        "memory:\n  sources: [{name: a, path: a, exclude: &out [x]}]\nproxy: {mitmproxy: {ignored: *out}}\n",
    ],
)
async def test_a_list_that_hangs_on_others_is_changed_only_alone(file: Path, text: str) -> None:
    write(file, text)
    change = Change(file)
    [first] = await change.sources()
    await change.settings.change_sources([first], None)
    assert text_of(file) == text
    change = Change(file)
    answers: list[Any] = await asyncio.gather(
        change.settings.change_sources([first | {"enabled": False}], None), return_exceptions=True
    )
    answer = answers[0]
    if isinstance(answer, NotChangedError):
        said = "cannot be changed from here without changing more: edit it by hand"
        assert (answer.cause, str(answer).endswith(said), text_of(file)) == ("unwritable", True, text)
    config = load_config(file)
    assert config.memory.sources[0].enabled is isinstance(answer, NotChangedError)
    assert config.proxy.mitmproxy == {"ignored": ["x"]}
    assert config.memory.sources[0].exclude == ("x",)


async def test_the_default_of_a_package_is_copied_into_the_state_directory(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "addons"
    package.mkdir()
    shipped = package / "mitm.yaml"
    shipped.write_text("# shipped\nmemory:\n  sources: []   # none yet\n", "utf-8")
    monkeypatch.setattr(config_writing, "shipped_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "find_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "__file__", str(package / "config_writing.py"))
    change = Change(shipped)
    assert (await change.settings.sources())["file"] == str(home / ".mitmemory" / "mitm.yaml")

    answer = await change.settings.change_sources([source("claude-code", "claude_code")], None)
    made = home / ".mitmemory" / "mitm.yaml"
    assert text_of(made) == (
        "# shipped\nmemory:\n  sources:      # none yet\n    - {name: claude-code, type: claude_code}\n"
    )
    assert (stat.S_IMODE(made.stat().st_mode), stat.S_IMODE(made.parent.stat().st_mode)) == (0o600, 0o700)
    assert text_of(shipped).endswith("sources: []   # none yet\n")
    assert (change.taken_over, answer["file"]) == ([made], str(made))
    await change.settings.change_sources([], None)
    assert load_config(made).memory.sources == ()
    assert text_of(shipped).startswith("# shipped\nmemory:\n  sources: []"), "the made one is changed from then on"


async def test_a_file_that_somebody_made_there_meanwhile_stays(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "addons" / "mitm.yaml"
    shipped.parent.mkdir()
    shipped.write_text("memory: {}\n", "utf-8")
    monkeypatch.setattr(config_writing, "shipped_config", lambda: shipped)
    monkeypatch.setattr(config_writing, "__file__", str(shipped.parent / "config_writing.py"))
    made = home / ".mitmemory" / "mitm.yaml"
    made.parent.mkdir(parents=True)
    made.write_text("mode: annotate\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotChangedError, match="is there now: restart mitmemory to use it"):
        await Change(shipped).settings.change_sources([source("claude-code", "claude_code")], None)
    assert text_of(made) == "mode: annotate\n"


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


def test_owner_and_group_stay(file: Path) -> None:
    if not hasattr(os, "chown") or os.geteuid() != 0:
        pytest.skip("only the system's administrator may give files away")
    os.chown(file, 12345, 23456)
    config_file = ConfigFile(file)
    before = config_file.read()
    config_file.replace(before, config_file.edit(before, ("memory", "sources"), []))
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_what_was_asked_of_another_file_is_not_written(file: Path) -> None:
    config_file = ConfigFile(file)
    before = config_file.read()
    write(file, "state: null\n")
    with pytest.raises(NotWrittenError) as raised:
        config_file.replace(before, config_file.edit(before, ("memory", "sources"), []))
    assert raised.value.reason == "changed"


def test_the_status_says_which_file_and_what_is_not_seen(suite: Suite, file: Path) -> None:
    suite.stages.scan.reasons["off"] = 3
    suite.stages.record.clients.add("curl")
    status = suite.status()
    assert status["configuration"] == str(file)
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
