"""Claude Code from npm against the scripted model: the notes that it reads, and its own memory, which it always sends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import Received, ScriptedModel
from addons.demo.reply import Reply, ToolCall, Turn, in_turn
from memory.exchange import Usage
from tests.addons.conftest import configuration
from tests.e2e.conftest import LAMP, ClaudeCode, Home, Report, counted, seen
from tests.harness import SuiteProcess

pytestmark = pytest.mark.e2e

READING = Usage(input=12, output=80, cache_read=11_000, cache_write=900)
READ = Usage(input=9, output=14, cache_read=11_900, cache_write=310)
AGAIN = Usage(input=7, output=6, cache_read=12_210, cache_write=40)
COMMON = {
    "client": "claude-code",
    "protocol": "anthropic",
    "to": "cloud: anthropic at api.anthropic.com:443",
    "side": False,
    "scan": "complete",
    "outcome": "answered",
}

EVERYWHERE = "Answer the keeper in one short sentence only.\n"
HERE = "The lamp room is painted white every spring.\n"
LEARNED = "- The keeper likes tide tables in metres, not feet.\n"


def posts(model: ScriptedModel) -> list[Received]:
    """What it asked the model; before that it looks for settings."""
    asked = [one for one in model.received if one.method == "POST"]
    assert {(one.target, one.http_version) for one in asked} == {("/v1/messages?beta=true", "1.1")}
    return asked


def test_a_note_it_reads_is_seen_and_seen_again_in_the_next_turn(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths, report: Report
) -> None:
    reads = ToolCall("Read", {"file_path": str(vault / "light" / "Lighthouse.md")})
    model.script = in_turn(
        [
            Turn(Reply("I will read it.", (reads,), READING)),
            Turn(Reply("The lamp needs bearings.", usage=READ)),
            Turn(Reply("No, that is all.", usage=AGAIN)),
        ]
    )
    config = configuration(vault, {"anthropic": model.url})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        claude = ClaudeCode(home, suite)
        asked = claude.ask("What does the lamp need?", "--allowedTools", "Read", "--add-dir", str(vault))
        assert asked == "The lamp needs bearings.\n"
        assert claude.ask("--continue", "Thank you. Anything else?") == "No, that is all.\n"

        entries = list(reversed(suite.activity(3)))
        common = {**COMMON, "model": entries[0]["model"]}
        assert [seen(entry) for entry in entries] == [
            {**common, "notes": {}, "usage": counted(READING)},
            {**common, "notes": {LAMP: "4/4 lines"}, "usage": counted(READ)},
            {**common, "notes": {LAMP: "4/4 lines, again"}, "usage": counted(AGAIN)},
        ]
        assert [entry["bytes"]["request"] for entry in entries] == [len(one.body) for one in posts(model)]
        assert len({entry["conversation"] for entry in entries}) == 1
        report("Claude Code", posts(model), entries)


def test_a_block_is_shown_to_the_person_and_not_tried_again(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths
) -> None:
    reads = ToolCall("Read", {"file_path": str(vault / "light" / "Lighthouse.md")})
    model.script = in_turn([Turn(Reply("I will read it.", (reads,), READING))])
    model.received.clear()
    rule = {"name": "the light stays home", "when": {"note": LAMP, "by": "content", "to": "cloud"}, "then": "block"}
    config = configuration(vault, {"anthropic": model.url}, rules=[rule])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        claude = ClaudeCode(home, suite)
        asked = claude.run("What does the lamp need?", "--allowedTools", "Read", "--add-dir", str(vault))
        told = 'mitmemory blocked this request: "the light stays home" keeps "Lighthouse" from'
        assert told in asked.stdout + asked.stderr
        blocked, read = suite.activity(2)
        assert [(entry["outcome"], entry["sentTo"] == []) for entry in (read, blocked)] == [
            ("answered", False),
            ("blocked", True),
        ]
        assert len(posts(model)) == 1


def test_its_own_memory_is_seen_though_nobody_asks_for_it(
    tmp_path: Path, home: Home, model: ScriptedModel, authority: AuthorityPaths, report: Report
) -> None:
    folder = home.folder / ".claude"
    learned = folder / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(home.project)) / "memory" / "MEMORY.md"
    learned.parent.mkdir(parents=True)
    learned.write_text(LEARNED)
    (folder / "CLAUDE.md").write_text(EVERYWHERE)
    (home.project / "CLAUDE.md").write_text(HERE)
    model.script = lambda _protocol, _body: Reply("Good morning.", usage=AGAIN)
    model.received.clear()
    sources = [
        {"name": "claude", "type": "claude_code", "path": str(folder)},
        {"name": "project", "type": "markdown", "path": str(home.project)},
    ]
    config: dict[str, Any] = configuration(tmp_path, {"anthropic": model.url}, memory={"sources": sources})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        assert ClaudeCode(home, suite).ask("Good morning!") == "Good morning.\n"
        [entry] = suite.activity(1)
        project_memory = learned.relative_to(folder).as_posix()
        memory = {
            "claude/CLAUDE.md": "1/1 lines",
            "project/CLAUDE.md": "1/1 lines",
            f"claude/{project_memory}": "1/1 lines",
        }
        assert seen(entry) == {**COMMON, "model": entry["model"], "notes": memory, "usage": counted(AGAIN)}
        report("Claude Code", posts(model), [entry], " with its own memory")
