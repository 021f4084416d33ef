"""The providers' SDKs, in Python and in Node: conversations of two turns, the first whole, the second streamed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from memory.exchange import Protocol, Usage
from tests.addons.conftest import configuration
from tests.e2e.conftest import CLIENTS, LAMP, LIGHTHOUSE, Report, counted, python, run_client, sdk_environment, seen
from tests.harness import SuiteProcess, free_port

pytestmark = pytest.mark.e2e

PROMPT, THANKS = f"What does the lamp need? My notes:\n\n{LIGHTHOUSE}", "Thank you. Anything else?"
FIRST, SECOND = "Two bearings.\n\nThey are ordered — ask the büro. 🌊", "No, that is all."
READ = Usage(input=310, output=21, cache_read=256, cache_write=40)
AGAIN = Usage(input=350, output=9, cache_read=300, cache_write=10)


def script(_protocol: Protocol, body: dict[str, Any]) -> Reply:
    return Reply(SECOND, usage=AGAIN) if THANKS in json.dumps(body) else Reply(FIRST, usage=READ)


@dataclass(frozen=True, slots=True)
class Sdk:
    """A program that has a conversation in each of `protocols`, and what an activity entry says of it."""

    name: str
    command: tuple[str, ...]
    client: str
    provider: str
    to: str
    model: str
    protocols: tuple[Protocol, ...]

    def expected(self) -> list[dict[str, Any]]:
        entries = []
        for protocol in self.protocols:
            common = {"client": self.client, "protocol": protocol, "model": self.model, "to": self.to}
            common |= {"side": False, "scan": "complete", "outcome": "answered"}
            # With `previous_response_id` a request does not repeat what came before it.
            again = {} if protocol == "openai-responses" else {LAMP: "4/4 lines, again"}
            entries.append({**common, "notes": {LAMP: "4/4 lines"}, "usage": told(protocol, READ)})
            entries.append({**common, "notes": again, "usage": told(protocol, AGAIN)})
        return entries


def told(protocol: Protocol, usage: Usage) -> dict[str, int | None]:
    """What an answer in this protocol has a word for."""
    if protocol != "anthropic":
        usage = replace(usage, cache_write=None)
    return counted(replace(usage, cache_read=None) if protocol == "ollama" else usage)


OPENAI = ("openai", "cloud: openai at api.openai.com:443", "gpt-test", ("openai-chat", "openai-responses"))
OLLAMA = Sdk(
    "ollama for Python",
    python("ask_ollama.py"),
    "ollama-python",
    "ollama",
    "local: ollama at 127.0.0.1:11434",
    "llama-test",
    ("ollama",),
)


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, model: ScriptedModel, authority: AuthorityPaths
) -> Iterator[SuiteProcess]:
    upstreams = {**dict.fromkeys(("anthropic", "openai", "google"), model.url), "ollama": model.plain_url}
    config = configuration(vault, upstreams)
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


@pytest.mark.parametrize(
    "sdk",
    [
        Sdk("openai for Python", python("ask_openai.py"), "openai-python", *OPENAI),
        Sdk("openai for Node's fetch", ("node", str(CLIENTS.parent / "ask_openai.mjs")), "openai-js", *OPENAI),
        Sdk(
            "anthropic for Python",
            python("ask_anthropic.py"),
            "anthropic-python",
            "anthropic",
            "cloud: anthropic at api.anthropic.com:443",
            "claude-test",
            ("anthropic",),
        ),
        Sdk(
            "google-genai for Python",
            python("ask_gemini.py"),
            "google-genai",
            "google",
            "cloud: google at generativelanguage.googleapis.com:443",
            "gemini-test",
            ("gemini",),
        ),
        OLLAMA,
    ],
    ids=lambda sdk: sdk.client,
)
def test_an_sdk_sent_through_the_proxy(
    tmp_path: Path, suite: SuiteProcess, model: ScriptedModel, report: Report, sdk: Sdk
) -> None:
    entries = have_conversations(sdk, sdk_environment(suite), suite, model, tmp_path)
    report(sdk.name, model.received, entries)


def test_an_sdk_that_is_given_a_base_url(
    tmp_path: Path, vault: Path, model: ScriptedModel, authority: AuthorityPaths, report: Report
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    config = configuration(vault, {"ollama": model.plain_url})
    config["proxy"] = {"reverse": [{"listen": listen, "upstream": "http://127.0.0.1:11434"}]}
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        entries = have_conversations(OLLAMA, {"OLLAMA_HOST": f"http://{listen}"}, suite, model, tmp_path)
    report(OLLAMA.name, model.received, entries, " by a reverse listener")


def have_conversations(
    sdk: Sdk, environment: dict[str, str], suite: SuiteProcess, model: ScriptedModel, folder: Path
) -> list[dict[str, Any]]:
    """Run the program to its end and check all that is known of its requests, which are given back, oldest first."""
    before = len(suite.activity(0))
    model.script = script
    model.received.clear()
    ran = run_client(
        sdk.command,
        {"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        folder,
        stdin=json.dumps([PROMPT, THANKS]),
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [FIRST, SECOND] * len(sdk.protocols)
    count = 2 * len(sdk.protocols)
    entries = list(reversed(suite.activity(before + count)[:count]))
    assert [seen(entry) for entry in entries] == sdk.expected()
    assert [entry["bytes"]["request"] for entry in entries] == [len(one.body) for one in model.received]
    conversations = [entry["conversation"] for entry in entries]
    assert conversations[::2] == conversations[1::2]
    assert len(set(conversations)) == len(sdk.protocols)
    assert None not in conversations
    return entries
