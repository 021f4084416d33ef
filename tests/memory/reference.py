"""The rules of detection, read literally: slow, and short enough to see that they are right. The tests' oracle.

It shares no code with the product. A faster product has to find exactly what this finds. It judges one text at a time
and knows nothing of JSON; `docs/detection.md` says each rule in words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from memory.notes import Note

PREFIXES = [
    r"\s*[0-9]{1,7}→",
    r"\s*[0-9]{1,7}\t",
    r"\s*[0-9]{1,7}\|",
    r"\s*[0-9]{1,7} \|",
    r"\s*[0-9]{1,7}:",
    r"\s*[0-9]{1,7}-",
    r"\s*[0-9]{1,7}#[0-9A-Za-z]{1,8}\|",
    r"\s*L[0-9]{1,7}:",
    r"\s*>[ \t]",
    r"\s*\*[ \t]",
    r"\s*-",
    r"\s*\+",
    r".{1,400}?\.\w{1,16}:[0-9]{1,7}:",
    r".{1,400}?\.\w{1,16}-[0-9]{1,7}-",
]
GENERIC = {"readme.md", "index.md", "claude.md", "agents.md", "memory.md", "skill.md"}
NO_PART_OF_A_NAME = r"[^\w\-.~%+$/\\]"
SLASH = r"[/\\]"


def collapse(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def lines_of(text: str, minimum: int) -> set[str]:
    return {collapse(line) for line in text.split("\n") if len(collapse(line)) >= minimum}


def distinctive_lines(notes: Sequence[Note], minimum: int) -> dict[str, set[str]]:
    """Line -> the ids of the notes that have it; without the lines that more than three notes have."""
    owners: dict[str, set[str]] = {}
    for note in notes:
        for line in lines_of(note.text, minimum):
            owners.setdefault(line, set()).add(note.id)
    return {line: ids for line, ids in owners.items() if len(ids) <= 3}


def forms(line: str) -> list[str]:
    """The line as it stands, then without one prefix."""
    found = [re.match(prefix, line) for prefix in PREFIXES]
    return [collapse(line), *(collapse(line[match.end() :]) for match in found if match)]


def content(notes: Sequence[Note], text: str, minimum: int) -> dict[str, set[str]]:
    """Note id -> its distinctive lines that are in the text."""
    owners = distinctive_lines(notes, minimum)
    found: dict[str, set[str]] = {}
    for line in text.split("\n"):
        for form in forms(line):
            if form in owners:
                for note in owners[form]:
                    found.setdefault(note, set()).add(form)
                break
    return found


def mentions(notes: Sequence[Note], text: str, roots: Mapping[str, str]) -> set[tuple[int, str]]:
    """(line number from 0, note id) of each note that is named; before listings and matched text are looked at."""
    return {(row, note) for row, line in enumerate(text.split("\n")) for note in mentions_in_line(notes, line, roots)}


def mentions_in_line(notes: Sequence[Note], line: str, roots: Mapping[str, str]) -> set[str]:
    plain = unicodedata.normalize("NFC", re.sub(r"\\+/?", r"\\", line.replace("\\ ", " ")))
    found = linked(notes, line)
    for readable in (plain, unicodedata.normalize("NFC", unquote(plain))):
        longest: dict[int, tuple[int, set[str]]] = {}
        for note in notes:
            for name, at in names_at(notes, note, readable, roots):
                length, ids = longest.get(at + len(name), (0, set()))
                if len(name) > length:
                    longest[at + len(name)] = (len(name), {note.id})
                elif len(name) == length:
                    ids.add(note.id)
        found |= {note for _, ids in longest.values() for note in ids}
    return found


def names_at(notes: Sequence[Note], note: Note, line: str, roots: Mapping[str, str]) -> list[tuple[str, int]]:
    """Each name of a note with where it stands in a line: its path, its file name, its absolute path."""
    path = unicodedata.normalize("NFC", note.path)
    file = path.split("/")[-1]
    names = [f"{roots[note.source]}/{path}"] if note.source in roots else []
    if path.lower() not in GENERIC:
        names += [path, f"./{path}"]
    if file.lower() not in GENERIC and [one.path.split("/")[-1] for one in notes].count(file) == 1:
        names.append(file)
    return [
        (name, match.start())
        for name in names
        for match in re.finditer(rf"(?={re.escape(name).replace('/', SLASH)})", line)
        if begins(line, match.start(), absolute=name.startswith("/")) and ends(line, match.start() + len(name))
    ]


def begins(line: str, at: int, *, absolute: bool) -> bool:
    url = re.search(rf"(\w[\w+.-]*):{SLASH}{SLASH}[^\s\"'<>`|)\]}}]*$", line[:at])
    if url and url[1].lower() != "file":
        return False
    if absolute and re.search(rf"file:{SLASH}{{2}}$", line[:at], re.IGNORECASE):
        return True
    if re.search(r"\w@$", line[:at]):  # the domain of an e-mail address
        return False
    return at == 0 or re.match(NO_PART_OF_A_NAME, line[at - 1]) is not None


def ends(line: str, at: int) -> bool:
    return re.match(r"-\d{1,7}-", line[at:]) is not None or re.match(r"\w|[.-]\w|~|/", line[at:]) is None


def linked(notes: Sequence[Note], line: str) -> set[str]:
    found: set[str] = set()
    for inner in re.findall(r"\[\[([^\[\]]+)\]\]", line):
        target = re.split(r"[|#^]", inner)[0].rstrip("\\").strip().lower()
        by_name = [note.id for note in notes if target in {name.lower() for name in (note.title, *note.aliases)}]
        by_path = [note.id for note in notes if note.path.lower() == f"{target}.md" and "/" in target]
        by_file = [note.id for note in notes if note.path.lower().split("/")[-1] == f"{target}.md"]
        if f"{target}.md" in GENERIC:
            by_name = [note for note in by_name if note not in by_file]
            by_file = []
        if len(by_name) == 1:
            found.update(by_name)
        elif by_path:
            found.update(by_path)
        elif len(by_file) == 1:
            found.update(by_file)
    return found


def not_inside_content(
    notes: Sequence[Note], text: str, minimum: int, named: set[tuple[int, str]]
) -> set[tuple[int, str]]:
    """Mentions without those on a line of a note that the text holds, and without the notes that it holds."""
    held = content(notes, text, minimum)
    lines = text.split("\n")
    theirs = {collapse(line) for note in notes if note.id in held for line in note.text.split("\n")}
    return {(row, note) for row, note in named if note not in held and not theirs.intersection(forms(lines[row]))}
