"""How often a note is found, and how often wrongly: `python -m tests.bench.accuracy [--seed N] [--write FILE]`.

A passage of a note is transformed (`transforms.py`) and put between two paragraphs that are in no note. Recall: the
share of passages whose note is found, by the rule for whole lines, and with quotes. Precision: the share of what is
found that is right. Another note than the passage's is right too if it holds 40 letters in a row of the passage, or a
whole line; that is looked up in the notes' texts. The same for notes that are not in the index, sent as a whole.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from memory.index import MINIMUM_LINE_LENGTH, NoteIndex
from memory.letters import encoded, letters
from memory.lines import canonical_line
from memory.notes import Note
from memory.scan import scan_value
from tests.bench.measure import Figure
from tests.bench.synthetic import Writer
from tests.bench.transforms import SENTENCE_ENDS, TRANSFORMS, Passage, Transform

VAULTS = Path(__file__).parents[2].parent / "shared" / "data" / "vaults"
REAL = {"dendron-site-MIT": "English, real", "oldwinter-zh-MIT": "Chinese, real"}
NOTES = 5_000
PASSAGES = 300
HELD_BACK = 5
"""One note in so many is no part of the index, and sent as a whole."""
AT_ONCE = 10
"""Texts in one body: a sighting has no more than 50 pieces of evidence."""
MARK = "<!-- tables -->"
MID_LINE = TRANSFORMS[1].name
SHARED = 40
"""Letters in a row that make two texts share something."""
SHORTEST = 35
"""Letters of a sentence that is shared as a whole."""


class Corpus(NamedTuple):
    name: str
    notes: list[Note]
    """What the index is made of."""
    others: list[str]
    """Texts that are not in the index."""


@dataclass
class Score:
    """Of one transform: passages, how many were found by lines and by lines or quotes, and what else was found."""

    passages: int = 0
    by_line: int = 0
    found: int = 0
    right: int = 0
    wrong: int = 0


@dataclass
class Result:
    corpus: str
    notes: int
    scores: dict[str, Score] = field(default_factory=dict)
    others: int = 0
    others_right: int = 0
    others_wrong: int = 0

    @property
    def precision(self) -> float:
        right = sum(score.right for score in self.scores.values())
        return _percent(right, right + sum(score.wrong for score in self.scores.values()))


class Finder:
    """Notes by line and by quote, and what texts really share."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self._places = {note.id: place for place, note in enumerate(notes)}
        self._index = NoteIndex.build(notes, quotes=True)
        self._letters = [letters(encoded(note.text)) for note in notes]
        self._texts = [note.text for note in notes]

    def find(self, texts: Sequence[str]) -> list[tuple[set[int], set[int]]]:
        """For each text the notes by line, and those by line or quote."""
        found: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in texts]
        for start in range(0, len(texts), AT_ONCE):
            for one in scan_value(self._index, list(texts[start : start + AT_ONCE])).sightings:
                for piece in one.evidence if one.by == "content" else ():
                    lines, either = found[start + int(re.split("[/!]", piece.pointer)[1])]
                    either.add(self._places[one.note])
                    if piece.grade == "line":
                        lines.add(self._places[one.note])
        return found

    def shares(self, place: int, text: str) -> bool:
        """Whether a text holds 40 letters in a row of a note, or a whole line or sentence that is shorter."""
        sent, note = letters(encoded(text)), self._letters[place]
        if any(sent[at : at + SHARED] in note for at in range(len(sent) - SHARED + 1)):
            return True
        lines = [canonical_line(line) for line in self._texts[place].split("\n")]
        flat = canonical_line(text)
        if any(len(line) >= MINIMUM_LINE_LENGTH and line in flat for line in lines):
            return True
        sentences = (letters(encoded(sentence)) for line in lines for sentence in SENTENCE_ENDS.split(line))
        return any(len(sentence) >= SHORTEST and sentence in sent for sentence in sentences)

    def holders(self, text: str) -> int:
        """How many notes hold these letters."""
        wanted = letters(encoded(text))
        return sum(wanted in note for note in self._letters)


def measured(corpus: Corpus, seed: int, transforms: Iterable[Transform] = TRANSFORMS) -> Result:
    finder = Finder(corpus.notes)
    passages = _passages(corpus.notes, finder, seed)
    filler = Writer(seed + 1)
    around = [(filler.paragraph(), filler.paragraph()) for _ in passages]
    result = Result(corpus.name, len(corpus.notes))
    for transform in transforms:
        score = result.scores[transform.name] = Score(len(passages))
        sent = [transform.apply(passage) for _, passage in passages]
        texts = [f"{before}\n\n{text}\n\n{after}" for (before, after), text in zip(around, sent, strict=True)]
        for (place, _), text, (lines, found) in zip(passages, sent, finder.find(texts), strict=True):
            right = {one for one in found if (one == place and transform.is_found) or finder.shares(one, text)}
            counted = found if transform.is_found else found - right
            score.by_line += place in lines & counted
            score.found += place in counted
            score.right += len(right)
            score.wrong += len(found - right)
    for text, (_, found) in zip(corpus.others, finder.find(corpus.others), strict=True):
        right = {one for one in found if finder.shares(one, text)}
        result.others_right += len(right)
        result.others_wrong += len(found - right)
    result.others = len(corpus.others)
    return result


