"""The cases stand in cases/resolution.md: the notes of a vault, and a link in the last one.

`path = alias, alias` is a note with aliases, `path [name]` one with the name of a page.
"""

from pathlib import Path

import pytest
from markdown_it.utils import read_fixture_file

from memory.links import LinkResolver, is_attachment
from memory.notes import Note

CASES = [
    pytest.param(vault, expected.strip(), id=f"{line} {name}")
    for line, name, vault, expected in read_fixture_file(Path(__file__).parent / "cases" / "resolution.md")
]


def note(path: str, *aliases: str) -> Note:
    path, _, page = path.removesuffix("]").partition(" [")
    return Note(f"vault/{path}", "vault", path, path, "", aliases, (), (), 0, (page,) if page else ())


@pytest.mark.parametrize(("vault", "expected"), CASES)
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
def test_cases(vault: str, expected: str, order: int) -> None:
    *others, last = vault.removesuffix("\n").split("\n")
    path, _, target = last.partition(" -> ")
    origin = note(path)
    notes = [origin]
    for line in others:
        name, _, aliases = line.partition(" = ")
        notes.append(note(name, *(aliases.split(", ") if aliases else ())))

    found = LinkResolver(notes[::order]).resolve(target, origin)

    assert (found.path if found else "unresolved") == expected


def test_decomposed_letters_on_either_side() -> None:
    """macOS keeps file names decomposed; what is typed is composed."""
    composed, decomposed = "Caf\u00e9", "Cafe\u0301"
    for in_path, in_link in ((composed, decomposed), (decomposed, composed)):
        bar = note(f"{in_path}.md", f"{in_path} alias")
        x = note("x.md")
        resolver = LinkResolver([bar, x])
        assert resolver.resolve(in_link, x) is bar
        assert resolver.resolve(f"{in_link} alias", x) is bar


def test_attachments() -> None:
    assert is_attachment("a/Picture.PNG")
    assert is_attachment("paper.pdf")
    assert not is_attachment("Release 1.2")
    assert not is_attachment("png")
    assert not is_attachment("Note.md")


def test_knows_the_notes_it_was_made_of() -> None:
    notes = [note("a.md", "Alpha"), note("b.md [B]")]
    resolver = LinkResolver(notes)

    assert resolver.knows([note("a.md", "Alpha"), note("b.md [B]")])
    for others in (notes[:1], notes[::-1], [note("a.md"), notes[1]], [notes[0], note("b.md [C]")]):
        assert not resolver.knows(others)
