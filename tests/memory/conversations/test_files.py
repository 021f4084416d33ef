"""Folders are made for their owner alone, and what is there already is left as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memory.conversations.files import make_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_its_owners_and_what_was_there_stays(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    before = os.umask(0o277)
    try:
        make_folder(there / "a" / "b")
        make_folder(there)
    finally:
        os.umask(before)
    assert [mode(path) for path in (there, there / "a", there / "a" / "b")] == [0o755, 0o700, 0o700]


@pytest.mark.parametrize("below", ["", "client", "client/sessions"])
def test_a_file_that_lies_in_the_way_stays_as_it_is(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    file.chmod(0o644)
    with pytest.raises(FileExistsError) as raised:
        make_folder(file / below)
    assert raised.value.filename == str(file)
    assert (mode(file), file.read_text()) == (0o644, "mine")


def test_a_folder_that_another_makes_meanwhile_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_by_another(folder: Path, **_: int) -> None:
        os.mkdir(folder)  # noqa: PTH102 - the other is the one that is replaced
        folder.chmod(0o750)
        raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", made_by_another)
    make_folder(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o750
