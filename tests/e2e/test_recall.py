"""Real clients whose model remembers: inside the conversation, of which they know nothing, and by MCP.

The scripted model knows nothing itself. It answers with a word that nobody but the memory can have told it: one that stands in
the result of the tool which it has just called.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import Received, ScriptedModel
from addons.demo.reply import Reply, ToolCall
from memory.exchange import Protocol
from tests.addons.conftest import configuration
from tests.e2e.codex_model import CodexModel, exec_call
from tests.e2e.conftest import CLIENTS, ClaudeCode, Codex, Home, node, python, run_client, sdk_environment
from tests.harness import Loop, SuiteProcess

pytestmark = pytest.mark.e2e

BY_THE_WAY = {"name": "keeper", "match": {"proxy_user": "keeper"}, "memory_enabled": True, "mode": "mcp_via_llm"}
BY_MCP = {**BY_THE_WAY, "mode": "both"}
WITHOUT = {"name": "stranger", "match": {"proxy_user": "stranger"}, "mode": "mcp_via_llm"}
PLACES = ("boathouse", "attic")
QUESTIONS = tuple(f"Which word opens the {place}?" for place in PLACES)
MCP_TOOL = "mcp__mitmemory__MemoryRecall"
UNKNOWN = "Nobody has told me."
WORD = re.compile(r"tern-[0-9a-f]{8}")

type Words = Mapping[str, str]


@pytest.fixture
def words() -> Words:
    """A word for each place, new in each run."""
    return {place: f"tern-{secrets.token_hex(4)}" for place in PLACES}


def plants(words: Words) -> list[str]:
    return [f"Please remember: the word that opens the {place} is {words[place]}." for place in PLACES]


class Forgetful:
    """A model's part that calls its recall tool where it has one, and repeats the word that it was given for that."""

    def __init__(self) -> None:
        self.offered: list[list[str]] = []
        """The tools of each request that asked for a word."""

    def __call__(self, _protocol: Protocol, body: dict[str, Any]) -> Reply:
        last = last_of(body)
        if results := list(results_in(last)):
            found = WORD.findall(" ".join(results))
            return Reply(f"It is {found[0]}." if found else UNKNOWN)
        said = json.dumps(last)
        place = next((place for place, question in zip(PLACES, QUESTIONS, strict=True) if question in said), None)
        if place is None:
            return Reply("I will.")
        names = list(tools_of(body))
        self.offered.append(names)
        call = self.call(names, f"word that opens the {place}")
        return Reply("Let me think.", (call,)) if call else Reply(UNKNOWN)

    def call(self, names: list[str], query: str) -> ToolCall | None:
        tool = next((name for name in names if name.endswith("MemoryRecall")), None)
        return ToolCall(tool, {"query": query}) if tool else None


class Programming(Forgetful):
    """A model that writes programs, as Codex has it do: these find the tools of MCP servers, no request lists them."""

    def call(self, names: list[str], query: str) -> ToolCall:
        assert not names
        lines = (
            "const tool = ALL_TOOLS.find((one) => one.name.endsWith('MemoryRecall'));",
            f"const found = await tools[tool.name]({{query: {json.dumps(query)}}});",
            "text(found.content[0].text);",
        )
        return exec_call("\n".join(lines))


def last_of(body: dict[str, Any]) -> Any:
    """What a request ends with: a message, an item, a content. Claude Code adds system messages of its own."""
    said = body.get("messages") or body.get("contents") or body.get("input") or ""
    return [one for one in said if one.get("role") != "system"][-1] if isinstance(said, list) else said


def results_in(last: Any) -> Iterator[str]:
    """What tools gave back, in any protocol."""
    if not isinstance(last, dict):
        return
    if last.get("role") == "tool" or last.get("type") in ("function_call_output", "custom_tool_call_output"):
        yield json.dumps(last)
    for part in (last.get("content"), last.get("parts")):
        for one in part if isinstance(part, list) else []:
            if one.get("type") == "tool_result" or "functionResponse" in one:
                yield json.dumps(one)


def tools_of(body: dict[str, Any]) -> Iterator[str]:
    for tool in body.get("tools") or []:
        for declared in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            yield declared.get("name", "")


