"""Changes of mitm.yaml while the suite runs: taken over, refused, or waiting for the next start."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons.config import Address, Config, DashboardConfig, MemoryConfig, ProxyConfig, TokensConfig, load_config
from addons.demo.authority import AuthorityPaths
from addons.reload import Reload, changed_keys
from addons.suite import Suite
from memory.sources.claude_code import ClaudeCodeSource
from memory.sources.markdown import MarkdownSource
from tests.addons.conftest import Serve
from tests.addons.parts import Shelf
from tests.harness import SuiteProcess

EVERY = 0.01


class File:
    """A mitm.yaml, written in place as many editors do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        self.path.write_text(f"state: {self.path.parent / 'state'}\n{text}", "utf-8")
        # Later than any write before, also where the file system's clock is coarse.
        self.times = getattr(self, "times", 1_000_000_000) + 1
        os.utime(self.path, (self.times, self.times))


@pytest.fixture
def file(tmp_path: Path) -> File:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text("a line that is long enough to be found again")
    made = File(tmp_path / "mitm.yaml")
    made.write("memory: {sources: [{name: first, path: first}]}\n")
    return made


@pytest.fixture
async def suite(file: File) -> Any:
    suite = Suite(load_config(file.path))
    suite.reload._every = EVERY
    await suite.note_library.scan()
    suite.reload.running()
    yield suite
    suite.reload.done()
    await suite.note_library.aclose()


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(EVERY)


def notes(suite: Suite) -> list[str]:
    return [node["id"] for node in suite.note_library.snapshot.map.nodes()]


async def test_sources_are_added_changed_and_removed(suite: Suite, file: File) -> None:
    [first] = suite.note_library.sources

    file.write("memory: {sources: [{name: first, path: first}, {name: second, path: second}]}\n")
    await until(lambda: notes(suite) == ["first/first.md", "second/second.md"])
    assert suite.note_library.sources[0] is first, "it knows what it has read"

    file.write("memory: {sources: [{name: first, path: second}]}\n")
    await until(lambda: notes(suite) == ["first/second.md"])

    file.write("memory: {sources: [{name: first, path: second, enabled: false}]}\n")
    await until(lambda: notes(suite) == [])
    file.write("")
    await until(lambda: suite.note_library.sources == ())
    assert suite.status()["warnings"] == []


async def test_options_of_the_memory(suite: Suite, file: File) -> None:
    source = "sources: [{name: first, path: first}]"
    index = suite.note_library.snapshot.index
    assert index.facts("first/first.md").distinctive == 1

    file.write(f"memory: {{{source}, minimum_line_length: 60, track_sharing: false, refresh_interval: 5m}}\n")
    await until(lambda: suite.note_library.snapshot.index is not index)

    assert suite.note_library.snapshot.index.facts("first/first.md").distinctive == 0
    assert suite.note_library.options.refresh_interval == 300.0
    assert suite.stages.scan.enabled is False
    assert suite.status()["trackSharing"] is False

    file.write(f"memory: {{{source}, max_note_bytes: 10}}\n")
    await until(lambda: notes(suite) == [])
    assert suite.note_library.snapshot.sources[0].skipped == 1
    assert suite.stages.scan.enabled is True


async def test_a_broken_edit_changes_nothing_and_shows_its_faults(
    suite: Suite, file: File, caplog: pytest.LogCaptureFixture
) -> None:
    memory = suite.config.memory
    file.write("memory: {sources: [{name: second, path: second}], mentions: all}\nmode: [\n")
    await until(lambda: suite.reload.warnings != [])
    assert [one.partition("not valid YAML")[1] for one in suite.status()["warnings"]] == ["not valid YAML"]

    file.write("memory: {sources: [{name: second, path: second, exclude: ['!']}], mentions: all}\n")
    await until(lambda: len(suite.reload.warnings) == 2)
    mend = "write it as in a .gitignore file, like `Templates/*`"
    assert suite.status()["warnings"] == [
        f"{file.path}:2: memory.sources[0].exclude[0]: `!` is no pattern; mend: {mend}",
        f"{file.path}:2: memory.mentions: `all` is not one of careful, seed; mend: write one of them",
    ]
    assert suite.config.memory == memory
    assert notes(suite) == ["first/first.md"]
    assert [record.getMessage().rpartition("\n")[2] for record in caplog.records] == [
        "The configuration of before stays in use."
    ] * 2

    file.path.unlink()
    await until(lambda: len(suite.reload.warnings) == 1)
    assert "there is no such file" in suite.reload.warnings[0]
    file.write("memory: {sources: [{name: second, path: second}]}\n")
    await until(lambda: notes(suite) == ["second/second.md"])
    assert suite.reload.warnings == []


