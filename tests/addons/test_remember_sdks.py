"""The providers' own SDKs as clients with a memory: the turn is on the disk once the program has the end of its answer,
and there it is, once, although the suite was killed that very moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from tests.addons.conftest import configuration
from tests.harness import Loop, SuiteProcess

TEXT = "The tide chart is nearly done.\n\nAsk Mirela, she knows the büoys."
QUESTION = "Where is the tide chart?"
CLIENTS = {
    "anthropic": "*Anthropic/Python*",
    "openai": "*OpenAI/Python*",
    "responses": "*OpenAI/Python*",
    "gemini": "google-genai-sdk/*",
}

PROGRAM = """
import sys
kind, question = sys.argv[1:]
if kind == "anthropic":
    import anthropic
    client = anthropic.Anthropic(api_key="dummy", max_retries=0)
    ask = {"model": "claude-test", "max_tokens": 100, "messages": [{"role": "user", "content": question}]}
    for event in client.messages.create(**ask, stream=True):
        if event.type == "message_stop":
            break
elif kind == "gemini":
    from google import genai
    client = genai.Client(api_key="dummy")
    for chunk in client.models.generate_content_stream(model="gemini-test", contents=question):
        if chunk.candidates[0].finish_reason:
            break
else:
    import openai
    client = openai.OpenAI(api_key="dummy", max_retries=0)
    if kind == "responses":
        for event in client.responses.create(model="gpt-test", input=question, stream=True):
            if event.type == "response.completed":
                break
    else:
        ask = [{"role": "user", "content": question}]
        for chunk in client.chat.completions.create(model="gpt-test", messages=ask, stream=True):
            if chunk.choices and chunk.choices[0].finish_reason:
                break
print("the end", flush=True)
sys.stdin.read()
"""
"""Says so when it has met the last event of its answer, and waits."""


@pytest.fixture(scope="module")
def model(background: Loop, authority: AuthorityPaths) -> Iterator[ScriptedModel]:
    async def start() -> ScriptedModel:
        return await ScriptedModel(lambda *_: Reply(TEXT), tls=authority.server_context()).__aenter__()

    running = background.run(start())
    yield running
    background.run(running.__aexit__())


def transcripts(suite: SuiteProcess) -> dict[str, list[str]]:
    """Client -> the text of each of its transcripts."""
    folders = sorted((suite.state / "memory").glob("*/sessions"))
    return {one.parent.name: [file.read_text("utf-8") for file in sorted(one.glob("*.md"))] for one in folders}


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_turn_outlives_the_suite(
    tmp_path: Path, vault: Path, model: ScriptedModel, authority: AuthorityPaths, kind: str
) -> None:
    clients = [
        {"name": kind, "match": {"user_agent": CLIENTS[kind]}, "memory_enabled": True},
        {"name": "other", "match": {"user_agent": "*"}},
    ]
    config = configuration(vault, dict.fromkeys(("anthropic", "openai", "google"), model.url), clients=clients)
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        env = {
            "PATH": os.environ["PATH"],
            "HTTPS_PROXY": suite.proxy,
            "SSL_CERT_FILE": str(suite.ca.with_name("ca-bundle.pem")),
        }
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, kind, QUESTION],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout
            assert program.stdin
            heard = program.stdout.readline()
            suite.process.send_signal(signal.SIGKILL)
            suite.process.wait()
            program.stdin.close()
            assert heard == "the end\n", program.stderr and program.stderr.read()
        [(client, [transcript])] = transcripts(suite).items()
    assert client == kind
    assert [transcript.count(text) for text in (QUESTION, "Ask Mirela, she knows the büoys.")] == [1, 1]