def answered(words: Words, before: str = "") -> list[str]:
    return [f"{before}It is {words[place]}." for place in PLACES]


async def codex_model(authority: AuthorityPaths, script: Forgetful) -> CodexModel:
    """One that takes WebSockets."""
    model = CodexModel(script, sockets=True, tls=authority.server_context())
    await model.__aenter__()
    return model


def until_searchable(suite: SuiteProcess) -> None:
    """A model thinks before it calls a tool, which is when an index is opened; this one does not."""
    assert suite.api("api/clients/keeper/recall", method="POST", body={"query": "word"}).body["results"]


# Inside the conversation


@pytest.mark.parametrize(
    ("program", "talks"), [("ask_anthropic.py", 1), ("ask_openai.py", 2), ("ask_gemini.py", 1)], ids=str
)
def test_an_sdk_gets_one_answer_in_which_the_model_has_remembered(
    tmp_path: Path,
    vault: Path,
    model: ScriptedModel,
    authority: AuthorityPaths,
    words: Words,
    program: str,
    talks: int,
) -> None:
    """Each program asks twice in one conversation, the first answer whole, the second streamed."""
    model.script = script = Forgetful()
    providers = dict.fromkeys(("anthropic", "openai", "google"), model.url)
    config = configuration(vault, providers, clients=[BY_THE_WAY, WITHOUT])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:

        def ask(user: str, *questions: str) -> Any:
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **sdk_environment(suite, user)}
            ran = run_client(python(program), environment, tmp_path, stdin=json.dumps(questions))
            assert ran.returncode == 0, ran.stderr
            return json.loads(ran.stdout)

        ask("keeper", *plants(words))
        ask("stranger", *plants(words))
        until_searchable(suite)
        # Some protocols have one text, and some a list of them.
        together = [said.replace("\n\n", "") for said in ask("keeper", *QUESTIONS)]
        assert together == answered(words, "Let me think.") * talks
        assert script.offered == [["MemoryRecall"]] * 2 * talks
        assert ask("stranger", *QUESTIONS) == [UNKNOWN] * 2 * talks
        assert script.offered[2 * talks :] == [[]] * 2 * talks

        entries = [one for one in suite.activity(8 * talks) if one["client"] == "keeper"]
        assert [one["recalls"]["searches"] for one in entries] == [1, 1] * talks + [0, 0] * talks
        assert {one["outcome"] for one in entries} == {"answered"}


def test_claude_code_answers_from_memory_and_never_sees_a_tool(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths, words: Words
) -> None:
    model.script = script = Forgetful()
    config = configuration(vault, {"anthropic": model.url}, clients=[BY_THE_WAY])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        claude = ClaudeCode(home, suite, user="keeper")
        claude.ask(plants(words)[0])
        until_searchable(suite)
        seen = claude.ask(QUESTIONS[0], "--output-format", "stream-json", "--verbose")
        events = [json.loads(line) for line in seen.splitlines()]
        assert events[-1]["result"].endswith(answered(words)[0])
        assert "MemoryRecall" not in seen
        # What was hidden is put back for the model, which goes on as if it had been there all the time.
        model.received.clear()
        claude.ask("--continue", "Thank you.")
        sent = main_request(model.received)
        assert [block["type"] for block in sent["messages"][-4]["content"]][-1] == "tool_use"
        assert words["boathouse"] in json.dumps(sent["messages"][-3]["content"])
    assert script.offered[0][-1] == "MemoryRecall"


def main_request(received: list[Received]) -> dict[str, Any]:
    """The one with all the tools."""
    bodies = [json.loads(one.body) for one in received if one.method == "POST" and b'"tools"' in one.body]
    found: dict[str, Any] = max(bodies, key=lambda body: len(body.get("tools", ())))
    return found


