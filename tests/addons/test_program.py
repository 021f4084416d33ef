"""How the command is called that a person is told to type."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from addons.program import command_line, installed_program, program_name, quoted, with_program
from tests.harness import MITMEMORY
from tests.test_docs import commands

ADDONS = Path(__file__).parents[2] / "addons"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(MITMEMORY.parent))


def test_its_name_where_the_path_leads_to_it(bare: None) -> None:
    assert program_name() == "mitmemory"
    assert with_program('`mitmemory env` or "$(mitmemory env)"') == '`mitmemory env` or "$(mitmemory env)"'


def test_its_name_where_the_path_leads_to_a_link_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mitmemory").symlink_to(MITMEMORY)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_name() == "mitmemory"


@pytest.mark.parametrize("other", [False, True])
def test_its_file_where_the_path_leads_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, other: bool
) -> None:
    if other:
        (tmp_path / "mitmemory").write_text("#!/bin/sh\n")
        (tmp_path / "mitmemory").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_name() == installed_program() == str(MITMEMORY)
    assert with_program("no `mitmemory env`: $(mitmemory env), the mitmemory folder, `mitmemory`") == (
        f"no `{MITMEMORY} env`: $({MITMEMORY} env), the mitmemory folder, `mitmemory`"
    )


def test_a_file_with_spaces_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my tools"
    folder.mkdir()
    (folder / "mitmemory").write_text("")
    monkeypatch.setattr("addons.program.sys.executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_program() == str(folder / "mitmemory")
    assert with_program(r"`mitmemory env`") == f"`'{folder}/mitmemory' env`"


def test_a_configuration_that_has_to_be_named(bare: None) -> None:
    text = "`mitmemory with -- COMMAND` or $(mitmemory env), `mitmemory ledger head`"
    assert with_program(text, Path("/my notes/mitm.yaml")) == (
        "`mitmemory with --config '/my notes/mitm.yaml' -- COMMAND` or $(mitmemory env --config '/my notes/mitm.yaml'), "
        "`mitmemory ledger --config '/my notes/mitm.yaml' head`"
    )


def test_a_command_by_its_words(bare: None) -> None:
    assert command_line("link", None) == "mitmemory link"
    assert command_line("rules test --since 2d", Path("/my notes/mitm.yaml")) == (
        "mitmemory rules --config '/my notes/mitm.yaml' test --since 2d"
    )


@pytest.mark.parametrize(
    ("argument", "typed"),
    [("me", "me"), (r"C:\notes\mitm-1.yaml", r"C:\notes\mitm-1.yaml"), ("my notes", '"my notes"')],
)
def test_windows_has_quotes_of_its_own(monkeypatch: pytest.MonkeyPatch, argument: str, typed: str) -> None:
    monkeypatch.setattr("addons.program.os.name", "nt")
    assert quoted(argument) == typed


def test_its_name_where_no_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.program.sys.executable", str(tmp_path / "python"))
    assert installed_program() == program_name() == "mitmemory"


COMMAND = re.compile(rf"(?<![\w/])mitmemory (?:{'|'.join(commands())})(?!\w)")
TYPED_LATER = {"doctor_checks.py", "doctor.py", "authority.py"}
"""Their texts go through `with_program` where they are said."""


@pytest.mark.parametrize("file", sorted(ADDONS.rglob("*.py")), ids=lambda file: str(file.relative_to(ADDONS)))
def test_each_command_that_a_person_is_told_to_type_can_be_typed(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    typed = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "with_program"
        for part in ast.walk(call)
    }
    docstrings = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    told = [
        text.value
        for text in ast.walk(tree)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and id(text) not in docstrings
        if COMMAND.search(text.value) and (id(text) not in typed or with_program(text.value) == text.value)
    ]
    assert file.name in TYPED_LATER or told == []
