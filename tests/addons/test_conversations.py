"""The memory of conversations as the suite keeps it: opened when it is needed, its sessions ended, its settings changed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from addons.clients import ClientConfig, MatchConfig
from addons.config import Config, ConversationsConfig
from addons.conversations import Conversations
from addons.reload import Reload
from addons.suite import Suite
from memory.conversations import ranking, searching
from memory.conversations.said import Message, Said
from memory.conversations.store import CLIENTS_FILE
from tests.harness import SuiteProcess

EVERY = 0.01
START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def client(name: str = "me", *, memory: bool = True) -> ClientConfig:
    return ClientConfig(name, MatchConfig(proxy_user=name), memory_enabled=memory)


def configured(tmp_path: Path, *clients: ClientConfig, **more: object) -> Config:
    return Config(state=tmp_path, clients=clients, conversations=ConversationsConfig(**more))  # type: ignore[arg-type]


def said(text: str, at: datetime) -> Said:
    asked = (Message("user", text),)
    return Said(None, asked, Message("assistant", "Noon."), "tide-1", at, at, complete=True)


@asynccontextmanager
async def up(config: Config, clock: Callable[[], datetime] | None = None) -> AsyncIterator[Conversations]:
    conversations = Conversations(config, clock=clock or Clock(), every=EVERY)
    conversations.running()
    try:
        yield conversations
    finally:
        await ended(conversations)


async def ended(conversations: Conversations) -> None:
    conversations.done()
    if conversations.stopped is not None:
        await conversations.stopped


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(EVERY)


async def test_without_a_memory_nothing_is_opened(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client(memory=False))) as conversations:
        await asyncio.sleep(3 * EVERY)
        assert (conversations.store, conversations.recorder_of("me"), conversations.warnings) == (None, None, [])
    async with up(Config(state=None)) as conversations:
        assert conversations.store is None
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test may wait


async def test_only_a_client_with_a_memory_is_recorded(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client(), client("you", memory=False))) as conversations:
        recorder = conversations.recorder_of("me")
        assert recorder
        assert recorder is conversations.recorder
        assert [conversations.recorder_of(name) for name in ("you", "me-auto", "")] == [None] * 3
        recorded = recorder.record("me", said("When?", START))
        assert recorded
        assert recorded.path.parent == tmp_path / "memory" / "me" / "sessions"
        assert "When?" in recorded.path.read_text("utf-8")
    assert conversations.recorder_of("me") is None


async def test_sessions_end_by_themselves(tmp_path: Path) -> None:
    clock = Clock()
    async with up(configured(tmp_path, client()), clock) as conversations:
        assert conversations.store
        assert conversations.recorder
        conversations.recorder.record("me", said("When?", clock.now))
        memory = conversations.store.memory_of("me")
        clock.now += timedelta(hours=3)
        await asyncio.sleep(5 * EVERY)
        assert memory.known.session is not None
        clock.now += timedelta(seconds=1)
        await until(lambda: memory.known.session is None)


async def test_what_has_expired_meanwhile_is_closed_at_the_start(tmp_path: Path) -> None:
    config, clock = configured(tmp_path, client()), Clock()
    async with up(config, clock) as conversations:
        assert conversations.recorder
        conversations.recorder.record("me", said("When?", clock.now))
    clock.now += timedelta(hours=4)
    async with up(config, clock) as conversations:
        store = conversations.store
        assert store
        await until(lambda: store.memory_of("me").known.session is None)


async def test_settings_change_while_it_runs(tmp_path: Path) -> None:
    config, clock = configured(tmp_path, client()), Clock()
    async with up(config, clock) as conversations:
        assert conversations.store
        assert conversations.recorder
        store, recorder = conversations.store, conversations.recorder
        recorder.record("me", said("When?", clock.now))
        clock.now += timedelta(minutes=11)
        conversations.apply(configured(tmp_path, client(), session_inactivity=600.0, redact_secrets=False))
        assert (conversations.store, conversations.recorder) == (store, recorder)
        assert recorder.redact_secrets is False
        await until(lambda: store.memory_of("me").known.session is None)


async def test_a_memory_is_switched_on_and_off_while_it_runs(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client(memory=False))) as conversations:
        conversations.apply(configured(tmp_path, client()))
        assert conversations.recorder_of("me")
        conversations.apply(configured(tmp_path, client(memory=False)))
        assert conversations.recorder_of("me") is None


async def test_a_client_that_is_made_again_remembers_nothing(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client())) as conversations:
        assert conversations.store
        before = conversations.store.folder_of("me")
        conversations.apply(configured(tmp_path))
        conversations.apply(configured(tmp_path, client()))
        after = conversations.store.folder_of("me")
    assert before != after
    async with up(configured(tmp_path)) as conversations:  # no memory is wanted, but there was one
        assert conversations.store
    async with up(configured(tmp_path, client())) as conversations:
        assert conversations.store
        assert conversations.store.folder_of("me") not in (before, after)


async def test_a_directory_that_another_has_is_taken_once_it_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(tmp_path, client())
    async with up(config) as first, up(config) as second:
        warning = (
            f"Conversations are not recorded: another mitmemory uses the conversations in {tmp_path / 'memory'}: "
            f"ask that one, or end it first"
        )
        await asyncio.sleep(3 * EVERY)
        assert (second.warnings, second.recorder_of("me")) == ([warning], None)
        assert [record.getMessage() for record in caplog.records] == [warning]
        await ended(first)
        await until(lambda: second.recorder_of("me") is not None)
        assert second.warnings == []


async def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "talks").write_text("")
    async with up(configured(tmp_path, client(), directory=tmp_path / "talks")) as conversations:
        [warning] = conversations.warnings
        assert warning.startswith(f"Conversations are not recorded: {tmp_path / 'talks'} cannot be used (")
        assert warning.endswith("): mend that, or set conversations.directory to another folder")
        assert conversations.recorder_of("me") is None
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / CLIENTS_FILE).write_text("{")
    async with up(configured(tmp_path, client())) as conversations:
        [warning] = conversations.warnings
        assert warning.startswith(f"Conversations are not recorded: {tmp_path / 'memory' / CLIENTS_FILE} is damaged")


# Searching


async def found(conversations: Conversations, query: str = "When is high water?") -> list[str]:
    assert conversations.memories
    return [memory.text for memory in (await conversations.memories.recall("me", query)).memories]


async def test_what_is_recorded_is_indexed_and_nothing_is_left_running(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client())) as conversations:
        assert conversations.recorder
        path = tmp_path / "memory" / "me"
        await until(path.is_dir)  # where it will be is shown at once
        assert not (path / ".memsearch").exists()
        conversations.recorder.record("me", said("When is high water?", START))
        await until((path / ".memsearch" / "index.json").is_file)  # nobody has searched
        assert await found(conversations) == ["User: When is high water?\n\nAssistant: Noon."]
    assert [thread.name for thread in threading.enumerate() if "memory" in thread.name] == []
    assert conversations.memories is None


async def test_the_language_and_the_number_of_results_change_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    languages: list[str] = []

    def language(name: str) -> ranking.Language:
        languages.append(name)
        return ranking.Language(name)

    monkeypatch.setattr(searching, "Language", language)
    async with up(configured(tmp_path, client())) as conversations:
        assert conversations.recorder
        conversations.recorder.record("me", said("When is high water?", START))
        assert len(await found(conversations)) == 1
        conversations.apply(configured(tmp_path, client(), language="german", search_top_k=7))
        assert len(await found(conversations)) == 1
        assert conversations.memories
        assert conversations.memories.results == 7
    assert languages == ["english", "german"]


async def test_a_client_that_is_made_again_finds_nothing(tmp_path: Path) -> None:
    async with up(configured(tmp_path, client())) as conversations:
        assert conversations.recorder
        conversations.recorder.record("me", said("When is high water?", START))
        assert len(await found(conversations)) == 1
        conversations.apply(configured(tmp_path))
        assert conversations.is_on("me") is None
        conversations.apply(configured(tmp_path, client()))
        assert await found(conversations) == []
        assert conversations.recorder
        conversations.recorder.record("me", said("Who is the harbour master?", START))
        assert await found(conversations, "harbour master") == ["User: Who is the harbour master?\n\nAssistant: Noon."]


# In the suite


async def test_the_suite_takes_over_what_may_change(tmp_path: Path) -> None:
    suite = Suite(configured(tmp_path, client(memory=False)))
    try:
        suite.conversations.running()
        changed = configured(tmp_path, client(), session_inactivity=600.0)
        suite.apply(changed)
        assert (suite.config.clients, suite.config.conversations) == (changed.clients, changed.conversations)
        assert suite.stages.remember.remembers("me")
        assert suite.conversations.store
        assert suite.conversations.store.limits.inactivity == timedelta(minutes=10)
        assert suite.status()["warnings"] == []
    finally:
        await ended(suite.conversations)


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        ({"session_inactivity": 600.0, "search_top_k": 3, "language": "german", "redact_secrets": False}, []),
        ({"directory": Path("/srv/talks")}, ["conversations.directory"]),
    ],
)
def test_what_cannot_change_while_it_runs_says_so(tmp_path: Path, more: dict[str, object], waits: list[str]) -> None:
    started = replace(configured(tmp_path), file=tmp_path / "mitm.yaml")
    reload = Reload(started, lambda _: None)
    reload._take(replace(configured(tmp_path, **more), file=started.file))
    assert reload.warnings == [
        f"{key} changed in {tmp_path / 'mitm.yaml'}: restart mitmemory for it to count" for key in waits
    ]


HEAVY = (
    "memsearch",
    "pymilvus",
    "milvus_lite",
    "wordllama",
    "bm25s",
    "Stemmer",
    "pandas",
    "mcp",
    "mcp_types",
    "pydantic",
)


def test_the_suite_starts_without_the_libraries_of_index_and_mcp() -> None:
    script = f"import addons.suite, sys, json; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


def test_a_running_suite_with_a_memory_starts_and_ends_in_peace(tmp_path: Path) -> None:
    clients = [{"name": "me", "match": {"proxy_user": "me"}, "memory_enabled": True}]
    with SuiteProcess(tmp_path, {"clients": clients}) as suite:
        assert suite.api("api/status").body["warnings"] == []
        assert (suite.state / "memory" / CLIENTS_FILE).is_file()
