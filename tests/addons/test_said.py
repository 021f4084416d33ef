"""What of a request and its answer counts as said: whose words they are, in the shape that memories have."""

from __future__ import annotations

import time

import pytest

from addons.wire import content
from addons.wire.answer import Answer, ToolCall
from addons.wire.own_words import own_words
from addons.wire.said import said_answer, said_messages
from memory.conversations.said import Call, Message, Result

REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"

WORDS = [
    ("How long is the jetty?", "How long is the jetty?"),
    ("  indented\n", "  indented\n"),
    ("", ""),
    (REMINDER, ""),
    (f"{REMINDER}\n{REMINDER}\nHow long?\n\n{REMINDER}\n", "How long?"),
    ("What is a <system-reminder> for, and </system-reminder>?", "What is a <system-reminder> for, and </system-reminder>?"),
    ("<system-reminder>\nIt never ends.\nHow long?", "<system-reminder>\nIt never ends.\nHow long?"),
    ("x <system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>y", "x <system-reminder>a</system-reminder>\ny"),
    ("<ide_opened_file>The user opened tides.md</ide_opened_file>\nHow long?", "How long?"),
    ("<ide_selection>12 metres</ide_selection>\nHow long?", "How long?"),
    ("<command-message>init is running</command-message>\n<command-name>/init</command-name>\n<command-args>fast</command-args>", "/init\nfast"),
    ("<bash-input>ls</bash-input>\n<bash-stdout>tides.md</bash-stdout><bash-stderr></bash-stderr>", "ls"),
    ("<local-command-stdout>Set model to tide</local-command-stdout>", ""),
    ("<environment_context>\n  <cwd>/srv</cwd>\n</environment_context>", ""),
    ("<user_instructions>\nBe brief.\n</user_instructions>", ""),
    ("# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>", ""),
    ("# AGENTS.md instructions for /srv\nare missing. Why?", "# AGENTS.md instructions for /srv\nare missing. Why?"),
    ("# Context from my IDE setup:\n\n## Active file: tides.md\n\n## My request for Codex:\nHow long?\n", "How long?"),
    ("# Context from my IDE setup:\nis what?", "# Context from my IDE setup:\nis what?"),
    ("<turn_aborted>\nThe user interrupted.\n</turn_aborted>", ""),
    ("<session_context>\nMy setup is complete.\n</session_context>", ""),
    ("What is in @tides.md?\n\n--- Content from referenced files ---\nContent from @tides.md:\n12 metres\n--- End of content ---", "What is in @tides.md?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WORDS, ids=range(len(WORDS)))
def test_a_persons_own_words(text: str, words: str) -> None:
    assert own_words(text) == words


@pytest.mark.parametrize(
    "text", ["<system-reminder>\n", "--- Content from referenced files ---\n", "x<system-reminder></"]
)
def test_looking_for_them_takes_a_time_that_grows_with_the_text_only(text: str) -> None:
    def seconds(times: int) -> float:
        started = time.thread_time()
        own_words(text * times)
        return time.thread_time() - started

    few, many = min(seconds(2_000) for _ in range(5)), min(seconds(40_000) for _ in range(3))
    assert many < 100 * few + 0.01  # 20 times as long, and 400 times if each beginning were searched from


def test_the_messages_of_a_request() -> None:
    asked = content.Message("user", f"{REMINDER}\nHow long?")
    call = content.Message("assistant", "I look.", (ToolCall("t1", "Read", '{"path": "tides.md"}'),))
    gave = content.Message("user", "And now?", (), (content.ToolResult("t1", "12 metres"),))
    searched = content.Message("assistant", "", (ToolCall("m1", "search", "{}"),), (content.ToolResult("m1", "found"),))
    reminded = content.Message("user", REMINDER, (), (content.ToolResult("t2", "13 metres"),))
    returned = content.Message("tool", "", (), (content.ToolResult("t3", "14"), content.ToolResult("", "15")))
    picture, own, system = (
        content.Message("user"),
        content.Message("user", REMINDER),
        content.Message("system", "Be kind."),
    )
    messages = (asked, system, call, gave, searched, reminded, own, returned, picture)
    assert tuple(said_messages(messages)) == (
        Message("user", "How long?"),
        Message("assistant", "I look.", (Call("t1", "Read", '{"path": "tides.md"}'),)),
        Message("tool", results=(Result("t1", "12 metres"),)),
        Message("user", "And now?"),
        Message("assistant", "", (Call("m1", "search", "{}"),)),
        Message("tool", results=(Result("t2", "13 metres"),)),
        Message("tool", results=(Result("t3", "14"), Result("", "15"))),
        Message("user", ""),
    )


def test_an_answer() -> None:
    answer = Answer("Noon.", "I think so.", (ToolCall("t1", "Read", "{}"), ToolCall("", "exec", "ls")), stop_reason="x")
    assert said_answer(answer) == Message("assistant", "Noon.", (Call("t1", "Read", "{}"), Call("", "exec", "ls")))
    assert said_answer(Answer()) == Message("assistant")
