"""Whole folders. The cases stand in cases/folders.md: files, and the nodes and links that come of them.

A file is `=== path` and the lines after it. A node is `path (title)`, then `aka alias`, `#tag`, `-> linked, linked`,
`? unresolved, unresolved` and `! warning`, each where there is any.
"""

from pathlib import Path

import pytest
from markdown_it.utils import read_fixture_file

from memory.note_library import NoteLibrary, Snapshot
from memory.sources import make_source

CASES = [
    pytest.param(files, expected, id=f"{line} {name}")
    for line, name, files, expected in read_fixture_file(Path(__file__).parent / "cases" / "folders.md")
]


def described(snapshot: Snapshot) -> str:
    (source,) = snapshot.sources
    assert source.error is None
    warnings = {warning.path: warning.reason for warning in source.warnings}
    lines = []
    for node in snapshot.map.nodes():
        details = snapshot.map.details(node["id"])
        linked = [target.removeprefix("vault/") for target in details.links]
        assert node["degree"] == len(linked) + len(details.backlinks)
        assert node["unresolved"] == len(details.unresolved)
        parts = [f"{node['path']} ({node['title']})"]
        parts += [f"aka {', '.join(node['aliases'])}"] if node["aliases"] else []
        parts += [f"#{tag}" for tag in node["tags"]]
        parts += [f"-> {', '.join(linked)}"] if linked else []
        parts += [f"? {', '.join(details.unresolved)}"] if details.unresolved else []
        parts += [f"! {warnings[node['path']]}"] if node["path"] in warnings else []
        lines.append(" ".join(parts) + "\n")
    return "".join(lines)


@pytest.mark.parametrize(("files", "expected"), CASES)
async def test_cases(files: str, expected: str, tmp_path: Path) -> None:
    for file in files.split("=== ")[1:]:
        path, _, text = file.partition("\n")
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    snapshot = await NoteLibrary([make_source("vault", "markdown", tmp_path)]).scan()

    assert described(snapshot) == expected
