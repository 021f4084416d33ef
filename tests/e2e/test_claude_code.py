"""Claude Code from npm against the scripted model: what its Read tool reads shows up, and again in the next turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply, ToolCall, Turn, in_turn
from tests.addons.conftest import HARBOUR, configuration
from tests.e2e.conftest import Home, native_program, run_client
from tests.harness import SuiteProcess

pytestmark = pytest.mark.e2e

# Four lines of 24 characters or more; the heading, the tag and the list are too short.
NOTE = """---
tags: [work]
---
# Lighthouse lamp

The lamp turns once in eleven seconds now.
Ordered two spare bearings from the depot.
- oil
The keeper's log says the old lens fogged in May.
Call the harbour office before the next spring tide.
"""


def test_a_note_it_reads_is_seen_and_seen_again_in_the_next_turn(
    tmp_path: Path, home: Home, model: ScriptedModel, authority: AuthorityPaths
) -> None:
    vault = tmp_path / "vault"
    (vault / "light").mkdir(parents=True)
    (vault / "light" / "Lighthouse.md").write_text(NOTE)
    (vault / "Harbour.md").write_text(HARBOUR)
    note = vault / "light" / "Lighthouse.md"
    model.script = in_turn(
        [
            Turn(Reply("I will read it.", (ToolCall("Read", {"file_path": str(note)}),)), "anthropic", asks_with_tools),
            Turn(Reply("The lamp needs bearings."), "anthropic", asks_with_tools),
        ],
        otherwise=Reply("Fine."),
    )
    config = configuration(vault, {"anthropic": model.url})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        claude = native_program("@anthropic-ai/claude-code", "claude")
        environment = home.environment(
            suite,
            {
                "ANTHROPIC_API_KEY": "dummy-key-of-the-tests",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",
            },
        )
        asked = run_client(
            [claude, "-p", "What does the lamp need?", "--allowedTools", "Read", "--add-dir", str(vault)],
            environment,
            home.project,
        )
        assert (asked.returncode, asked.stdout) == (0, "The lamp needs bearings.\n"), asked.stderr
        goes_on = run_client([claude, "-p", "--continue", "Thank you. Anything else?"], environment, home.project)
        assert (goes_on.returncode, goes_on.stdout) == (0, "Fine.\n"), goes_on.stderr

        carrying = [
            entry
            for entry in reversed(suite.activity())
            if any(one["id"] == "vault/light/Lighthouse.md" and one["by"] == "content" for one in entry["notes"])
        ]
        seen = [
            next(
                (one["matched"], one["distinctive"], one["resent"]) for one in entry["notes"] if one["by"] == "content"
            )
            for entry in carrying
        ]
        assert seen == [(4, 4, False), (4, 4, True)]
        assert {entry["client"] for entry in carrying} == {"claude-code"}
        assert {entry["protocol"] for entry in carrying} == {"anthropic"}
        assert len({entry["conversation"] for entry in carrying}) == 1
        assert all(entry["scan"]["state"] == "complete" and entry["outcome"] == "answered" for entry in carrying)
        print(run_client([claude, "--version"], environment, home.project).stdout.strip(), "saw", seen)


def asks_with_tools(body: dict[str, object]) -> bool:
    """A turn of the conversation, not one of the client's side requests."""
    return bool(body.get("tools"))
