"""Answers recorded of real providers: without a call of the tool they pass to the byte, and with one nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from addons.loop.anthropic import AnthropicLoop
from addons.loop.dialect import Dialect, Weave
from addons.loop.openai_chat import ChatLoop
from addons.wire import wire_for
from addons.wire.answer import Answer
from addons.wire.streams import AnswerReader
from memory.conversations.recall_tool import RecallTool
from tests.addons.loop import anthropic_says, chat_says
from tests.addons.loop.weaving import TOOL, Kept, request

QUESTION = {"messages": [{"role": "user", "content": "x"}], "stream": True}
BOTH: list[tuple[Dialect, str, tuple[str, ...]]] = [
    (AnthropicLoop(), anthropic_says.PATH, ("anthropic",)),
    (ChatLoop(), chat_says.PATH, ("openai-chat", "openrouter", "groq", "mistral", "ollama-openai-compat")),
]
dialects = pytest.mark.parametrize(("dialect", "path", "folders"), BOTH, ids=["anthropic", "chat"])


def recorded(data: Path, folders: tuple[str, ...]) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for file in sorted((data / "llm" / folder).rglob("*")):
            if file.is_file() and not file.name.endswith(".request.json"):
                yield file, file.read_bytes()


def weave_of(dialect: Dialect, path: str, tool: RecallTool) -> Weave:
    offer = dialect.offer(request(path, QUESTION), tool, Kept())
    assert offer is not None
    return dialect.weave(offer, offer.text, tool)


def fed(weave: Weave, data: bytes, size: int, *, streamed: bool) -> bytes:
    if not streamed:
        weave.whole(data)
        return b""
    return b"".join(weave.feed(data[start : start + size]) for start in range(0, len(data), size))


def understood(path: str, data: bytes, *, streamed: bool) -> Answer:
    parts = wire_for(path).answer()
    assert parts is not None
    reader = AnswerReader(parts, "text/event-stream" if streamed else "application/json")
    reader.feed(data)
    return reader.close()


@dialects
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_an_answer_without_a_call_passes_to_the_byte(
    shared_data: Path, dialect: Dialect, path: str, folders: tuple[str, ...], size: int
) -> None:
    seen = 0
    for file, data in recorded(shared_data, folders):
        streamed = not data.lstrip().startswith(b"{")
        weave = weave_of(dialect, path, TOOL)
        given = fed(weave, data, size, streamed=streamed)
        assert weave.over().asks == ()
        assert given + weave.finish({}) == data, file
        assert weave.passages() == {}
        seen += 1
    assert seen >= 10


@dialects
def test_a_tool_of_the_recording_is_held_back_and_the_rest_is_kept(
    shared_data: Path, dialect: Dialect, path: str, folders: tuple[str, ...]
) -> None:
    """The answer is told again with one of its tools as the one that is hidden."""
    seen = 0
    for file, data in recorded(shared_data, folders):
        streamed = not data.lstrip().startswith(b"{")
        answer = understood(path, data, streamed=streamed)
        for name in {call.name for call in answer.tool_calls}:
            weave = weave_of(dialect, path, RecallTool(name))
            given = fed(weave, data, 1000, streamed=streamed)
            hop = weave.over()
            asked = {ask.id: ask.arguments for ask in hop.asks}
            if not asked:  # a tool of the provider's, or an answer that broke off
                continue
            hidden = [call for call in answer.tool_calls if call.name == name]
            assert [json.loads(one or "{}") for one in asked.values()] == [
                json.loads(c.arguments or "{}") for c in hidden
            ]
            told = understood(path, given + weave.finish({}), streamed=streamed)
            assert list(told.tool_calls) == [call for call in answer.tool_calls if call.name != name]
            assert (told.text, told.thinking, told.id, told.model) == (
                answer.text, answer.thinking, answer.id, answer.model,
            ), file  # fmt: skip
            assert told.usage == answer.usage
            seen += 1
    assert seen >= 3
