"""Rules with real clients: what they print when a note stays home, and who got what. Each action has a note of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import Received, ScriptedModel
from addons.demo.reply import Reply, ToolCall, Turn, in_turn
from tests.addons.conftest import configuration
from tests.e2e.conftest import CLIENTS, ClaudeCode, Home, python, run_client, sdk_environment
from tests.harness import Loop, SuiteProcess, free_port
from tests.memory.redacting import leaks

pytestmark = pytest.mark.e2e

BLOCKED = "The spare key hangs behind the third net in the boathouse.\n"
REDIRECTED = "The pilot's daughter is going to sell the eastern mooring.\n"
HELD = "The council meets on the ferry because nobody listens there.\n"
SECRETS = ("The ledger of the harbour lies in the third drawer.", "PIN 4711", "- Schlüssel: Möwe")
REDACTED = "\n".join(SECRETS) + "\n"
NOTES = {"Key": BLOCKED, "Mooring": REDIRECTED, "Council": HELD, "Ledger": REDACTED}
THANKS = "Thank you. Anything else?"
CLOUD, HOME = (
    "The cloud says: tides at noon, and the büro is open. 🌊",
    "The cellar says: ask at the quay — nobody else. ⚓",
)
TARGET = "own-1"
TOLD = 'mitmemory blocked this request: "the key stays home" keeps "Key" from'


@dataclass(frozen=True, slots=True)
class Sdk:
    """A program that asks so often, half of it streamed."""

    command: tuple[str, ...]
    answers: int


ANTHROPIC_PYTHON = Sdk(python("ask_anthropic.py"), 2)
OPENAI_PYTHON = Sdk(python("ask_openai.py"), 4)
OPENAI_JS = Sdk(("node", str(CLIENTS.parent / "ask_openai.mjs")), 4)
SDKS = [
    pytest.param(ANTHROPIC_PYTHON, id="anthropic-python"),
    pytest.param(OPENAI_PYTHON, id="openai-python"),
    pytest.param(OPENAI_JS, id="openai-js"),
    pytest.param(Sdk(python("ask_gemini.py"), 2), id="google-genai"),
]


@pytest.fixture(scope="module")
def own(background: Loop) -> Iterator[ScriptedModel]:
    """A model on the user's own machine, without TLS."""

    async def start() -> ScriptedModel:
        return await ScriptedModel(lambda *_: Reply(HOME)).__aenter__()

    running = background.run(start())
    yield running
    background.run(running.__aexit__())


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("harbour") / "vault"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory,
    notes: Path,
    model: ScriptedModel,
    own: ScriptedModel,
    authority: AuthorityPaths,
) -> Iterator[SuiteProcess]:
    def rule(name: str, note: str, then: str, **more: Any) -> dict[str, Any]:
        when = {"note": f"vault/{note}.md", "by": "content", "to": "cloud"}
        return {"name": name, "when": when, "then": then, **more}

    speaks = ["anthropic", "openai-chat", "openai-responses", "gemini"]
    config = configuration(
        notes,
        dict.fromkeys(("anthropic", "openai", "google"), model.url),
        targets=[
            {"name": "dead", "url": f"http://127.0.0.1:{free_port()}", "protocols": speaks},
            {"name": "own", "url": own.plain_url, "protocols": speaks, "model": TARGET},
        ],
        rules=[
            rule("the key stays home", "Key", "block"),
            rule("the mooring goes home", "Mooring", "redirect", targets=["dead", "own"]),
            rule("the ledger is withheld", "Ledger", "redact"),
            rule("the council asks me", "Council", "hold", hold_for="10m"),
        ],
    )
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


