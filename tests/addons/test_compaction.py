"""Summaries as the suite makes them: whom it asks, what the rules keep back, by itself, by the command and by the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from addons import suite_api
from addons.cli import main
from addons.clients import ClientConfig, MatchConfig
from addons.compaction import CompactionRules, settings_of, summariser_json
from addons.config import CompactionConfig, Config, ConversationsConfig
from addons.conversations import Conversations
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.presence import Announcement, Presence
from addons.providers import ProviderConfig, ProviderTable
from memory.conversations.recorder import Recorder
from memory.conversations.said import Message, Said
from memory.conversations.store import Store
from memory.conversations.summary_calls import CompactionError, SummarySettings
from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument
from memory.rules import Rule, RuleBook, When
from tests.harness import Loop, SuiteProcess
from tests.memory.conversations.scripted import Scripted, scripted

START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SECRET = "The harbour master keeps the table of tides in the third drawer."
SUMMARY = "## Tides\n\nThe table of tides is kept by the harbour master."
OPENAI = CompactionConfig(enabled=True, provider="openai", model="tide-1")


def said(question: str, at: datetime, answer: str = "Noon.") -> Said:
    return Said(None, (Message("user", question),), Message("assistant", answer), "tide-1", at, at, complete=True)


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.02)


# Whom it asks


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (OPENAI, SummarySettings("openai", "tide-1", None, "sk-paid")),
        (CompactionConfig(provider="openai", model="m", base_url="http://x/v1"), ("openai", "m", "http://x/v1", None)),
        (
            CompactionConfig(provider="openai", model="m", base_url="http://x/v1", api_key_env="OWN"),
            ("openai", "m", "http://x/v1", "own"),
        ),
        (CompactionConfig(provider="anthropic"), ("anthropic", None, None, None)),
    ],
)
def test_a_key_is_only_for_whom_it_is_meant(config: CompactionConfig, settings: Any) -> None:
    wanted = settings if isinstance(settings, SummarySettings) else SummarySettings(*settings)
    assert settings_of(config, {"OPENAI_API_KEY": "sk-paid", "OWN": "own"}) == wanted
    assert "sk-paid" not in repr(wanted)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(CompactionError, match=r"set conversations\.compaction\.provider"):
        settings_of(CompactionConfig(), {})
    with pytest.raises(CompactionError, match="the variable OPENAI_API_KEY is not set"):
        settings_of(OPENAI, {})
    assert summariser_json(CompactionConfig()) is None
    assert summariser_json(CompactionConfig(provider="openai", model="m", base_url="http://127.0.0.1:1/v1")) == {
        "enabled": False,
        "provider": "openai",
        "model": "m",
        "upstream": "http://127.0.0.1:1",
    }


# What the rules keep back


class Shelf:
    name, kind, location = "shelf", "markdown", "the test"

    async def load(self) -> list[MemoryDocument]:
        return [
            MemoryDocument("Tides.md", f"{SECRET}\n", tags=("private",)),
            MemoryDocument("Local.md", "Rope is bought from the chandler in Harbour Street.\n", share="local"),
        ]


PRIVATE = Rule("private stays", When(tags=("private",), to="cloud"), "block")
TEXTS = ["When is noon?", f"I wrote:\n\n{SECRET}", "Rope is bought from the chandler in Harbour Street."]


@pytest.mark.parametrize(
    ("rules", "config", "allowed"),
    [
        ((PRIVATE,), OPENAI, [True, False, False]),
        ((), OPENAI, [True, True, False]),
        ((PRIVATE,), CompactionConfig(provider="openai", model="m", base_url="http://127.0.0.1:9/v1"), [True] * 3),
        ((PRIVATE,), CompactionConfig(provider="openai", model="m", base_url="http://localhost:9/v1"), [True] * 3),
        # Ollama hands these on to its maker.
        (
            (PRIVATE,),
            CompactionConfig(provider="openai", model="m:cloud", base_url="http://127.0.0.1:11434/v1"),
            [True, False, False],
        ),
        # What does not resolve is in the cloud.
        (
            (PRIVATE,),
            CompactionConfig(provider="openai", model="m", base_url="http://no.invalid/v1"),
            [True, False, False],
        ),
        ((PRIVATE,), CompactionConfig(provider="anthropic"), [True, False, False]),
        # The user's own word on a server.
        (
            (PRIVATE,),
            CompactionConfig(provider="openai", model="m", base_url="http://127.0.0.1:77/v1"),
            [True, False, False],
        ),
        ((Rule("ask", When(tags=("private",)), "hold"),), OPENAI, [True, False, False]),
        ((Rule("less", When(tags=("private",)), "redact"),), OPENAI, [True, False, False]),
        ((Rule("nothing", When(client=("me",), to="cloud"), "block"),), OPENAI, [False] * 3),
        ((Rule("nothing", When(provider=("openai",)), "block"),), OPENAI, [False] * 3),
        (None, OPENAI, [True] * 3),
    ],
)
async def test_what_may_be_sent(
    monkeypatch: pytest.MonkeyPatch, rules: tuple[Rule, ...] | None, config: CompactionConfig, allowed: list[bool]
) -> None:
    from addons import compaction

    real = compaction.resolve

    async def resolve(host: str, port: int) -> list[Any]:
        return await real(host, port) if host in {"127.0.0.1", "localhost"} else []

    monkeypatch.setattr(compaction, "resolve", resolve)
    library = NoteLibrary([Shelf()])
    book = None if rules is None else RuleBook(rules)
    providers = ProviderTable([ProviderConfig("far", hosts=("127.0.0.1:77",), local=False)])
    judged = CompactionRules(lambda: config, providers, library, lambda: book)
    assert await judged("me", TEXTS) == allowed
    await library.aclose()


async def test_what_cannot_be_judged_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    from addons import compaction

    def fault(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(compaction, "judge", fault)
    library = NoteLibrary([Shelf()])
    config = CompactionConfig(provider="openai", model="m", base_url="http://127.0.0.1:9/v1")
    judged = CompactionRules(lambda: config, ProviderTable(), library, lambda: RuleBook((PRIVATE,)))
    with pytest.raises(CompactionError, match=r"^it could not be judged by the rules \(ValueError\)$"):
        await judged("me", TEXTS)
    await library.aclose()


# By itself


def configured(tmp_path: Path, compaction: CompactionConfig) -> Config:
    me = ClientConfig("me", MatchConfig(proxy_user="me"), memory_enabled=True)
    return Config(state=tmp_path, clients=(me,), conversations=ConversationsConfig(compaction=compaction))


def own(model: Scripted, *, enabled: bool = True) -> CompactionConfig:
    return CompactionConfig(enabled=enabled, provider="openai", model="tide-1", base_url=model.base_url)


class Clock:
    now = START

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def up(config: Config, clock: Clock) -> AsyncIterator[Conversations]:
    conversations = Conversations(config, clock=clock, every=0.02)
    conversations.running()
    try:
        yield conversations
    finally:
        conversations.done()
        assert conversations.stopped
        await conversations.stopped


async def test_a_session_that_is_over_is_summarised_and_found(tmp_path: Path) -> None:
    clock = Clock()
    async with scripted() as model:
        model.reply = lambda _: SUMMARY
        async with up(configured(tmp_path, own(model)), clock) as conversations:
            assert conversations.recorder
            assert conversations.memories
            recorded = conversations.recorder.record("me", said("Who knows when the water comes?", clock.now, SECRET))
            assert recorded
            assert [one.source for one in (await conversations.memories.recall("me", "harbour master")).memories] == [
                f"sessions/{recorded.session}.md"
            ]
            assert len(model.requests) == 0
            clock.now += timedelta(hours=4)
            summary = recorded.path.with_name(f"{recorded.session}-summary.md")
            await until(lambda: summary.exists() and not recorded.path.exists())
            found = await conversations.memories.recall("me", "who has the table of the tides?")
            assert [one.source for one in found.memories] == [f"sessions/{summary.name}"]
            assert (await conversations.memories.recall("me", "Who knows when the water comes?")).as_text().count(
                "third drawer"
            ) == 0
            assert len(model.requests) == 1
            assert conversations.warnings == []


async def test_what_is_pending_is_done_at_the_start_and_failures_are_told(tmp_path: Path) -> None:
    clock = Clock()
    async with scripted() as model:
        async with up(configured(tmp_path, own(model, enabled=False)), clock) as conversations:
            assert conversations.recorder
            recorded = conversations.recorder.record("me", said("When?", clock.now))
            assert recorded
            clock.now += timedelta(hours=4)
            assert conversations.store
            await until(lambda: conversations.store.memory_of("me").known.session is None)  # type: ignore[union-attr]
        assert model.requests == []
        model.reply = lambda _: (500, {})
        async with up(configured(tmp_path, own(model)), clock) as conversations:
            told = "Sessions of me could not be summarised, and are tried again: the endpoint answered HTTP 500"
            await until(lambda: conversations.warnings == [told])
            assert recorded.path.exists()
            assert len(model.requests) == 1
            model.reply = lambda _: SUMMARY
            clock.now += timedelta(minutes=1)
            await until(lambda: not recorded.path.exists())
            await until(lambda: conversations.warnings == [])


async def test_a_suite_that_ends_does_not_wait_for_the_model(tmp_path: Path) -> None:
    clock = Clock()
    async with scripted() as model:
        model.reply = lambda _: None
        async with up(configured(tmp_path, own(model)), clock) as conversations:
            assert conversations.recorder
            recorded = conversations.recorder.record("me", said("When?", clock.now))
            assert recorded
            clock.now += timedelta(hours=4)
            await until(lambda: len(model.requests) == 1)
        assert recorded.path.exists()


# The command


@pytest.fixture
def session(tmp_path: Path) -> str:
    """Of a client whose last turn was long ago."""
    store = Store(tmp_path / "memory")
    store.open()
    store.configure(["me"])
    recorded = Recorder(store).record("me", said("Who keeps the table?", START, SECRET))
    store.close()
    assert recorded
    return recorded.session


@pytest.fixture
def model(background: Loop) -> Any:
    async def started() -> tuple[Any, Scripted]:
        running = scripted()
        return running, await running.__aenter__()

    running, script = background.run(started())
    script.reply = lambda _: SUMMARY
    yield script
    background.run(running.__aexit__(None, None, None))


def file(tmp_path: Path, model: Scripted, /, **compaction: Any) -> str:
    path = tmp_path / "mitm.yaml"
    named = {"provider": "openai", "model": "tide-1", "base_url": model.base_url, **compaction}
    written = {
        "state": str(tmp_path),
        "clients": [
            {"name": "me", "match": {"proxy_user": "me"}, "memory_enabled": True},
            {"name": "you", "match": {"proxy_user": "you"}},
        ],
        "conversations": {"compaction": {key: value for key, value in named.items() if value}},
    }
    path.write_text(json.dumps(written))
    return str(path)


def test_the_command_without_a_suite(tmp_path: Path, session: str, model: Scripted, capsys: Any) -> None:
    config = file(tmp_path, model)
    assert main(["compact", "--config", config, "me"]) == OK
    assert capsys.readouterr().out == f"{session}: 1 turn summarised\n"
    assert main(["compact", "--config", config, "me"]) == OK
    assert capsys.readouterr().out == "nothing is to be summarised\n"
    assert main(["compact", "--config", config, "me", session, "--again"]) == OK
    assert main(["compact", "--config", config, "me", "--again"]) == OK
    assert capsys.readouterr().out == f"{session}: 1 turn summarised\n" * 2
    assert len(model.requests) == 3
    for arguments, message in (
        (["me", session], "this session is summarised already: --again, or `again`, makes a new summary"),
        (["me", "2026-01-01T000000Z-aaaa"], "there is no session 2026-01-01T000000Z-aaaa"),
        (["you"], f"you has no memory: set memory_enabled: true for it in {config}"),
        (
            ["nobody"],
            f"{config} names no client nobody: name one of me, or add it under `clients`, with memory_enabled: true",
        ),
    ):
        assert main(["compact", "--config", config, *arguments]) == WRONG_INPUT
        assert capsys.readouterr().err == f"mitmemory: {message}\n"
    model.reply = lambda _: ""
    assert main(["compact", "--config", config, "me", "--again"]) == FAILED
    assert capsys.readouterr().err == f"mitmemory: {session}: the model gave an empty answer\n"
    nobody = file(tmp_path, model, provider=None, model=None, base_url=None)
    assert main(["compact", "--config", nobody, "me", "--again"]) == WRONG_INPUT
    assert "nobody is named who summarises" in capsys.readouterr().err


def test_the_command_asks_the_suite_that_runs(tmp_path: Path, session: str, model: Scripted, capsys: Any) -> None:
    (tmp_path / "memory").rename(tmp_path / "talks")
    config = json.loads(Path(file(tmp_path, model)).read_text())
    config["conversations"]["directory"] = str(tmp_path / "talks")
    with SuiteProcess(tmp_path, config) as suite:
        asked = ["compact", "--config", str(suite.config), "me"]
        assert main([*asked, session]) in {OK, WRONG_INPUT}  # the first look may not have closed it yet
        capsys.readouterr()
        assert main([*asked, session, "--again"]) == OK
        assert capsys.readouterr().out == f"{session}: 1 turn summarised\n"
        assert main(asked) == OK
        assert capsys.readouterr().out == "nothing is to be summarised\n"
        assert main([*asked, "--again"]) == OK
        assert main([*asked, session]) == WRONG_INPUT
        assert "summarised already" in capsys.readouterr().err
        model.reply = lambda _: (500, {})
        assert main([*asked, "--again"]) == FAILED
        assert capsys.readouterr().err == f"mitmemory: {session}: the endpoint answered HTTP 500\n"
        assert "api/clients/me" not in suite.log
        assert SECRET not in suite.log
        [warning] = suite.api("api/status").body["warnings"]
        assert "the endpoint answered HTTP 500" in warning


def test_a_suite_that_cannot_be_asked(tmp_path: Path, model: Scripted, capsys: Any) -> None:
    announcement = Announcement(tmp_path, Presence(1, "", "127.0.0.1:1", "127.0.0.1:1", ""))
    announcement.announce()
    try:
        (tmp_path / suite_api.TOKENS_FILE).write_text('{"admin": "the-admin-token-of-it"}')
        assert main(["compact", "--config", file(tmp_path, model), "me"]) == FAILED
    finally:
        announcement.withdraw()
    assert capsys.readouterr().err == "mitmemory: the suite at http://127.0.0.1:1/ cannot be asked (URLError)\n"
