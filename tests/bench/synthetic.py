"""Believable notes and request bodies, made from a seed: words by Zipf's law, the shapes of a vault and of an agent.

Every text is made up here. Two makers with the same seed make the same texts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from memory.notes import Link, MemoryDocument, Note


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


COMMON = _list(
    "the and to of a in it is that for on with as was but at this by from or be not are have we so which one if when "
    "then there can more about into out up no than only over after before through because while still again just now"
)
ONSETS = _list("b br c ch d dr f fl g gr h j k l m n p pl qu r s sh sl st t th tr v w y z")
VOWELS = _list("a e i o u ai ea ee ie oa ou")
CODAS = ("", "", "", *_list("n r l s t nd st ck m"))
VOCABULARY = 30_000
ZIPF_EXPONENT = 1.05
FOLDERS = ("projects", "projects/clients", "areas", "areas/health", "people", "daily", "meetings", "reading", "archive")
TAGS = ("inbox", "review", "someday", "project/active", "project/done", "person", "book", "recipe", "idea", "draft")
BOILERPLATE = (
    "> Made from the template for weekly notes, delete what is not needed",
    "## Open questions and things to follow up",
    "- [ ] File this note in the right folder when it is finished",
    "Added by the plugin for daily notes, do not edit below this line",
)
"""Lines that many notes have: none of them says anything about one note."""
TOOLS = ("Read", "Edit", "Write", "Bash", "Grep", "Glob", "Task", "WebFetch")
REMINDER = (
    "\n\n<system-reminder>\nThe file list may be out of date; read a file before you change it.\n</system-reminder>"
)


@dataclass(frozen=True, slots=True)
class SyntheticNote:
    """One note of a vault: its file, and what a source would read out of it."""

    path: str
    title: str
    text: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    links: tuple[str, ...]

    def document(self) -> MemoryDocument:
        return MemoryDocument(self.path, self.text, self.title, self.aliases, self.tags, self.links)

    def note(self, source: str = "vault") -> Note:
        return Note(
            id=f"{source}/{self.path}",
            source=source,
            path=self.path,
            title=self.title,
            text=self.text,
            aliases=self.aliases,
            tags=self.tags,
            links=tuple(Link(target) for target in self.links),
            size=len(self.text.encode()),
        )


@dataclass
class Conversation:
    """A request of an agent that grows by a turn at a time, as JSON in Anthropic's Messages shape.

    Its parts are kept encoded: the body of a turn is put together in no time worth measuring.
    """

    head: bytes
    messages: list[bytes] = field(default_factory=list)
    carried: list[frozenset[str]] = field(default_factory=list)
    """For each message the paths of the notes that were put into it."""

    def body(self, messages: int | None = None) -> bytes:
        """The request after its first `messages` messages; None: after all."""
        return self.head + b",".join(self.messages[:messages]) + b"]}"

    def size(self) -> int:
        return len(self.head) + sum(len(message) + 1 for message in self.messages) + 1

    def add(self, message: dict[str, Any], carried: frozenset[str] = frozenset()) -> None:
        self.messages.append(encoded(message))
        self.carried.append(carried)


class Writer:
    """Makes everything from one seed, in the order in which it is asked."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._draw = np.random.default_rng(seed)
        self._vocabulary = self._make_vocabulary()
        weights = 1 / np.arange(1, VOCABULARY + 1) ** ZIPF_EXPONENT
        self._weights = weights / weights.sum()
        self._words = self._endless_words()

    # ---- words

    def _make_vocabulary(self) -> list[str]:
        choose = self._random.choice
        words = dict.fromkeys(COMMON)
        while len(words) < VOCABULARY:
            syllables = self._random.choices((1, 2, 3), (3, 5, 2))[0]
            words["".join(choose(ONSETS) + choose(VOWELS) for _ in range(syllables)) + choose(CODAS)] = None
        return list(words)

    def _endless_words(self) -> Iterator[str]:
        while True:
            places = self._draw.choice(VOCABULARY, size=200_000, p=self._weights)
            yield from map(self._vocabulary.__getitem__, places.tolist())

    def words(self, count: int) -> list[str]:
        return list(islice(self._words, count))

    def rare_words(self, count: int) -> list[str]:
        """For names: words that do not come up in every sentence."""
        return [self._vocabulary[self._random.randrange(len(COMMON), VOCABULARY)] for _ in range(count)]

    def sentence(self) -> str:
        words = self.words(self._random.randint(6, 22))
        if self._random.random() < 0.3:
            words[len(words) // 2] += ","
        if self._random.random() < 0.06:
            words[-3] = f"“{words[-3]}”"
        return f"{' '.join(words).capitalize()}{self._random.choice('....?!')}"

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self._random.randint(1, 5)))

    # ---- notes

    def vault(self, count: int) -> list[SyntheticNote]:
        """`count` notes of about 1.2 kB that link to each other; some notes are linked to far more than others."""
        titles = [
            " ".join(word.capitalize() for word in self.rare_words(self._random.randint(1, 4))) for _ in range(count)
        ]
        paths: dict[str, str] = {}
        for number, title in enumerate(titles):
            path = f"{self._random.choice(FOLDERS)}/{title}.md"
            paths[path if path not in paths else f"{path.removesuffix('.md')} {number}.md"] = title
        hubs = self._random.sample(titles, max(1, count // 50))
        return [self._note(path, title, titles, hubs) for path, title in paths.items()]

    def _note(self, path: str, title: str, titles: list[str], hubs: list[str]) -> SyntheticNote:
        chance, choose = self._random.random, self._random.choice
        aliases = (" ".join(self.rare_words(2)),) if chance() < 0.2 else ()
        tags = tuple(self._random.sample(TAGS, self._random.choice((0, 1, 1, 2))))
        links = tuple(choose(hubs if chance() < 0.5 else titles) for _ in range(self._random.choice((0, 1, 1, 2, 3))))
        lines = ["---", f"tags: [{', '.join(tags)}]", f"aliases: [{', '.join(aliases)}]"]
        lines += [
            f"created: 20{self._random.randint(18, 26)}-0{self._random.randint(1, 9)}-1{self._random.randint(0, 9)}"
        ]
        lines += ["---", f"# {title}", ""]
        if chance() < 0.3:
            lines += [choose(BOILERPLATE), ""]
        wrapped = chance() < 0.3
        for _ in range(self._random.randint(2, 6)):
            lines += [*self._block(wrapped=wrapped), ""]
        lines += [f"- {self.sentence()[:-1]}: [[{link}]]" for link in links]
        return SyntheticNote(path, title, "\n".join(lines) + "\n", aliases, tags, links)

    def _block(self, *, wrapped: bool) -> list[str]:
        kind = self._random.random()
        if kind < 0.55:
            paragraph = self.paragraph()
            return wrap(paragraph) if wrapped else [paragraph]
        if kind < 0.8:
            return [f"- {self.sentence()}" for _ in range(self._random.randint(2, 5))]
        if kind < 0.9:
            return [f"## {' '.join(self.words(4)).capitalize()}", "", f"> {self.sentence()}"]
        return ["```python", *self.code(4), "```"]

    # ---- requests

    def code(self, count: int) -> list[str]:
        """Lines of something like a program."""
        lines = []
        for _ in range(count):
            a, b, c, d = self.words(4)
            indent = "    " * self._random.randint(0, 4)
            shapes = (
                f"{a}_{b} = {c}.{d}({self._random.randint(0, 999)})",
                f"if {a} is not None and {b}.{c}:",
                f"def {a}_{b}(self, {c}: {d}) -> None:",
                f"# {a} {b} {c} {d}",
                f"return {a}[{b!r}].{c}({d})",
                "",
            )
            lines.append(f"{indent}{self._random.choice(shapes)}".rstrip())
        return lines

    def conversation(self, notes: list[SyntheticNote], size: int) -> Conversation:
        """An agent's conversation of about `size` bytes; a third of the files that it reads are notes."""
        started = self._beginning(small=size < 50_000)
        while (left := size - started.size()) > 0:
            self.add_turn(started, notes, min(max(left, 500), 8_000))
        return started

    def add_turn(self, conversation: Conversation, notes: list[SyntheticNote], size: int) -> None:
        """The model reads files of `size` characters, the last cut off, and the client sends them with the next turn."""
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        carried: set[str] = set()
        made = 0
        while made < size:
            name, content, path = self._file(notes)
            if made + len(content) > size:
                content, path = content[: size - made], None
            if path:
                carried.add(path)
            call = f"toolu_{self._random.getrandbits(88):022x}"
            calls.append({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": name}})
            results.append({"type": "tool_result", "tool_use_id": call, "content": content})
            made += len(content)
        conversation.add({"role": "assistant", "content": [{"type": "text", "text": self.paragraph()}, *calls]})
        conversation.add({"role": "user", "content": results}, frozenset(carried))

    def _beginning(self, *, small: bool) -> Conversation:
        tools = [self._tool(name) for name in TOOLS[: 1 if small else None]]
        system = [{"type": "text", "text": "\n\n".join(self.paragraph() for _ in range(2 if small else 30))}]
        head = {"model": "claude-bench", "max_tokens": 32_000, "stream": False, "system": system, "tools": tools}
        started = Conversation(encoded(head)[:-1] + b',"messages":[')
        started.add({"role": "user", "content": self.paragraph()})
        return started

    def _tool(self, name: str) -> dict[str, Any]:
        properties = {key: {"type": "string", "description": self.sentence()} for key in ("file_path", "pattern")}
        schema = {"type": "object", "properties": properties, "required": ["file_path"]}
        return {"name": name, "description": " ".join(self.sentence() for _ in range(10)), "input_schema": schema}

    def _file(self, notes: list[SyntheticNote]) -> tuple[str, str, str | None]:
        """(name, its text as a tool prints it, the path of the note that it is)."""
        path = None
        if self._random.random() < 0.35:
            note = self._random.choice(notes)
            name, path, lines = f"/home/me/vault/{note.path}", note.path, note.text.rstrip("\n").split("\n")
        else:
            name, lines = f"/home/me/src/{'_'.join(self.words(2))}.py", self.code(self._random.randint(40, 300))
        form = self._random.choice(("{number:6d}→{line}", "{number}\t{line}", "{number:6d}\t{line}", "{line}"))
        text = "\n".join(form.format(number=number, line=line) for number, line in enumerate(lines, 1))
        return name, text + (REMINDER if self._random.random() < 0.3 else ""), path


def wrap(paragraph: str, words: int = 13) -> list[str]:
    """In lines of so many words."""
    every = paragraph.split(" ")
    return [" ".join(every[start : start + words]) for start in range(0, len(every), words)]


def encoded(value: Any) -> bytes:
    """JSON as clients send it: without spaces, and letters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def write_vault(folder: Path, notes: list[SyntheticNote]) -> None:
    """Each note as a file below `folder`."""
    for note in notes:
        file = folder / note.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(note.text, "utf-8")
