"""What the demo sends: requests in the words of real clients, each with what should be found in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from addons.demo.reply import FRIENDLY, Reply, Script, ToolCall
from addons.demo.sample import Expected, SampleVault
from memory.conversations.recall import HEAD
from memory.conversations.recall_tool import DEFAULT_NAME
from memory.exchange import Place, Protocol

ANTHROPIC = "https://api.anthropic.com"
OPENAI = "https://api.openai.com"
GEMINI = "https://generativelanguage.googleapis.com"

ASSISTANT = "Assistant/"
"""What the User-Agent of the client begins with whose conversations are remembered."""
MEMORIES = HEAD[:40]
"""What a search of the memory gives begins with it."""

PAUSE = 0.04
"""Seconds between the events of an answer: about as fast as a model writes."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what should come of it. `cue` is text of the request by which the model knows its reply.

    `recalled` is what the model says once it has searched its memory, where its reply was to do that.
    """

    title: str
    protocol: Protocol
    model: str
    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    cue: str
    reply: Reply
    expected: dict[str, Expected] = field(default_factory=dict)
    to: Place = "cloud"
    recalled: Reply | None = None

    def encoded(self) -> bytes:
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()


def demo_exchanges(vault: SampleVault, *, local_url: str, session: str) -> list[Exchange]:
    """The demo in order. `local_url`: where a model on this machine answers (`http://127.0.0.1:PORT`).

    `session` names the conversations: the same one again is the same conversations continued.
    """
    told, asked = assistant()
    return [
        told,
        *claude_code(vault, session),
        pasted_journal(vault),
        *codex(vault, session),
        *gemini_cli(vault, session),
        mentions_only(vault),
        sentence(vault),
        no_notes(),
        quoted_mail(vault),
        asked,
        local_model(vault, local_url),
    ]


def replies(exchanges: Sequence[Exchange]) -> Script:
    """The model's part: the reply whose cue stands last in the request, so that a resent history does not confuse."""

    def script(_protocol: Protocol, body: dict[str, Any]) -> Reply:
        text, memories, _ = json.dumps(body, ensure_ascii=False).partition(MEMORIES)
        position, exchange = max(((text.rfind(one.cue), one) for one in exchanges), key=lambda found: found[0])
        if position < 0:
            return FRIENDLY
        return exchange.recalled if memories and exchange.recalled else exchange.reply

    return script


def numbered(lines: Sequence[str]) -> str:
    """A file as Claude Code's Read tool gives it: number, tab, text, and an empty last line."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate([*lines, ""], start=1))


def claude_code(vault: SampleVault, session: str) -> list[Exchange]:
    """Asks, reads a note, then reads another while the first is sent again with the rest of the conversation."""
    plan, maker = "projects/Tide Clock 2.md", "people/Ines Okoye.md"
    first, second = "Which of our open questions could we settle this week?", "And who should I ask about the movement?"
    headers = {
        "User-Agent": "claude-cli/2.1.197 (external, cli)",
        "X-Api-Key": "demo",
        "anthropic-version": "2023-06-01",
        "X-Claude-Code-Session-Id": session,
    }
    asked = [{"role": "user", "content": [{"type": "text", "text": first}]}]
    read = [
        *asked,
        *read_steps(vault, plan, "toolu_demo_plan", "Let me read the plan."),
    ]
    answer = (
        "The loud stepper: measure it tonight, in a bedroom. The case and the neap correction can wait for the pilot."
    )
    again = [
        *read,
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
        {"role": "user", "content": [{"type": "text", "text": second}]},
        *read_steps(vault, maker, "toolu_demo_maker", "I will look her up."),
    ]

    def exchange(title: str, messages: list[Any], cue: str, reply: Reply, expected: dict[str, Expected]) -> Exchange:
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 8192,
            "stream": True,
            "system": [{"type": "text", "text": "You are a coding agent that works in the user's terminal."}],
            "metadata": {"user_id": json.dumps({"device_id": "demo", "session_id": session})},
            "tools": [READ_TOOL],
            "messages": messages,
        }
        url = f"{ANTHROPIC}/v1/messages?beta=true"
        return Exchange(title, "anthropic", "claude-sonnet-4-5", url, headers, body, cue, reply, expected)

    call = ToolCall("Read", {"file_path": str(vault.folder / plan)})
    told = Reply("Ines, and early in the day. Bring the part, she thinks with her hands.", delay=PAUSE)
    return [
        exchange("Claude Code asks", asked, first, Reply("Let me read the plan.", (call,), delay=PAUSE), {}),
        exchange(
            "Claude Code reads a note",
            read,
            "toolu_demo_plan",
            Reply(answer, delay=PAUSE),
            vault.expect(vault.lines(plan)),
        ),
        exchange(
            "Claude Code reads another, the first goes along again",
            again,
            "toolu_demo_maker",
            told,
            vault.expect([*vault.lines(plan), *vault.lines(maker)], resent=[plan]),
        ),
    ]


READ_TOOL = {
    "name": "Read",
    "description": "Reads a file. Results are given with line numbers.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
}


def read_steps(vault: SampleVault, path: str, call: str, said: str) -> list[dict[str, Any]]:
    tool_use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": str(vault.folder / path)}}
    result = {"type": "tool_result", "tool_use_id": call, "content": numbered(vault.lines(path))}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": said}, tool_use]},
        {"role": "user", "content": [result]},
    ]


def pasted_journal(vault: SampleVault) -> Exchange:
    """A small script of the user's own: two days of the journal, whole, for a weekly summary."""
    days = ["journal/2026-03-09.md", "journal/2026-03-10.md"]
    cue = "Summarise these two days in three sentences, in my own tone."
    body = {
        "model": "gpt-5.2",
        "messages": [
            {"role": "system", "content": "You write short weekly reviews."},
            {"role": "user", "content": "\n\n".join([cue, *(vault.texts[day] for day in days)])},
        ],
    }
    reply = Reply("You bent one rib and broke one. You ordered eighty faces. The stepper may tick, but never twice.")
    headers = {"User-Agent": "OpenAI/Python 3.57.0", "Authorization": "Bearer demo"}
    return Exchange(
        "A script summarises the journal",
        "openai-chat",
        "gpt-5.2",
        f"{OPENAI}/v1/chat/completions",
        headers,
        body,
        cue,
        reply,
        vault.expect([line for day in days for line in vault.lines(day)]),
    )


