"""Recall: how well it finds what was said, beside memsearch's own order over the same index, and what it costs.

Quality is counted in questions: one of the right messages (for turns: the turn with one) is among the first five. The
conversations and the paraphrases of others are in ../shared and are left out where that is not. All of the questions were
looked at while the ranking was made, also the ones that its weights were not chosen on: new ones may do worse. Latency is
CPU time of the whole process, since the database runs in it; it is taken after a flush.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from memory.conversations.chunk_store import quiet
from memory.conversations.client_index import ClientIndex
from memory.conversations.embedding import Builtin, EmbeddingSettings
from memory.conversations.engine import Engine
from memory.conversations.searching import Question
from memory.conversations.sections import label
from tests.bench.measure import Figure
from tests.memory.conversations.corpora import LONG, PROTOTYPE, Asked, Corpus, long_conversation, ours, prototype

CHOSEN_ON = ("26", "30", "41")
LOOKED_AT = ("42", "43")
"""The weights were not chosen on these, but what each version of the ranking reached here was known."""
SHORT = 50
"""Questions of a long conversation in the short run."""
QUESTIONS = 15
MESSAGES = 100
"""In a made session."""
CLIENTS = 20
FIRST = 5
NOTHING = ("unanswered", "elsewhere", "beside")
"""Kinds of questions that nothing answers; those `beside` ask about what was spoken of."""
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "el", "ir")]


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    quiet()
    yield from quality(large=large)
    for count, reach in ((100, None), (1000, 40.0), *(((10_000, 150.0),) if large else ())):
        yield from latency(random.Random(seed), count, reach)
    if large:
        yield asyncio.run(memory_of_clients(random.Random(seed)))


def quality(*, large: bool) -> Iterator[Figure]:
    own = ours()
    answered = {"paraphrased": (90.0, 95.0), "asked": (90.0, 95.0), "exact": (100.0, 100.0)}
    yield from kinds("own", own, {**answered, **dict.fromkeys(NOTHING, (None, None))})
    if PROTOTYPE.exists():
        yield from kinds("prototype's", prototype(), {"paraphrased": (90.0, 95.0)})
    if not LONG.exists():
        return
    nothing = [*own.questions["unanswered"], *own.questions["elsewhere"]]
    for what, names in (("chosen on", CHOSEN_ON), ("looked at", LOOKED_AT)):
        found = [0.0, 0.0, 0.0]
        asked = rejected = 0
        for name in names:
            corpus = long_conversation(name)
            questions = corpus.questions["factual"] if large else corpus.questions["factual"][:SHORT]
            asked += len(questions)
            right = measured(corpus, questions)
            found = [before + now for before, now in zip(found, right, strict=True)]
            rejected += int(measured(corpus, nothing)[2])
        plain, messages, turns = (100 * each / asked for each in found)
        baseline = f"memsearch {plain:.0f} %"
        note = f"{asked} questions, {', '.join(names)}"
        yield Figure(f"long conversations ({what}): messages", messages, "% right", 64.0, 70.0, baseline, note=note)
        yield Figure(f"long conversations ({what}): turns", turns, "% right", baseline=baseline, note=note)
        right_to_say_nothing = 100 * rejected / (len(nothing) * len(names))
        other = f"{len(nothing)} questions of ours for each"
        yield Figure(f"long conversations ({what}): unanswered", right_to_say_nothing, "% right", note=other)


def kinds(whose: str, corpus: Corpus, goals: dict[str, tuple[float | None, float | None]]) -> Iterator[Figure]:
    for kind, (reach, aim) in goals.items():
        asked = corpus.questions[kind]
        plain, _, turns = (100 * each / len(asked) for each in measured(corpus, asked))
        baseline = f"memsearch {plain:.0f} %"
        yield Figure(f"{kind}, {whose}: turns", turns, "% right", reach, aim, baseline, note=f"{len(asked)} questions")


def measured(corpus: Corpus, asked: Sequence[Asked]) -> tuple[float, float, float]:
    """Questions that memsearch's order answers, ours by messages, and ours by turns. What nothing answers is answered
    right by nothing.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "client"
        times = corpus.write(folder)
        place = {at: index for index, at in enumerate(times)}
        index = opened(folder)
        searching, chunk_store = index._searching, index._chunk_store
        right = [0.0, 0.0, 0.0]
        for each in asked:
            plain = chunk_store._runner.run(chunk_store.search(each.question, top_k=10))
            orders = [
                [row["heading"] for row in plain],
                [piece.heading for _, piece in searching.ranked(chunk_store, each.question)],
            ]
            for number, headings in enumerate(orders):
                first = [place[said.at] for heading in headings if (said := label(heading))][:FIRST]
                right[number] += bool(each.answers.intersection(first)) if each.answers else not first
            memories = index.search(Question(each.question, FIRST)).memories
            # a turn begins with the question, which stands before its answer
            begun = {times[answer] for answer in each.answers} | {
                times[answer - 1] for answer in each.answers if answer
            }
            right[2] += any(one.started_at in begun for one in memories) if each.answers else not memories
        index.close()
    return right[0], right[1], right[2]


