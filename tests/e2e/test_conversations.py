"""The memory of real clients: what they said is on the disk once, is found by its meaning, and only by them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from addons.demo.reply import Reply, ToolCall, Turn, in_turn
from memory.conversations.transcript import Called, Piece, Returned, Transcript, parse
from memory.exchange import Protocol
from tests.addons.conftest import configuration
from tests.e2e.conftest import ClaudeCode, Home, python, run_client, sdk_environment
from tests.harness import SuiteProcess

pytestmark = pytest.mark.e2e

KEEPER = {"name": "keeper", "match": {"proxy_user": "keeper"}, "memory_enabled": True}
OTHER = {"name": "other", "match": {"proxy_user": "other"}, "memory_enabled": True}

KEY = [
    ("Where did I hang the spare key of the boathouse?", "It is behind the third net, on the left-hand wall."),
    ("And who has the other one?", "Ilse keeps it in a blue tin."),
]
EGGS = [
    ("How long must I boil the eggs for our picnic?", "Six minutes, if the yolk should stay soft."),
    ("And for forty guests?", "Take two large pots, and salt the water."),
]
LAMP = [
    ("What does the lamp of the lighthouse need?", "It needs two spare bearings, which are ordered."),
    ("When will they arrive?", "The depot says: with the supply ship on Friday."),
]
ANSWERS = {question: answer for talk in (KEY, EGGS, LAMP) for question, answer in talk}
PARAPHRASES = [
    ("which wall has the boathouse keys", KEY[0][1]),
    ("cooking time of an egg", EGGS[0][1]),
    ("parts to repair the lighthouse lamp", LAMP[0][1]),
]
PROJECT = "Tell nobody how many gulls nest on the gallery.\n"


def answering(_protocol: Protocol, body: dict[str, Any]) -> Reply:
    """To the last of the questions that are in the request."""
    asked = json.dumps(body, ensure_ascii=False)
    said = max(ANSWERS, key=asked.rfind)
    return Reply(ANSWERS[said] if said in asked else "I do not know.")


def transcripts(suite: SuiteProcess) -> dict[str, list[Path]]:
    """Folder of a client -> its transcripts, the oldest first."""
    folders = sorted((suite.state / "memory").glob("*/sessions"))
    return {one.parent.name: sorted(one.glob("*.md")) for one in folders}


def said(transcript: Transcript) -> list[list[list[Piece]]]:
    """Conversations of turns of what was said in them."""
    return [
        [[piece for part in turn.parts for piece in part.pieces] for turn in chat.turns]
        for chat in transcript.conversations
    ]


def recalled(suite: SuiteProcess, client: str, query: str) -> list[str]:
    answer = suite.api(f"api/clients/{client}/recall", method="POST", body={"query": query})
    assert answer.status == 200, answer.body
    return [one["text"] for one in answer.body["results"]]


def configure(suite: SuiteProcess, *clients: dict[str, Any]) -> None:
    """Change the clients of the running suite, and wait until that counts."""
    written = yaml.safe_load(suite.config.read_text("utf-8"))
    suite.config.write_text(yaml.safe_dump(written | {"clients": list(clients)}), "utf-8")
    names = {client["name"] for client in clients}

    def counts() -> bool:
        listed = suite.api("api/clients").body["clients"]
        return {one["client"] for one in listed if one["configured"]} == names

    suite.wait_for(counts, f"the clients {names}")


def test_what_two_programs_said_is_kept_once_and_found_by_its_meaning_by_that_client_alone(
    tmp_path: Path, home: Home, vault: Path, model: ScriptedModel, authority: AuthorityPaths
) -> None:
    (home.project / "CLAUDE.md").write_text(PROJECT)
    note = vault / "light" / "Lighthouse.md"
    read = Turn(
        Reply("I look it up.", (ToolCall("Read", {"file_path": str(note)}),)), when=lambda body: "tools" in body
    )
    model.received.clear()
    config = configuration(vault, {"anthropic": model.url}, clients=[KEEPER, OTHER])
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        model.script = answering
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **sdk_environment(suite, "keeper")}
        for talk in (KEY, EGGS):
            questions = json.dumps([question for question, _ in talk])
            ran = run_client(python("ask_anthropic.py"), environment, tmp_path, stdin=questions)
            assert json.loads(ran.stdout) == [answer for _, answer in talk], ran.stderr
        reading = in_turn([read], otherwise=Reply(LAMP[0][1]))
        model.script = lambda *request: (
            answering(*request) if LAMP[1][0] in json.dumps(request[1]) else reading(*request)
        )
        claude = ClaudeCode(home, suite, user="keeper")
        given = ("--allowedTools", "Read", "--add-dir", str(vault))
        assert claude.ask(LAMP[0][0], *given) == f"{LAMP[0][1]}\n"
        assert claude.ask("--continue", LAMP[1][0]) == f"{LAMP[1][1]}\n"

        [transcript] = transcripts(suite)["keeper"]
        text = transcript.read_text("utf-8")
        key, eggs, lamp = said(parse(text.encode()))
        assert (key, eggs) == ([list(turn) for turn in KEY], [list(turn) for turn in EGGS])
        [[asked, look, call, result, answer], last] = lamp
        assert (asked, look, answer) == (LAMP[0][0], "I look it up.", LAMP[0][1])
        assert isinstance(call, Called)
        assert isinstance(result, Returned)
        assert call.name == "Read"
        assert last == list(LAMP[1])
        assert [text.count(piece) for piece in ANSWERS.values()] == [1] * len(ANSWERS)
        sent = b"\n".join(one.body for one in model.received).decode()
        for unsaid in ("system-reminder", PROJECT.strip()):
            assert (unsaid in sent, unsaid in text) == (True, False)

        for query, answer in PARAPHRASES:
            assert answer in recalled(suite, "keeper", query)[0]
            assert recalled(suite, "other", query) == []
        assert recalled(suite, "keeper", "quarterly tax return of the bakery") == []

        configure(suite, OTHER)
        configure(suite, KEEPER, OTHER)
        for query, _ in PARAPHRASES:
            assert recalled(suite, "keeper", query) == []
        assert transcript.read_text("utf-8") == text


# Killed


LIVES = 20
_CHANCE = random.Random(20261130)
MOMENTS = [_CHANCE.uniform(0, 0.4) for _ in range(LIVES)]
"""Seconds after the first answer of each life."""


def port_of_its_own() -> int:
    """A port that no connection is given of its own accord: a client that knocks again and again would else end up
    connected to itself, and keep the next life from listening.
    """
    for port in _CHANCE.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


class Talking:
    """A program that goes on talking, once it is started; what it was answered is in a file."""

    def __init__(self, folder: Path) -> None:
        self._heard = folder / "answered"
        self._heard.touch()
        self.process: subprocess.Popen[str] | None = None

    def start(self, suite: SuiteProcess) -> None:
        """In the first life: the later ones listen at the same address."""
        if self.process is None:
            environment = {"PATH": os.environ["PATH"], **sdk_environment(suite, "keeper")}
            with self._heard.open("w") as heard:
                self.process = subprocess.Popen(
                    python("keep_asking.py"), env=environment, stdin=subprocess.PIPE, stdout=heard, text=True
                )

    def answered(self) -> list[int]:
        assert self.process is None or self.process.poll() in (None, 0)
        return [int(line) for line in self._heard.read_text().splitlines()]

    def finish(self) -> None:
        """Let it come to its end, with the request that is under way."""
        assert self.process
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def question(number: int) -> str:
    return f"This is question {number}."


def answer_to(number: int) -> str:
    return f"Here is the answer to {number}: " + "the tide comes and the tide goes, " * 3 + "as ever."


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_while_a_program_goes_on_talking_nothing_is_lost_or_doubled(
    tmp_path: Path, vault: Path, model: ScriptedModel, authority: AuthorityPaths, talking: Talking
) -> None:
    def numbered(_protocol: Protocol, body: dict[str, Any]) -> Reply:
        number = int(body["messages"][-1]["content"].split()[-1].rstrip("."))
        return Reply(answer_to(number), delay=0.003)

    model.script = numbered
    config = configuration(vault, {"anthropic": model.url}, clients=[KEEPER])
    config["proxy"] = {"listen": f"127.0.0.1:{port_of_its_own()}"}

    for moment in (*MOMENTS, None):
        with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
            talking.start(suite)
            before = len(talking.answered())
            suite.wait_for(lambda before=before: len(talking.answered()) > before, "an answer")
            if moment is None:
                talking.finish()
                assert recalled(suite, "keeper", question(0))
            else:
                time.sleep(moment)  # the moment is what is tested
                suite.process.kill()
                suite.process.wait()
    answered = talking.answered()
    assert answered == list(range(len(answered)))
    [transcript] = transcripts(suite)["keeper"]
    assert said(parse(transcript.read_bytes())) == [
        [[question(number), answer_to(number)] for number in answered[first::2]] for first in (0, 1)
    ]
