"""Conversations with questions about them, as transcripts: what tests and the benchmark measure recall with."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from memory.conversations.sessions import new_id
from memory.conversations.transcript import Part, conversation_heading, frontmatter, render

HERE = Path(__file__).parent
SHARED = HERE.parents[3] / "shared"
LONG = SHARED / "data" / "conversations"
PROTOTYPE = SHARED / "prototypes" / "memsearch" / "evalset.py"
START = datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """`answers`: which messages answer it, by their place in the corpus; none: nothing does."""

    question: str
    answers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """`sessions` of messages, the user's and the assistant's in turn unless they say otherwise, and questions by kind."""

    sessions: Sequence[Sequence[tuple[str, str]]]
    """Of (role, text)."""
    questions: dict[str, Sequence[Asked]]

    def write(self, folder: Path) -> list[datetime]:
        """One transcript for each session; when each message was said, which is its alone."""
        sessions = folder / "sessions"
        sessions.mkdir(parents=True)
        times = []
        for day, messages in enumerate(self.sessions):
            start = START + timedelta(days=day)
            session = new_id(start)
            parts = [frontmatter("someone", session, start), conversation_heading(1, start)]
            turn = 0
            for second, (role, text) in enumerate(messages):
                turn += role == "user" or not turn
                at = start + timedelta(seconds=second)
                times.append(at)
                parts.append(render(Part(1, turn, at, (text,), None if role == "user" else "model")))
            (sessions / f"{session}.md").write_text("".join(parts), encoding="utf-8")
        return times


def ours() -> Corpus:
    """Sixty memories of our own: each is a question with its answer."""
    document = yaml.safe_load((HERE / "memories.yaml").read_text(encoding="utf-8"))
    sessions, place = [], {}
    count = 0
    for topic, turns in document["conversations"].items():
        sessions.append([message for asked, answer in turns for message in (("user", asked), ("assistant", answer))])
        for number in range(1, len(turns) + 1):
            place[f"{topic}.{number}"] = frozenset({count, count + 1})
            count += 2
    kinds = {
        kind: [Asked(question, place[answer]) for question, answer in document[kind]]
        for kind in ("paraphrased", "asked", "exact")
    }
    nothing = {
        kind: [Asked(question, frozenset()) for question in document[kind]]
        for kind in ("unanswered", "elsewhere", "beside")
    }
    return Corpus(sessions, {**kinds, **nothing})


def prototype() -> Corpus:
    """The sixty memories and thirty paraphrases that the ranking was first measured with; each is one message."""
    spec = importlib.util.spec_from_file_location("evalset", PROTOTYPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    place = {(topic, number): index for index, (topic, number, _) in enumerate(module.DOCS)}
    sessions = [[("user", text) for text in texts] for texts in module.TOPICS.values()]
    asked = [Asked(question, frozenset({place[topic, number]})) for question, topic, number in module.Q]
    return Corpus(sessions, {"paraphrased": asked})


def long_conversation(name: str) -> Corpus:
    """One of ../shared/data/conversations: what two people said in many sessions, and factual questions."""
    document = json.loads((LONG / f"{name}.json").read_text(encoding="utf-8"))
    first, _ = document["speakers"]
    ids: list[str] = []
    sessions = []
    for session in document["sessions"]:
        ids += [turn["id"] for turn in session["turns"]]
        sessions.append(
            [
                ("user" if turn["speaker"] == first else "assistant", f"{turn['speaker']}: {turn['text']}")
                for turn in session["turns"]
            ]
        )
    place = {identifier: index for index, identifier in enumerate(ids)}
    asked = [
        Asked(each["question"], answers)
        for each in document["questions"]
        if (answers := frozenset(place[one] for one in each["evidence"] if one in place))
    ]
    return Corpus(sessions, {"factual": asked})
