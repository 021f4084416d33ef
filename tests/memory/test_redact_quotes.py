"""Redacting quotes: the rows that go with them, and those that stay. And what is signed, which is not touched."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from memory.redact import SIGNED, STILL_THERE, redact
from tests.memory.redacting import (
    BERTH,
    MARK,
    OTHER,
    TEXT,
    TIDE,
    built,
    leaks,
    letters,
    mark,
    note,
    redacted,
)

# --- quotes ----------------------------------------------------------------------------------------------------------


def test_a_quote_takes_its_rows_with_it() -> None:
    text = f"Before.\n  As I wrote some time ago: {TIDE[:70]} and so on, and on.\nAfter that there was nothing to be said.\nThe end."
    result = redacted(json.dumps(text).encode())
    assert json.loads(result.data) == f"Before.\n  {MARK}\nAfter that there was nothing to be said.\nThe end."


def test_the_ends_of_a_quote_go_too() -> None:
    for width in range(20, 90):
        text = "Intro here.\n\n" + "\n".join(textwrap.wrap(TEXT.replace("---\nOK\n", ""), width)) + "\n\nOutro here."
        result = redacted(json.dumps({"content": text}).encode())
        assert not leaks(result.data)
        assert result.complete
        left = json.loads(result.data)["content"].replace(MARK, "")
        assert letters(left) in {"introhereoutrohere", "introhere", "outrohere", ""}


IN_THE_MIDDLE = f"{BERTH} {TIDE} {OTHER}"


@pytest.mark.parametrize(
    ("text", "shown", "left"),
    [
        (
            IN_THE_MIDDLE,
            f"So:\nSomebody wrote then: {TIDE[:-6]}\n{TIDE[-5:]} Then there was more.\nThe end.",
            f"So:\n{MARK}\n{MARK}\nThe end.",
        ),
        (
            IN_THE_MIDDLE,
            f"So it was:\nSomebody wrote then: {TIDE[:8]}\n{TIDE[9:]} Then there was more.\nThe end.",
            f"So it was:\n{MARK}\n{MARK}\nThe end.",
        ),
        (
            f"{BERTH} {TIDE} 4711 {OTHER}",
            f"Then, in the end:\nSomebody wrote then: {TIDE}\n4711",
            f"Then, in the end:\n{MARK}\n{MARK}",
        ),
        (f"{BERTH} 4711 {TIDE} {OTHER}", f"4711\n{TIDE} That was all of it.\nThe end.", f"{MARK}\n{MARK}\nThe end."),
        (f"{TIDE} It is 4711:\nIt is so.", f"{TIDE} It is\n4711: It is so.\nThe end.", f"{MARK}\n{MARK}\nThe end."),
        (f"It is so.\n{TIDE}", f"The end.\nIt is so.\n{TIDE[:50]}\n", f"The end.\n{MARK}\n{MARK}\n"),
    ],
    ids=[
        "last letters",
        "first letters",
        "last digits",
        "first digits",
        "what looks like a prefix",
        "not behind a line",
    ],
)
def test_how_far_a_quote_reaches(text: str, shown: str, left: str) -> None:
    for _ in range(60):  # each index chooses other grams
        result = redact(built(note("a.md", text)), json.dumps({"content": shown}).encode(), [mark("a.md")])
        assert json.loads(result.data)["content"] == left


def test_a_short_line_over_several_rows() -> None:
    for text in (f"{TIDE}\nx\nPIN\n4711\ny", f"{TIDE}\nx\n12→PIN\n13→4711\ny"):
        assert not leaks(redacted(json.dumps({"content": text}).encode()).data)


def test_wide_letters() -> None:
    line = "潮の時刻表を港の入口に毎朝掲示すること、夜は灯台の時計を巻くこと"
    index = built(note("a.md", f"{line}\n鍵は七番"))
    for width in (6, 9, 12, 40):
        rows = "\n".join(textwrap.wrap(line, width))
        result = redact(
            index, json.dumps({"content": f"はい\n{rows}\n鍵は七番\nいいえ、これは違う話です"}).encode(), [mark("a.md")]
        )
        assert result.complete
        assert not leaks(result.data, (line, "鍵は七番"))
        assert "違う話" in json.loads(result.data)["content"] or width < 12


# --- signed blocks ---------------------------------------------------------------------------------------------------

SIGNED_BLOCKS = {
    "Anthropic": {"content": [{"type": "thinking", "thinking": TEXT, "signature": "c2ln"}]},
    "its order": {"content": [{"signature": "c2ln", "thinking": TEXT, "type": "thinking"}]},
    "redacted": {"content": [{"type": "redacted_thinking", "data": TEXT}]},
    "Bedrock": {"reasoningContent": {"reasoningText": {"text": TEXT, "signature": "c2ln"}}},
    "Gemini": {"parts": [{"functionCall": {"name": "f", "args": {"x": [TEXT]}}, "thoughtSignature": "c2ln"}]},
    "Gemini, as OpenAI": {
        "tool_calls": [{"function": {"arguments": TEXT}, "extra_content": {"google": {"thought_signature": "c2ln"}}}]
    },
    "OpenAI": {"input": [{"type": "reasoning", "summary": [{"text": TEXT}], "encrypted_content": "c2ln"}]},
    "OpenRouter": {"reasoning_details": [{"type": "reasoning.text", "text": TEXT, "signature": "c2ln"}]},
}


@pytest.mark.parametrize("name", SIGNED_BLOCKS)
def test_what_is_signed_is_not_touched(name: str) -> None:
    block = SIGNED_BLOCKS[name]
    result = redacted(json.dumps({"before": TIDE, "signed": block, "after": {"text": BERTH}}).encode())
    assert json.loads(result.data) == {"before": MARK, "signed": block, "after": {"text": MARK}}
    assert (result.complete, result.reasons) == (False, (SIGNED, STILL_THERE))


@pytest.mark.parametrize("name", SIGNED_BLOCKS)
def test_what_is_signed_and_says_nothing_does_not_matter(name: str) -> None:
    signed = json.loads(json.dumps(SIGNED_BLOCKS[name]).replace(json.dumps(TEXT), '"Let me see."'))
    result = redacted(json.dumps({"signed": signed, "text": TIDE}).encode())
    assert (json.loads(result.data), result.complete) == ({"signed": signed, "text": MARK}, True)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": TIDE, "signature": ""},
        {"type": "tool_use", "input": {"signature": "def f()", "code": TIDE}},
        {"type": "text", "text": json.dumps({"type": "thinking", "thinking": TIDE, "signature": "c2ln"})},
        {"type": "text", "text": TIDE, "after": {"type": "thinking", "thinking": "x", "signature": "c2ln"}},
    ],
)
def test_what_only_looks_signed_is_redacted(block: dict[str, Any]) -> None:
    result = redacted(json.dumps({"content": [block]}).encode())
    assert result.complete
    assert not leaks(result.data)
