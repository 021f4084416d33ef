"""The providers' own SDKs, each in a process of its own that only the printed variables point at the proxy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply
from tests.addons.conftest import HARBOUR, configuration
from tests.addons.test_proxy import notes_of
from tests.harness import Loop, SuiteProcess

PROGRAMS = Path(__file__).parent / "sdk_programs"
TEXT = "The tide chart is nearly done.\n\nAsk Mirela — she knows the büoys. 🌊"


@pytest.fixture(scope="module")
def model(background: Loop, authority: AuthorityPaths) -> Iterator[ScriptedModel]:
    async def start() -> ScriptedModel:
        return await ScriptedModel(lambda *_: Reply(TEXT), tls=authority.server_context()).__aenter__()

    running = background.run(start())
    yield running
    background.run(running.__aexit__())


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, model: ScriptedModel, authority: AuthorityPaths
) -> Iterator[SuiteProcess]:
    config = configuration(vault, dict.fromkeys(("anthropic", "openai", "google"), model.url))
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


@pytest.mark.parametrize(
    ("program", "answers", "streamed_in", "protocols", "client"),
    [
        ("ask_anthropic.py", ("plain", "streamed"), 14, ["anthropic"] * 2, "anthropic-python"),
        (
            "ask_openai.py",
            ("plain", "streamed", "responses", "responses streamed"),
            14,
            ["openai-chat"] * 2 + ["openai-responses"] * 2,
            "openai-python",
        ),
        ("ask_gemini.py", ("plain", "streamed"), 4, ["gemini"] * 2, "google-genai"),
    ],
)
def test_an_sdk_gets_its_answers_and_the_note_is_seen(
    suite: SuiteProcess, program: str, answers: tuple[str, ...], streamed_in: int, protocols: list[str], client: str
) -> None:
    bundle = suite.ca.with_name("ca-bundle.pem")
    before = len(suite.api("api/activity?limit=1000").body["entries"])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAMS / program)],
        input="My notes:\n\n" + HARBOUR,
        env={
            "PATH": os.environ["PATH"],
            "HTTPS_PROXY": suite.proxy,
            "SSL_CERT_FILE": str(bundle),
            "NO_PROXY": "localhost,127.0.0.1,::1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    got = json.loads(ran.stdout)
    assert {name: got[name] for name in answers} == dict.fromkeys(answers, TEXT)
    assert got["pieces"] == streamed_in
    entries = suite.activity(before + len(answers))[: len(answers)]
    assert [entry["protocol"] for entry in reversed(entries)] == protocols
    for entry in entries:
        assert notes_of(entry) == {"vault/projects/Harbour.md": ("line", 3, 3)}
        assert (entry["client"], entry["outcome"], entry["to"]) == (client, "answered", "cloud")
