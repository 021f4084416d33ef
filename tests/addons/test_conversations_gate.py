"""A client's memory from the wire to the search, in one process and with a clock of our own: sessions end, are summarised
by a scripted model, and what was said is found all the while, by this client alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from addons.clients import ClientConfig, MatchConfig
from addons.config import Config, ConversationsConfig
from addons.config_conversations import CompactionConfig
from addons.conversations import Conversations
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from memory.conversations.reading import SessionInfo, read, sessions
from memory.conversations.recorder import Recorder
from memory.conversations.transcript import Conversation, Link
from tests.addons.remembering import Desk, events
from tests.addons.test_conversations import until
from tests.own_time import patience

CLIENT, OTHER = "claude-code", "codex"
START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY = ("Where did I hang the spare key of the boathouse?", "It is behind the third net, on the left-hand wall.")
TIN = ("And who has the other one?", "Ilse keeps it in a blue tin.")
EGGS = ("How long must I boil the eggs for our picnic?", "Six minutes, if the yolk should stay soft.")
WHERE, COOKING, NOTHING = "which wall has the boathouse keys", "cooking time of an egg", "quarterly tax return"
SUMMARY = "## Spare key of the boathouse\n\nThe boathouse key hangs on the left-hand wall, where the third net is."


class Person(Desk):
    """Talks to a model through the stages that have to do with it, at times of our own."""

    def __init__(self, config: Config) -> None:
        self.now = START
        self.config = config
        self.conversations = Conversations(config, clock=lambda: self.now, every=0.01)
        self._histories: dict[str, list[dict[str, str]]] = {}
        super().__init__(clock=lambda: self.now)

    def _recorder_of(self, client: str) -> Recorder | None:  # type: ignore[override]
        return self.conversations.recorder_of(client)

    async def say(self, conversation: str, question: str, answer: str) -> None:
        """One more turn of a conversation, streamed."""
        history = self._histories.setdefault(conversation, [])
        history.append({"role": "user", "content": question})
        flow = await self.asked(body={"model": "claude-test", "messages": history})
        self.exchange(flow).started_at = self.now
        await self.answered(flow, *events(answer), content_type="text/event-stream")
        history.append({"role": "assistant", "content": answer})

    def sessions(self) -> list[SessionInfo]:
        """The oldest first."""
        assert self.conversations.store
        return sessions(self.conversations.store.memory_of(CLIENT))[::-1]

    def chats(self, session: SessionInfo) -> tuple[Conversation, ...]:
        assert self.conversations.store
        return read(self.conversations.store.memory_of(CLIENT), session.id).conversations

    async def falls_silent(self) -> None:
        """Until the session is over."""
        self.now += timedelta(hours=3, seconds=1)
        await until(lambda: all(one.state != "current" for one in self.sessions()))

    async def recalled(self, query: str, client: str = CLIENT) -> list[str]:
        assert self.conversations.memories
        return [one.text for one in (await self.conversations.memories.recall(client, query)).memories]

    async def will_find(self, query: str, text: str) -> None:
        """What is new is searched a moment after it was said."""
        async with asyncio.timeout(30 * patience()):
            while not any(text in found for found in await self.recalled(query)):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)

    def change(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)
        self.conversations.apply(self.config)


def client(name: str) -> ClientConfig:
    return ClientConfig(name, MatchConfig(user_agent=f"{name}*"), memory_enabled=True)


@asynccontextmanager
async def talking(folder: Path, **more: Any) -> AsyncIterator[Person]:
    person = Person(
        Config(state=folder, clients=(client(CLIENT), client(OTHER)), conversations=ConversationsConfig(**more))
    )
    person.conversations.running()
    try:
        yield person
    finally:
        person.conversations.done()
        assert person.conversations.stopped
        await person.conversations.stopped


def told(chats: tuple[Conversation, ...]) -> list[list[list[Any]]]:
    return [[[piece for part in turn.parts for piece in part.pieces] for turn in chat.turns] for chat in chats]


async def test_a_session_ends_in_silence_and_its_conversations_go_on_in_the_next(tmp_path: Path) -> None:
    async with talking(tmp_path) as person:
        await person.say("key", *KEY)
        person.now += timedelta(minutes=10)
        await person.say("eggs", *EGGS)
        person.now += timedelta(hours=2, minutes=59)
        await person.say("key", *TIN)
        assert [one.state for one in person.sessions()] == ["current"]
        await person.falls_silent()
        await person.say("key", "And the lock?", "It is oiled.")
        first, second = person.sessions()
        assert [one.state for one in (first, second)] == ["closed", "current"]
        assert told(person.chats(first)) == [[[*KEY], [*TIN]], [[*EGGS]]]
        [goes_on] = person.chats(second)
        assert told((goes_on,)) == [[["And the lock?", "It is oiled."]]]
        assert goes_on.goes_on_from == Link(first.id, 1)


async def test_a_session_ends_after_eight_hours_whatever_is_said(tmp_path: Path) -> None:
    async with talking(tmp_path) as person:
        for hour in range(10):
            await person.say("key", f"Hour {hour}?", f"It is {hour}.")
            person.now += timedelta(hours=1)
        [first], [second] = (told(person.chats(one)) for one in person.sessions())
        assert [*first, *second] == [[f"Hour {hour}?", f"It is {hour}."] for hour in range(10)]
        assert len(first) == 9


async def test_a_session_outlives_the_suite(tmp_path: Path) -> None:
    async with talking(tmp_path) as person:
        await person.say("key", *KEY)
    async with talking(tmp_path) as again:
        again._histories = person._histories
        again.now += timedelta(hours=2)
        await again.say("key", *TIN)
        [session] = again.sessions()
        assert told(again.chats(session)) == [[[*KEY], [*TIN]]]


async def test_what_was_said_is_found_by_its_meaning_before_and_after_its_session_by_this_client_alone(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path) as person:
        await person.say("key", *KEY)
        await person.say("eggs", *EGGS)
        for _ in range(2):
            for query, (_, answer) in ((WHERE, KEY), (COOKING, EGGS)):
                [found, *_] = await person.recalled(query)
                assert answer in found
                assert await person.recalled(query, OTHER) == []
            assert await person.recalled(NOTHING) == []
            await person.falls_silent()
        person.change(clients=(client(OTHER),))
        person.change(clients=(client(CLIENT), client(OTHER)))
        assert [await person.recalled(query) for query in (WHERE, COOKING)] == [[], []]
        await person.say("new", "What is the tide?", "Low.")
        assert [len(one) for one in told(person.chats(person.sessions()[0]))] == [1]
        assert not any(KEY[1] in found for found in await person.recalled(WHERE))
        assert person.conversations.memories
        await person.conversations.memories.delete_all(CLIENT)
        assert (await person.recalled("tide"), person.sessions()) == ([], [])


async def test_a_session_that_is_over_is_summarised_and_found_by_its_summary(tmp_path: Path) -> None:
    asked: list[str] = []

    def summarise(_protocol: str, body: dict[str, Any]) -> Reply:
        asked.append(str(body["messages"]))
        return Reply(SUMMARY)

    async with ScriptedModel(summarise) as model:
        compaction = CompactionConfig(enabled=True, provider="openai", base_url=f"{model.plain_url}/v1", model="own-1")
        async with talking(tmp_path, compaction=compaction) as person:
            await person.say("key", *KEY)
            await person.say("key", *TIN)
            assert asked == []
            await person.falls_silent()
            await until(lambda: person.sessions()[0].state == "archived")
            [session] = person.sessions()
            [request] = asked
            assert all(text in request for text in (*KEY, *TIN))
            assert told(person.chats(session)) == [[[*KEY], [*TIN]]]
            [found, *_] = await person.recalled(WHERE)
            assert "where the third net is" in found
            assert await person.recalled(WHERE, OTHER) == []
            await person.say("eggs", *EGGS)
            await person.will_find(COOKING, EGGS[1])
        async with talking(tmp_path, compaction=compaction) as again:
            assert "where the third net is" in (await again.recalled(WHERE))[0]
    assert len(asked) == 1