def test_codex_answers_from_memory_by_the_tool_beside_its_own(
    tmp_path: Path, home: Home, vault: Path, background: Loop, authority: AuthorityPaths, words: Words
) -> None:
    model = background.run(codex_model(authority, Forgetful()))
    try:
        config = configuration(vault, {"openai": f"https://127.0.0.1:{model.port}"}, clients=[BY_THE_WAY])
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            codex = Codex(home, suite, user="keeper")
            codex.ask(plants(words)[0])
            until_searchable(suite)
            assert codex.ask(QUESTIONS[0]).splitlines()[-1] == answered(words)[0]
        assert model.messages == [], "its WebSocket was refused"
    finally:
        background.run(model.__aexit__())


# By MCP


def token_of(suite: SuiteProcess) -> str:
    token: str = made_token(suite)["token"]
    return token


def made_token(suite: SuiteProcess) -> dict[str, Any]:
    made = suite.api("api/clients/keeper/token", method="POST", body={})
    assert made.status == 200, made.body
    answer: dict[str, Any] = made.body
    return answer


def mcp_url(suite: SuiteProcess, client: str = "keeper") -> str:
    return f"{suite.dashboard.rstrip('/')}/mcp/{client}"


def test_claude_code_connects_to_the_mcp_server_and_asks_it(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths, words: Words
) -> None:
    model.script = script = Forgetful()
    config = configuration(vault, {"anthropic": model.url}, clients=[BY_MCP])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        claude = ClaudeCode(home, suite, user="keeper")
        claude.ask(plants(words)[0])
        until_searchable(suite)
        line = next(one["text"] for one in made_token(suite)["lines"] if one["program"] == "Claude Code")
        program, *arguments = shlex.split(line)
        assert program == "claude"
        claude.command(*arguments)
        assert "Connected" in claude.command("mcp", "list")
        said = claude.ask(QUESTIONS[0], "--allowedTools", MCP_TOOL)
        assert said == f"{answered(words)[0]}\n"
    assert MCP_TOOL in script.offered[0]


def test_codex_asks_the_mcp_server(
    tmp_path: Path, home: Home, vault: Path, background: Loop, authority: AuthorityPaths, words: Words
) -> None:
    model = background.run(codex_model(authority, Programming()))
    try:
        config = configuration(vault, {"openai": f"https://127.0.0.1:{model.port}"}, clients=[BY_MCP])
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            codex = Codex(home, suite, user="keeper")
            codex.ask(plants(words)[0])
            until_searchable(suite)
            codex.add_server("mitmemory", mcp_url(suite), token_of(suite))
            assert codex.ask(QUESTIONS[0]).splitlines()[-1] == answered(words)[0]
    finally:
        background.run(model.__aexit__())


def test_the_inspector_lists_and_calls_the_tool_and_nobody_else_does(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths, words: Words
) -> None:
    model.script = Forgetful()
    other = {**BY_MCP, "name": "other", "match": {"proxy_user": "other"}}
    config = configuration(vault, {"anthropic": model.url}, clients=[BY_MCP, other])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **sdk_environment(suite, "keeper")}
        talk = json.dumps(plants(words))
        assert run_client(python("ask_anthropic.py"), environment, tmp_path, stdin=talk).returncode == 0
        token = token_of(suite)

        def inspect(client: str, *arguments: str) -> tuple[int, str]:
            command = [node(), str(CLIENTS / ".bin" / "mcp-inspector"), "--cli", mcp_url(suite, client)]
            command += ["--transport", "http", "--header", f"Authorization: Bearer {token}", *arguments]
            ran = run_client(
                command, {"PATH": f"{Path(node()).parent}:/usr/bin:/bin", "HOME": str(home.folder)}, tmp_path
            )
            return ran.returncode, ran.stdout

        code, listed = inspect("keeper", "--method", "tools/list")
        assert (code, [tool["name"] for tool in json.loads(listed)["tools"]]) == (0, ["MemoryRecall"])
        call = (
            "--method",
            "tools/call",
            "--tool-name",
            "MemoryRecall",
            "--tool-arg",
            "query=word that opens the attic",
        )
        code, called = inspect("keeper", *call)
        [content] = json.loads(called)["content"]
        assert (code, words["attic"] in content["text"]) == (0, True)
        code, called = inspect("other", *call)
        assert (code != 0, words["attic"] in called) == (True, False)