def latency(chance: random.Random, count: int, reach: float | None) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "client"
        made(chance, count).write(folder)
        builtin = Builtin()
        builtin.vectors(["what is loaded once for a process is not counted"])
        opened(folder, builtin).close()
        index = opened(folder, builtin)
        chunk_store = index._chunk_store
        start = time.process_time()
        index.search(Question("something that was said"))
        first = time.process_time() - start
        taken: list[float] = []
        plain: list[float] = []
        for _ in range(QUESTIONS):
            question = sentence(chance, 7)
            start = time.process_time()
            index.search(Question(question))
            middle = time.process_time()
            chunk_store._runner.run(chunk_store.search(question, top_k=FIRST))
            taken.append(middle - start)
            plain.append(time.process_time() - middle)
        chunks = chunk_store.count()
        index.close()
    value, baseline = median(taken) * 1e3, median(plain) * 1e3
    yield Figure(
        f"recall at {count:,} messages",
        value,
        "ms",
        reach,
        baseline=f"memsearch's search {baseline:.0f} ms",
        ratio=baseline / value,
        note=f"{chunks:,} chunks, CPU time of the process; the quickest of {QUESTIONS}: {min(taken) * 1e3:.0f} ms",
    )
    yield Figure(f"the first after opening, at {count:,} messages", first * 1e3, "ms")


async def memory_of_clients(chance: random.Random) -> Figure:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for client in range(CLIENTS):
            made(chance, MESSAGES).write(folder / str(client))
        engine = Engine(lambda client: folder / client)
        before = resident()
        for client in range(CLIENTS):
            await engine.search(str(client), sentence(chance, 7))
        added = resident() - before
        await engine.close()
    return Figure(
        f"{CLIENTS} clients open: memory added", added, "bytes", 300e6, note="where /proc tells; libraries loaded"
    )


def opened(folder: Path, builtin: Builtin | None = None) -> ClientIndex:
    index = ClientIndex(folder, EmbeddingSettings(), "english", builtin or Builtin())
    index.work(float("inf"))
    index._flush()
    return index


def made(chance: random.Random, count: int) -> Corpus:
    """Sessions of messages of 60 words, which are used as unequally as words are."""
    sessions: list[Any] = [
        [("user" if number % 2 == 0 else "assistant", sentence(chance, 60)) for number in range(min(MESSAGES, count))]
        for _ in range(0, count, MESSAGES)
    ]
    return Corpus(sessions, {})


def sentence(chance: random.Random, words: int) -> str:
    return " ".join(
        "".join(SYLLABLES[min(int(chance.paretovariate(0.7)), len(SYLLABLES)) - 1] for _ in range(2))
        for _ in range(words)
    )


def resident() -> int:
    """Bytes of this process that are in memory; 0 where nothing tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096
