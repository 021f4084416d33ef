"""How the command is called that a person is told to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.program import installed_program, program_name, with_program
from tests.harness import MITMEMORY


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


def test_its_name_where_no_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addons.program.sys.executable", str(tmp_path / "python"))
    assert installed_program() == program_name() == "mitmemory"