@dataclass
class Watch:
    """What happened since the test began."""

    suite: SuiteProcess
    cloud: ScriptedModel
    own: ScriptedModel

    def __post_init__(self) -> None:
        self.cloud.script = lambda *_: Reply(CLOUD)
        self.cloud.received.clear()
        self.own.received.clear()
        self._connections = self.cloud.connections
        self._before = len(self.suite.activity(0))

    @property
    def connections(self) -> int:
        """Those that the cloud has accepted."""
        return self.cloud.connections - self._connections

    def entries(self, count: int) -> list[dict[str, Any]]:
        """All of the activity, which must be so many, oldest first."""
        entries = self.suite.activity(self._before + count)
        assert len(entries) == self._before + count
        return list(reversed(entries[:count]))


@pytest.fixture
def watch(suite: SuiteProcess, model: ScriptedModel, own: ScriptedModel) -> Watch:
    return Watch(suite, model, own)


@pytest.fixture
def claude(home: Home, suite: SuiteProcess) -> ClaudeCode:
    return ClaudeCode(home, suite)


def run_sdk(sdk: Sdk, suite: SuiteProcess, folder: Path, note: str) -> subprocess.CompletedProcess[str]:
    """The note is in each of its requests."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **sdk_environment(suite)}
    asks = [f"My notes:\n\n{note}\nAnd now?", f"{THANKS}\n\n{note}"]
    return run_client(sdk.command, environment, folder, stdin=json.dumps(asks))


def posts(model: ScriptedModel) -> list[Received]:
    return [one for one in model.received if one.method == "POST"]


def went(entries: list[dict[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """What was decided, how it ended, and who received it."""
    return [
        (entry["decision"]["action"], entry["outcome"], [f"{one['model']} {one['to']}" for one in entry["sentTo"]])
        for entry in entries
    ]


def has_no_credentials(request: Received) -> bool:
    """Whether nothing is left of the keys that the clients were given."""
    names = {name.lower() for name, _ in request.headers}
    everything = f"{request.target} {request.headers}"
    return not names & {"authorization", "x-api-key", "x-goog-api-key"} and "dummy" not in everything


def cloud_has_nothing(watch: Watch) -> None:
    """Not even a connection, but for those on which Claude Code looks for its settings, one for each look."""
    watch.suite.wait_for(lambda: watch.connections == len(watch.cloud.received), "the end of its looks for settings")
    looks = {"/api/claude_code/settings", "/api/claude_code/policy_limits"}
    assert {(one.method, one.body) for one in watch.cloud.received} <= {("GET", b"")}
    assert {one.target for one in watch.cloud.received} <= looks


# Block


@pytest.mark.parametrize("sdk", SDKS)
def test_a_blocked_program_ends_with_the_reason_and_reached_nobody(tmp_path: Path, watch: Watch, sdk: Sdk) -> None:
    ran = run_sdk(sdk, watch.suite, tmp_path, BLOCKED)
    assert ran.returncode == 1
    assert TOLD in ran.stderr
    assert went(watch.entries(1)) == [("block", "blocked", [])]
    cloud_has_nothing(watch)
    assert (watch.connections, watch.own.received) == (0, [])


def test_blocked_claude_code_shows_the_reason_and_reached_nobody(claude: ClaudeCode, watch: Watch) -> None:
    asked = claude.run(f"My notes:\n\n{BLOCKED}\nWhere is the key?")
    assert asked.returncode == 1
    assert TOLD in asked.stdout
    assert went(watch.entries(1)) == [("block", "blocked", [])]
    cloud_has_nothing(watch)
    assert watch.own.received == []


# Redirect


def went_home(watch: Watch, count: int) -> None:
    """All of it, to the target that lives, without the keys; not even a connection to the cloud."""
    entries = watch.entries(count)
    assert went(entries) == [("redirect", "answered", [f"{TARGET} local"])] * count
    assert {one["upstream"] for entry in entries for one in entry["sentTo"]} == {f"127.0.0.1:{watch.own.plain_port}"}
    assert len(watch.own.received) == count
    assert [has_no_credentials(one) for one in watch.own.received] == [True] * count
    cloud_has_nothing(watch)


@pytest.mark.parametrize("sdk", SDKS)
def test_a_redirected_program_prints_what_the_own_model_says(tmp_path: Path, watch: Watch, sdk: Sdk) -> None:
    ran = run_sdk(sdk, watch.suite, tmp_path, REDIRECTED)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [HOME] * sdk.answers
    went_home(watch, sdk.answers)


def test_redirected_claude_code_prints_what_the_own_model_says(claude: ClaudeCode, watch: Watch) -> None:
    assert claude.ask(f"My notes:\n\n{REDIRECTED}\nWho sells?") == f"{HOME}\n"
    went_home(watch, 1)
    [got] = watch.own.received
    body = json.loads(got.body)
    assert (got.target, body["model"], body["stream"]) == ("/v1/messages?beta=true", TARGET, True)


# Redact


def withheld(requests: list[Received]) -> list[tuple[set[str], bool]]:
    """What of the note's lines is left in each body, and whether something was taken out of it."""
    return [(leaks(one.body, SECRETS), b"[withheld]" in one.body) for one in requests]