def _passages(notes: Sequence[Note], finder: Finder, seed: int) -> list[tuple[int, Passage]]:
    """Some notes' passages. A sentence that more than three notes have says nothing, so it is none."""
    places = list(range(len(notes)))
    random.Random(seed).shuffle(places)
    found: list[tuple[int, Passage]] = []
    for place in places:
        passage = Passage.of(notes[place].text)
        if passage and finder.holders(passage.sentence) <= 3 and finder.holders(passage.paragraph[:60]) <= 3:
            found.append((place, passage))
        if len(found) == PASSAGES:
            break
    return found


def corpora(seed: int) -> Iterator[Corpus]:
    writer = Writer(seed)
    notes = [note.note() for note in writer.vault(NOTES)]
    others = ["\n".join([*(writer.paragraph() for _ in range(4)), *writer.code(60)]) for _ in range(PASSAGES)]
    yield Corpus("synthetic", notes, others)
    for folder, name in REAL.items():
        files = sorted((VAULTS / folder).rglob("*.md")) if (VAULTS / folder).is_dir() else []
        texts = [(file.relative_to(VAULTS / folder).as_posix(), file.read_text("utf-8", "replace")) for file in files]
        random.Random(seed).shuffle(texts)
        back = len(texts) // HELD_BACK
        yield Corpus(name, [_note(path, text) for path, text in texts[back:]], [text for _, text in texts[:back]])


def _note(path: str, text: str) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def shown(results: Sequence[Result], seed: int) -> str:
    """The tables in Markdown: for each corpus recall by line, and by line or quote."""
    corpora_ = " | ".join(f"{result.corpus}: by line | with quotes" for result in results)
    rows = [f"| transform | {corpora_} |", "|---" + "|--:|--:" * len(results) + "|"]
    for transform in TRANSFORMS:
        cells = [
            f"{_percent(score.by_line, score.passages):.0f} % | {_percent(score.found, score.passages):.1f} %"
            for score in (result.scores[transform.name] for result in results)
        ]
        name = transform.name if transform.is_found else f"{transform.name} (must not be found)"
        rows.append(f"| {name} | {' | '.join(cells)} |")
    rows += ["", "| notes | in the index | passages | precision | texts of no note | found in them | of these wrong |"]
    rows.append("|---|--:|--:|--:|--:|--:|--:|")
    for result in results:
        passages = result.scores[TRANSFORMS[0].name].passages
        found = result.others_right + result.others_wrong
        rows.append(
            f"| {result.corpus} | {result.notes:,} | {passages} | {result.precision:.2f} % | {result.others} | {found} "
            f"| {result.others_wrong} |"
        )
    return "\n".join([*rows, "", f"Made with `python -m tests.bench.accuracy --seed {seed}`."])


def figures(seed: int, *, large: bool) -> Iterator[Figure]:
    """For `make bench`: one transform of the many, unless `large`."""
    chosen = [one for one in TRANSFORMS if large or one.name == MID_LINE]
    for corpus in corpora(seed):
        if not corpus.notes:
            continue
        result = measured(corpus, seed, chosen)
        score = result.scores[MID_LINE]
        goals = ((97.0, 99.0), (99.5, 99.9)) if corpus.name == "synthetic" else ((None, None), (None, None))
        yield Figure(
            f"recall, {MID_LINE}, {corpus.name}",
            _percent(score.found, score.passages),
            "% right",
            *goals[0],
            baseline=f"the rule for lines, {_percent(score.by_line, score.passages):.0f} %",
        )
        yield Figure(f"precision, {len(chosen)} transforms, {corpus.name}", result.precision, "% right", *goals[1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.accuracy", description="Recall and precision.")
    parser.add_argument("--seed", type=int, default=1, help="what notes and passages are made from (1)")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"put the tables into FILE, after its line {MARK!r}")
    chosen = parser.parse_args(arguments)
    results = []
    for corpus in corpora(chosen.seed):
        if corpus.notes:
            results.append(measured(corpus, chosen.seed))
        else:
            print(f"skipped, as it is not in ../shared/data/vaults: {corpus.name}", file=sys.stderr)
    tables = shown(results, chosen.seed)
    print(tables)
    if chosen.write:
        head = chosen.write.read_text("utf-8").partition(MARK)[0]
        chosen.write.write_text(f"{head}{MARK}\n\n{tables}\n", "utf-8")


if __name__ == "__main__":
    main()