async def test_what_cannot_change_says_so_once(suite: Suite, file: File, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = "memory: {sources: [{name: first, path: first}]}\n"
    waiting = f"mode, proxy.listen, dashboard.tokens.admin changed in {file.path}: restart mitmemory for it to count"

    changed = f"mode: annotate\nproxy: {{listen: 127.0.0.1:9999}}\ndashboard: {{tokens: {{admin: {'x' * 16}}}}}\n"
    file.write(source + changed)
    await until(lambda: suite.reload.warnings != [])
    assert suite.status()["warnings"] == [waiting]
    file.write(f"{source.replace('first', 'second')}{changed}")
    await until(lambda: notes(suite) == ["second/second.md"])
    assert [one.getMessage() for one in caplog.records if one.name == "addons.reload"] == [waiting]
    assert (suite.config.mode, suite.config.proxy) == ("dispatch", ProxyConfig())

    file.write(source)
    await until(lambda: suite.reload.warnings == [])


async def test_what_the_launcher_made_of_the_file_is_no_change(file: File) -> None:
    config = load_config(file.path)
    started = Config(
        proxy=ProxyConfig(listen=Address("127.0.0.1", 50_123), inspector=None), state=config.state, file=config.file
    )
    taken: list[Config] = []
    reload = Reload(started, taken.append, every=EVERY)
    reload.running()
    await until(lambda: taken != [])

    assert (taken, reload.warnings) == ([config], [])
    file.write("mode: annotate\n")  # before the first look
    await until(lambda: reload.warnings != [])
    assert reload.warnings == [f"mode changed in {file.path}: restart mitmemory for it to count"]
    reload.done()


async def test_a_file_is_read_once_it_rests(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def load(path: Path) -> Config:
        reads.append(path.read_text())
        return load_config(path)

    monkeypatch.setattr("addons.reload.load_config", load)
    looked: asyncio.Queue[None] = asyncio.Queue()
    steps: asyncio.Queue[None] = asyncio.Queue()

    async def step(_: float) -> None:
        looked.put_nowait(None)
        await steps.get()

    monkeypatch.setattr("addons.reload.asyncio.sleep", step)
    reload = Reload(load_config(file.path), lambda _: None)
    reload.running()
    await looked.get()
    for text in ("mode: ann", "mode: annotate\n", "mode: annotate\nactivity:\n"):
        file.write(text)
        steps.put_nowait(None)
        await looked.get()
    assert len(reads) == 1, "it is still being written"
    for _ in range(3):
        steps.put_nowait(None)
        await looked.get()
    reload.done()

    assert len(reads) == 2
    assert reads[1].endswith("mode: annotate\nactivity:\n")


async def test_without_a_file_nothing_is_watched() -> None:
    reload = Reload(Config(), lambda _: pytest.fail("nothing to take"))
    reload.running()
    reload.done()

    assert (reload._watching, reload.warnings) == (None, [])


async def test_a_watch_that_fails_is_logged(file: File, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Config) -> None:
        raise LookupError("no such thing")

    reload = Reload(load_config(file.path), fail, every=EVERY)
    reload.running()
    assert reload._watching is not None
    await asyncio.wait([reload._watching])
    await asyncio.sleep(0)

    assert [one.getMessage() for one in caplog.records] == ["changes of the configuration are no longer picked up"]


def test_changed_keys() -> None:
    old = Config()
    new = Config(
        mode="annotate",
        memory=MemoryConfig(quotes=False),
        dashboard=DashboardConfig(tokens=TokensConfig(read_only="reader-of-the-tests")),
        file=Path("elsewhere.yaml"),
    )

    assert list(changed_keys(old, new)) == ["mode", "memory.quotes", "dashboard.tokens.read_only"]
    assert list(changed_keys(old, Config(proxy=ProxyConfig(inspector=None)))) == ["proxy.inspector"]
    assert list(changed_keys(old, old)) == []


# --- sources added in code --------------------------------------------------------------------------------------------


class Drawer(Shelf):
    pass


async def test_sources_added_in_code_stay_when_the_configuration_changes(
    suite: Suite, file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shelf = Shelf(name="shelf")
    suite.add_source(shelf)
    suite.add_source(Drawer)
    suite.add_source(("second", "Markdown", "second"))
    suite.add_source(("claude", "ClaudeCode"))
    suite.add_source(("claude 2", "claude_code", tmp_path / "first"))
    suite.add_source(42)

    snapshot = await suite.note_library.scan()

    assert {state.name: (state.kind, state.notes) for state in snapshot.sources} == {
        "first": ("markdown", 1),
        "shelf": ("markdown", 1),
        "vault": ("markdown", 1),
        "second": ("markdown", 1),
        "claude": ("claude_code", 0),
        "claude 2": ("claude_code", 0),
        "int": ("int", 0),
    }
    assert [(type(one), one.location) for one in suite.note_library.sources[3:6]] == [
        (MarkdownSource, str(tmp_path / "second")),
        (ClaudeCodeSource, str(Path.home() / ".claude")),
        (ClaudeCodeSource, str(tmp_path / "first")),
    ]
    file.write("memory: {sources: [{name: Shelf, path: second}]}\n")
    await until(lambda: "Shelf/second.md" in notes(suite))
    assert [source.name for source in suite.note_library.sources] == [
        *("Shelf", "vault", "second", "claude", "claude 2", "int"),
    ]
    file.write("")
    await until(lambda: "shelf/Tides.md" in notes(suite))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (("FIRST", "markdown", "first"), "there is a source 'FIRST' already: give each a name of its own"),
        (("x",), "a source in code is an instance, a class, or (name, type, path)"),
        (("x", "markdown", 7), "a source in code is an instance, a class, or (name, type, path)"),
        (("x", "markdown"), "a source of type markdown needs a path"),
        (
            ("x", "md", "y"),
            "'md' is no kind of source; there is: markdown, claude_code, knowledge_graph, conversations",
        ),
        (("x", "markdown", "$NO_SUCH_VARIABLE"), "names the variable NO_SUCH_VARIABLE, which is not set"),
    ],
)
async def test_what_cannot_be_added(suite: Suite, source: object, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        suite.add_source(source)
    assert str(raised.value) == message
    assert len(suite.note_library.sources) == 1


async def test_a_source_that_is_added_while_running_is_read_at_once(suite: Suite) -> None:
    async def nothing() -> None:
        pass

    suite.serving.started = asyncio.get_running_loop().create_task(nothing())  # as if the dashboard were up

    suite.add_source(Shelf)

    await until(lambda: "vault/Tides.md" in notes(suite))


# --- the whole suite --------------------------------------------------------------------------------------------------


def test_providers_change_for_new_connections(tmp_path: Path, serve: Serve, authority: AuthorityPaths) -> None:
    """A host is a closed tunnel until it is named; and what is named goes where its entry says now."""
    lab, other = serve(), serve()
    host = f"localhost:{lab.port}"
    with SuiteProcess(tmp_path, {"providers": []}, trust=authority.authority) as suite:
        ask = ["curl", "-s", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]

        def asked() -> bool:
            """Whether the proxy answered under a certificate of its own."""
            return subprocess.run([*ask, "-d", "{}", f"https://{host}/v1/messages"], check=False).returncode == 0

        def named(**entry: Any) -> None:
            written = yaml.safe_load(suite.config.read_text("utf-8"))
            suite.config.write_text(yaml.safe_dump(written | {"providers": [{"name": "lab", **entry}]}), "utf-8")

        assert not asked()
        named(hosts=[host])
        suite.wait_for(asked, "the provider")
        entry = suite.activity()[0]
        assert (entry["provider"], entry["sentTo"][0]["upstream"]) == ("lab", host)
        named(hosts=[host], connect_to=f"https://127.0.0.1:{other.port}")
        suite.wait_for(lambda: asked() and len(other.requests) > 0, "the way to the other")
        seen = len(lab.requests)
        named(hosts=[host])
        suite.wait_for(lambda: asked() and len(lab.requests) > seen, "the way back")
        assert suite.api("api/status").body["warnings"] == []


def test_a_running_suite_takes_over_an_edit(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text("a line that is long enough to be found again")
    (tmp_path / "graph.jsonl").write_text(
        '{"type": "entity", "name": "Wren", "entityType": "ship", "observations": []}'
    )
    sources = [{"name": "first", "path": "first"}]
    with SuiteProcess(tmp_path, {"memory": {"sources": sources}}) as suite:

        def edited(**changes: Any) -> None:
            written = yaml.safe_load(suite.config.read_text("utf-8"))
            suite.config.write_text(yaml.safe_dump(written | changes), "utf-8")

        def ids(answer: Any) -> list[str]:
            return [node["id"] for node in answer.body["nodes"]]

        suite.wait_for(lambda: ids(suite.api("api/memory")) == ["first/first.md"], "the first source")
        sources += [
            {"name": "second", "path": "second"},
            {"name": "graph", "type": "KnowledgeGraph", "path": "graph.jsonl"},
        ]
        edited(memory={"sources": sources})
        expected = ["first/first.md", "second/second.md", "graph/ship/Wren.md"]
        suite.wait_for(lambda: ids(suite.api("api/memory")) == expected, "the sources that were added")
        edited(mode="annotate")
        waiting = f"mode changed in {suite.config}: restart mitmemory for it to count"
        suite.wait_for(lambda: suite.api("api/status").body["warnings"] == [waiting], "the warning")
        suite.wait_for_line("mode changed in")