def test_the_cloud_answers_a_program_without_having_the_note(tmp_path: Path, watch: Watch) -> None:
    ran = run_sdk(OPENAI_PYTHON, watch.suite, tmp_path, REDACTED)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [CLOUD] * OPENAI_PYTHON.answers
    assert withheld(posts(watch.cloud)) == [(set(), True)] * OPENAI_PYTHON.answers
    actions = {(action, outcome, len(sent)) for action, outcome, sent in went(watch.entries(OPENAI_PYTHON.answers))}
    assert actions == {("redact", "answered", 1)}


def test_the_cloud_answers_claude_code_without_having_the_note_that_it_read(
    claude: ClaudeCode, notes: Path, watch: Watch
) -> None:
    read = ToolCall("Read", {"file_path": str(notes / "Ledger.md")})
    watch.cloud.script = in_turn([Turn(Reply("I will read it.", (read,)))], otherwise=Reply(CLOUD))
    assert claude.ask("What is in the drawer?", "--allowedTools", "Read", "--add-dir", str(notes)) == f"{CLOUD}\n"
    assert withheld(posts(watch.cloud)) == [(set(), False), (set(), True)]
    assert [entry[:2] for entry in went(watch.entries(2))] == [("allow", "answered"), ("redact", "answered")]


# Hold


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def held(suite: SuiteProcess) -> list[str]:
    return [one["id"] for one in suite.api("api/held").body["held"]]


def on_hold(suite: SuiteProcess) -> str:
    """The id of the one request that waits."""
    suite.wait_for(lambda: len(held(suite)) == 1, "one on hold")
    return held(suite)[0]


def decide(suite: SuiteProcess, one: str, action: str) -> None:
    assert suite.api(f"api/held/{one}", method="POST", body={"action": action}).status == 200
    suite.wait_for(lambda: one not in held(suite), "the end of its wait")


def test_a_program_waits_for_a_person_and_gets_its_answers(
    tmp_path: Path, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    sdk = ANTHROPIC_PYTHON
    running: Future[subprocess.CompletedProcess[str]] = threads.submit(run_sdk, sdk, watch.suite, tmp_path, HELD)
    for sent in range(sdk.answers):
        one = on_hold(watch.suite)
        assert len(watch.cloud.received) == sent
        decide(watch.suite, one, "release")
    ran = running.result()
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [CLOUD] * sdk.answers
    assert [entry[:2] for entry in went(watch.entries(sdk.answers))] == [("allow", "answered")] * sdk.answers


def test_a_program_that_a_person_blocks_ends_with_the_reason(
    tmp_path: Path, watch: Watch, threads: ThreadPoolExecutor
) -> None:
    running = threads.submit(run_sdk, OPENAI_JS, watch.suite, tmp_path, HELD)
    decide(watch.suite, on_hold(watch.suite), "block")
    ran = running.result()
    assert ran.returncode == 1
    assert "mitmemory blocked this request" in ran.stderr
    assert went(watch.entries(1)) == [("block", "blocked", [])]
    cloud_has_nothing(watch)
