"""Notes to redact, and a checker of what is left that shares no code with the product."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from memory.exchange import Redaction
from memory.index import NoteIndex
from memory.notes import Note
from memory.redact import Redacted, redact

TIDE = "The tide chart is drawn from the harbour's own table, which nobody outside has ever seen."
BERTH = "Every berth has a number and a depth at low water; the pilot knows them by heart."
SHORT = "PIN 4711"
SPELLED = "- Schlüssel: Möwe"
TEXT = f"{TIDE}\n{SHORT}\n\n{SPELLED}\n---\nOK\n{BERTH}"
SECRETS = (TIDE, SHORT, SPELLED, BERTH)
OTHER = "The weather over the other coast was fair for most of the week, and the boats stayed out late."
ID = "vault/tides.md"


def note(path: str, text: str, *, unread: bool = False) -> Note:
    return Note(f"vault/{path}", "vault", path, path.removesuffix(".md"), text, (), (), (), len(text), unread=unread)


def built(*notes: Note, quotes: bool = True, **options: Any) -> NoteIndex:
    return NoteIndex.build(notes, quotes=quotes, reachable=lambda _: True, **options)


INDEX = built(note("tides.md", TEXT), note("weather.md", OTHER))
LINES_ONLY = built(note("tides.md", TEXT), quotes=False)
MARK = "[withheld]"


def redacted(data: bytes, placeholder: str = MARK, content_type: str = "application/json") -> Redacted:
    return redact(INDEX, data, [Redaction(ID, placeholder)], content_type)


# --- a checker that shares no code with the product ------------------------------------------------------------------


def letters(text: str) -> str:
    return "".join(character for character in unicodedata.normalize("NFKD", text).casefold() if character.isalnum())


def strings(value: Any) -> Iterator[str]:
    """Every string, key and number in JSON, and in the JSON in strings, however deep."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from strings(key)
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    else:
        text = str(value)
        yield text
        if isinstance(value, str):
            try:
                inner = json.loads(text, strict=False)
            except ValueError:
                return
            if not isinstance(inner, int | float | None):
                yield from strings(inner)


def leaks(data: bytes, secrets: tuple[str, ...] = SECRETS) -> set[str]:
    there = [letters(text) for text in strings(json.loads(data))]
    return {secret for secret in secrets if any(letters(secret) in text for text in there)}


def is_only_cut(before: bytes, after: bytes, mark: bytes) -> bool:
    """Whether `after` is `before` with some parts of it replaced by `mark`."""
    pattern = b".+?".join(map(re.escape, after.split(mark)))
    return re.fullmatch(pattern, before, re.DOTALL) is not None


def mark(path: str, placeholder: str = MARK) -> Redaction:
    return Redaction(f"vault/{path}", placeholder)
