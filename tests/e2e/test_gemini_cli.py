"""Gemini CLI from npm against the scripted model: a small model chooses the one that answers, and sees the note too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply, ToolCall
from memory.exchange import Protocol, Usage
from tests.addons.conftest import configuration
from tests.e2e.conftest import CLIENTS, FERRY, HORN, KEY, LAMP, Home, Report, counted, node, run_client, seen
from tests.harness import SuiteProcess

pytestmark = pytest.mark.e2e

# Nothing but what it sends to its provider: no usage statistics, no look for a newer version.
SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}
CHOOSING = Usage(input=900, output=30)
READING = Usage(input=8_000, output=25)
READ = Usage(input=8_100, output=9, cache_read=7_900)
AGAIN = Usage(input=8_200, output=7)


class GeminiCLI:
    """Gemini CLI in a home of its own, sent through the suite."""

    def __init__(self, home: Home, vault: Path, suite: SuiteProcess) -> None:
        self._project = home.project
        self._program = CLIENTS / "@google" / "gemini-cli" / "bundle" / "gemini.js"
        assert self._program.exists(), f"{self._program} is missing: run make test-e2e, which installs it"
        self._vault = vault
        settings = home.folder / ".gemini" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps(SETTINGS))
        self._environment = home.environment(
            suite,
            # It would start itself anew only to allow itself more memory.
            {"GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
        )

    def ask(self, *arguments: str) -> str:
        command = [node(), str(self._program), "--include-directories", str(self._vault), *arguments]
        ran = run_client(command, self._environment, self._project)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def test_a_note_it_reads_is_seen_and_seen_again_in_the_next_turn(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths, report: Report
) -> None:
    def script(_protocol: Protocol, body: dict[str, Any]) -> Reply:
        if "tools" not in body:
            return Reply('{"complexity_reasoning": "A short question.", "complexity_score": 10}', usage=CHOOSING)
        if "Thank you." in json.dumps(body):
            return Reply("No, that is all.", usage=AGAIN)
        if "functionResponse" in json.dumps(body):
            return Reply("The lamp needs bearings.", usage=READ)
        return Reply("", (ToolCall("read_file", {"file_path": str(vault / "light" / "Lighthouse.md")}),), READING)

    model.script = script
    with SuiteProcess(tmp_path, configuration(vault, {"google": model.url}), trust=authority.authority) as suite:
        gemini = GeminiCLI(home, vault, suite)
        assert gemini.ask("-p", "What does the lamp need?") == "The lamp needs bearings.\n"
        assert gemini.ask("--resume", "latest", "-p", "Thank you. Anything else?") == "No, that is all.\n"

        entries = list(reversed(suite.activity(5)))
        sent = [(entry["model"], len(one.body)) for entry, one in zip(entries, model.received, strict=True)]
        [(small, _), (large, _), *_] = sent
        common = {"client": "gemini-cli", "protocol": "gemini", "scan": "complete", "outcome": "answered"}
        common |= {"to": "cloud: google at generativelanguage.googleapis.com:443"}
        chooses = {**common, "model": small, "side": True, "usage": counted(CHOOSING)}
        answers = {**common, "model": large, "side": False}
        # Every request begins with a tree of the folders.
        tree = dict.fromkeys((FERRY, HORN, LAMP), "listing")
        again = dict.fromkeys((FERRY, HORN), "listing, again")
        assert [seen(entry) for entry in entries] == [
            {**chooses, "notes": tree},
            {**answers, "notes": tree, "usage": counted(READING)},
            {**answers, "notes": {**again, LAMP: "4/4 lines"}, "usage": counted(READ)},
            {**chooses, "notes": {**again, LAMP: "4/4 lines, again"}},
            {**answers, "notes": {**again, LAMP: "4/4 lines, again"}, "usage": counted(AGAIN)},
        ]
        streamed, whole = (
            f"/v1beta/models/{large}:streamGenerateContent?alt=sse",
            f"/v1beta/models/{small}:generateContent",
        )
        assert [one.target for one in model.received] == [whole, streamed, streamed, whole, streamed]
        assert [entry["bytes"]["request"] for entry in entries] == [size for _, size in sent]
        assert len({entry["conversation"] for entry in entries if entry["model"] == large}) == 1
        report("Gemini CLI", model.received, entries)