def codex(vault: SampleVault, session: str) -> list[Exchange]:
    """Runs `sed` on a note: two of its three lines come back, as JSON in a string."""
    path = "areas/Winter Storage.md"
    part = vault.lines(path)[-3:-1]
    question = "What did I write down about the mast and the cover?"
    output = json.dumps({"chunk_id": "a1", "exit_code": 0, "output": "\n".join([*part, ""])}, ensure_ascii=False)
    asked: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question}]}
    ]
    result = [
        *asked,
        {"type": "function_call", "call_id": "call_demo_sed", "name": "exec", "arguments": '{"cmd":"sed -n 6,7p"}'},
        {"type": "function_call_output", "call_id": "call_demo_sed", "output": output},
    ]

    def exchange(title: str, items: list[Any], cue: str, reply: Reply, expected: dict[str, Expected]) -> Exchange:
        body = {
            "model": "gpt-5.2",
            "instructions": "You are a coding agent.",
            "input": items,
            "tools": [{"type": "function", "name": "exec", "parameters": {"type": "object", "properties": {}}}],
            "stream": True,
            "store": False,
            "prompt_cache_key": session,
        }
        headers = {
            "User-Agent": "codex_exec/0.171.0 (Linux; x86_64)",
            "Authorization": "Bearer demo",
            "session-id": session,
        }
        url = f"{OPENAI}/v1/responses"
        return Exchange(title, "openai-responses", "gpt-5.2", url, headers, body, cue, reply, expected)

    call = ToolCall("exec", {"cmd": "sed -n 6,7p"})
    told = Reply("Mast and boom go under the gallery in the old mainsail; loosen the cover on dry days.", delay=PAUSE)
    return [
        exchange("Codex asks", asked, question, Reply("", (call,), delay=PAUSE), {}),
        exchange("Codex sees part of a note", result, "call_demo_sed", told, vault.expect(part)),
    ]


def gemini_cli(vault: SampleVault, session: str) -> list[Exchange]:
    """Sends the note twice: to a small model that chooses the model, then to the one it chose."""
    path = "recipes/Rye Sourdough.md"
    question = "Turn this recipe into a timetable that ends at noon on Sunday."
    parts = [
        {"text": question},
        {"text": "\n--- Content from referenced files ---"},
        {"text": f"\nContent from @{path}:\n"},
        {"text": vault.texts[path].removesuffix("\n")},
        {"text": "\n--- End of content ---"},
    ]
    expected = vault.expect(vault.lines(path))
    headers = {"User-Agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64)", "x-goog-api-key": "demo"}

    def exchange(title: str, call: str, first: str, cue: str, reply: Reply) -> Exchange:
        body = {"contents": [{"role": "user", "parts": [{"text": first}, *parts]}], "labels": {"session": session}}
        url = f"{GEMINI}/v1beta/models/{call}"
        model = call.partition(":")[0]
        return Exchange(title, "gemini", model, url, headers, body, cue, reply, expected)

    told = Reply(
        "Saturday 18:00 stir. Sunday 7:00 mix, 8:30 tin, 10:45 oven, noon on the rack. Do not cut it.", delay=PAUSE
    )
    return [
        exchange(
            "Gemini CLI chooses a model",
            "gemini-2.5-flash:generateContent",
            "Answer with the model that fits the next request: pro or flash.",
            "pro or flash",
            Reply("pro"),
        ),
        exchange(
            "Gemini CLI sends a recipe",
            "gemini-2.5-pro:streamGenerateContent?alt=sse",
            "This is the Gemini CLI. We are setting up the context for our chat.",
            "setting up the context",
            told,
        ),
    ]


