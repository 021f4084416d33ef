"""docs/sources.md says how to write a source of one's own: its example runs, from the page's own text."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.notes import MemorySource

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "sources.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def block(language: str, mark: str) -> str:
    """The one block of that language that holds the mark."""
    [found] = [text for name, text in BLOCKS if name == language and mark in text]
    return found


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the example: module, database, and the configuration that names both."""
    (tmp_path / "facts.py").write_text(block("python", "class Facts"), "utf-8")
    (tmp_path / "mitm.yaml").write_text(f"state: state\n{block('yaml', 'facts:Facts')}", "utf-8")
    with closing(sqlite3.connect(tmp_path / "facts.db")) as database:
        database.executescript(block("sql", "CREATE TABLE"))
    return tmp_path


def mitmemory(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from addons.cli import main; sys.exit(main())", *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{folder}", "HOME": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FOUND = [
    ("facts/doors.md", "doors", ["fact"], "text"),
    ("facts/keys.md", "keys", ["fact"], "text"),
]


def summary(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(node["id"], node["title"], node["tags"], node["detectable"]) for node in answer["nodes"]]


def test_the_example_named_in_mitm_yaml(example: Path) -> None:
    ran = mitmemory(example, "map", "--json")

    assert (ran.returncode, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert summary(answer) == FOUND
    assert answer["links"] == [["facts/keys.md", "facts/doors.md"]]
    assert [(source["kind"], source["error"]) for source in answer["sources"]] == [("facts:Facts", None)]


def test_the_example_installed_as_a_package(example: Path) -> None:
    [(group, names)] = tomllib.loads(block("toml", "entry-points"))["project"]["entry-points"].items()
    info = example / "facts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: facts\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    config = (example / "mitm.yaml").read_text().replace('"facts:Facts"', "facts")
    (example / "mitm.yaml").write_text(config)

    ran = mitmemory(example, "map", "--json")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert summary(json.loads(ran.stdout)) == FOUND


async def test_the_example_added_in_code(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example)
    monkeypatch.syspath_prepend(example)
    monkeypatch.setenv("HOME", str(example))
    (example / ".claude").mkdir()
    (example / ".claude" / "CLAUDE.md").write_text("Be brief.")
    (example / "my_suite.py").write_text(block("python", "make_suite"), "utf-8")
    spec = importlib.util.spec_from_file_location("my_suite", example / "my_suite.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        suite = module.make_suite()
        snapshot = await suite.note_library.scan()
        await suite.note_library.aclose()
    finally:
        del sys.modules["facts"]

    assert [(source.name, source.kind, source.notes, source.error) for source in snapshot.sources] == [
        ("facts", "facts:Facts", 2, None),
        ("more-facts", "facts", 2, None),
        ("claude-code", "claude_code", 1, None),
    ]
    assert all(isinstance(source, MemorySource) for source in suite.note_library.sources)
    assert len(module.addons) == 1


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("class Facts", "class Others", "facts:Facts cannot be imported: AttributeError: "),
        ("import asyncio", "import asyncio, no_such_module", "facts:Facts cannot be imported: No module named "),
        ("self.name = name", "raise LookupError", "facts:Facts cannot be made: LookupError"),
        ("self.location =", "self.place =", "facts:Facts has no `location` that is a text; "),
        ("async def load", "def load", "facts:Facts cannot be imported: SyntaxError: "),
        ("return await asyncio.to_thread(self._read)", "yield 1", "load() must be an `async def` that returns"),
        ('MemoryDocument(f"{topic}.md", text,', "dict(text=text,", "load() gave something that is no MemoryDocument"),
        ("FROM facts", "FROM fables", "no such table: fables"),
    ],
)
def test_what_goes_wrong_in_it_is_an_error_of_that_source(example: Path, before: str, after: str, error: str) -> None:
    code = (example / "facts.py").read_text("utf-8")
    assert before in code
    (example / "facts.py").write_text(code.replace(before, after), "utf-8")
    (example / "vault").mkdir()
    (example / "vault" / "a.md").write_text("")
    config = (example / "mitm.yaml").read_text() + "    - {name: vault, path: vault}\n"
    (example / "mitm.yaml").write_text(config)

    ran = mitmemory(example, "map", "--json")

    facts, vault = json.loads(ran.stdout)["sources"]
    assert facts["error"].startswith(error)
    assert (vault["error"], vault["notes"]) == (None, 1)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count("\n") <= 2


def test_every_message_in_the_page_is_one_that_the_code_gives() -> None:
    code = (ROOT / "memory" / "sources" / "own.py").read_text("utf-8")
    table = TEXT.partition("| message | meaning |")[2]
    messages = [row.split(" | ")[0].strip("| `") for row in table.strip().splitlines()[1:-1]]
    assert len(messages) == 6
    for message in messages:
        words = re.sub(r"facts:Facts|'facts'|: AttributeError|…", "", message).replace("'", "`")
        parts = [part.strip() for part in re.split(r"[:;]|No module named", words) if part.strip(" .`")]
        assert parts
        assert all(part.replace("`location`", "`{name}`") in code for part in parts), message


def test_the_configurations_of_the_page_are_right(tmp_path: Path) -> None:
    entries = "".join(text for name, text in BLOCKS if name == "yaml" and text.startswith("    - "))
    assert len(yaml.safe_load(entries)) == 3
    (tmp_path / "mitm.yaml").write_text(f"memory:\n  sources:\n{entries}")

    ran = mitmemory(tmp_path, "check")

    assert (ran.returncode, ran.stdout) == (0, "mitm.yaml: fine, 3 sources\n")