def mentions_only(vault: SampleVault) -> Exchange:
    """Names two notes, one by its title and one by its path, and sends no line of either."""
    cue = "Does [[Harbour Almanac]] fit the plan in projects/Pricing.md, or should I keep the two apart?"
    body = {"model": "claude-haiku-4-5", "max_tokens": 512, "messages": [{"role": "user", "content": cue}]}
    return Exchange(
        "Two notes are only named",
        "anthropic",
        "claude-haiku-4-5",
        f"{ANTHROPIC}/v1/messages",
        {"User-Agent": "Anthropic/Python 2.14.0", "X-Api-Key": "demo", "anthropic-version": "2023-06-01"},
        body,
        cue,
        Reply("I only see their names. Send me the passages you want compared."),
        vault.expect([], mentioned=["projects/Harbour Almanac.md", "projects/Pricing.md"]),
    )


def sentence(vault: SampleVault) -> Exchange:
    """Half a sentence of a note in the middle of a line of its own: no whole line of the note, and found all the same."""
    path = "projects/Pricing.md"
    quote = "nobody who bought it said it was too much; the ones who did not buy never told us"
    assert quote in vault.texts[path]
    cue = f"I keep telling people that {quote}, is that a fair argument?"
    body = {"model": "claude-haiku-4-5", "max_tokens": 512, "messages": [{"role": "user", "content": cue}]}
    return Exchange(
        "A sentence in the middle of a line",
        "anthropic",
        "claude-haiku-4-5",
        f"{ANTHROPIC}/v1/messages",
        {"User-Agent": "Anthropic/Python 2.14.0", "X-Api-Key": "demo", "anthropic-version": "2023-06-01"},
        body,
        cue,
        Reply("Half of it. You heard from the ones who paid, and the silence of the others is no answer."),
        vault.expect([], quoted=[path]),
    )


def no_notes() -> Exchange:
    cue = "Write a haiku about rain on a tin roof."
    return Exchange(
        "A question with no note in it",
        "openai-chat",
        "gpt-5-mini",
        f"{OPENAI}/v1/chat/completions",
        {"User-Agent": "OpenAI/Python 3.57.0", "Authorization": "Bearer demo"},
        {
            "model": "gpt-5-mini",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": cue}],
        },
        cue,
        Reply("Nails on the tin roof,\nthe whole night counting itself.\nMorning: one gutter.", delay=PAUSE),
    )


def quoted_mail(vault: SampleVault) -> Exchange:
    """Two private lines, quoted with `> ` as a mail program does, sent away with the rest of a mail."""
    part = vault.lines("areas/Money.md")[7:9]
    cue = "Make this mail to the others friendlier, please:"
    text = "\n".join([cue, "", "Hello both, here is where I stand:", *(f"> {line}" for line in part), "Yours, W."])
    return Exchange(
        "A mail quotes a private note",
        "openai-responses",
        "gpt-5-mini",
        f"{OPENAI}/v1/responses",
        {"User-Agent": "OpenAI/JS 6.9.0", "Authorization": "Bearer demo"},
        {"model": "gpt-5-mini", "input": text},
        cue,
        Reply("Hello you two, just so that we all look at the same numbers: here is how I get through until June."),
        vault.expect(part),
    )


def local_model(vault: SampleVault, local_url: str) -> Exchange:
    """The private note that stays on this machine: sent to a model on it."""
    path = "areas/Health.md"
    cue = "Turn my notes into questions for the doctor."
    return Exchange(
        "A private note goes to a local model",
        "ollama",
        "llama3.2:3b",
        f"{local_url}/api/chat",
        {"User-Agent": "ollama-python/0.6.1 (x86_64 linux) Python/3.12.1"},
        {"model": "llama3.2:3b", "messages": [{"role": "user", "content": f"{cue}\n\n{vault.texts[path]}"}]},
        cue,
        Reply("Is the iron dose still right? Does sleep explain the migraines? May I stop measuring?", delay=PAUSE),
        vault.expect(vault.lines(path)),
        to="local",
    )


def assistant() -> list[Exchange]:
    """Tells an assistant something, and asks in a new conversation: the model searches its memory, unseen by the client."""
    said = "Remember for me: the spare movement lies in the blue biscuit tin, on top of the plan chest."
    asked = "Where did I put the replacement for the clockwork?"
    search = ToolCall(DEFAULT_NAME, {"query": "where is the spare movement, the replacement for the clockwork"})

    def exchange(title: str, cue: str, reply: Reply, recalled: Reply | None = None) -> Exchange:
        body = {"model": "claude-haiku-4-6", "max_tokens": 512, "stream": True}
        body["messages"] = [{"role": "user", "content": cue}]
        headers = {"User-Agent": f"{ASSISTANT}1.4", "X-Api-Key": "demo", "anthropic-version": "2023-06-01"}
        url = f"{ANTHROPIC}/v1/messages"
        return Exchange(title, "anthropic", "claude-haiku-4-6", url, headers, body, cue, reply, recalled=recalled)

    found = Reply("In the blue biscuit tin, on top of the plan chest.", delay=PAUSE)
    return [
        exchange("An assistant is told something", said, Reply("I will remember that.", delay=PAUSE)),
        exchange("It remembers it in a new conversation", asked, Reply("", (search,), delay=PAUSE), found),
    ]
