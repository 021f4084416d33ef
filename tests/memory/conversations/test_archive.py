"""Putting a session away: each step can be repeated, and a crash between any two is mended."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.conversations import archive, files
from memory.conversations.archive import bring_back, earlier_summaries, mend, put_away, put_summary

SESSION = "2026-11-30T041233Z-k3f9"
OTHER = "2026-11-30T141233Z-m2x7"


class CrashError(BaseException):
    """Ends everything, as a crash does: nothing tidies up after it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sessions", "archive"):
        (tmp_path / name).mkdir()
    (tmp_path / "sessions" / f"{SESSION}.md").write_text("all that was said")
    (tmp_path / "sessions" / f"{OTHER}.md").write_text("still being said")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


DONE = {
    f"sessions/{SESSION}-summary.md": "in short",
    f"archive/{SESSION}.md": "all that was said",
    f"sessions/{OTHER}.md": "still being said",
}


def test_a_session_is_put_away(folder: Path) -> None:
    assert put_summary(folder, SESSION, "in short") == [folder / "sessions" / f"{SESSION}-summary.md"]
    assert put_away(folder, SESSION) == folder / "sessions" / f"{SESSION}.md"
    assert contents(folder) == DONE


def test_every_step_can_be_repeated(folder: Path) -> None:
    for _ in range(2):
        put_summary(folder, SESSION, "in short")
        put_summary(folder, SESSION, "in short")
        put_away(folder, SESSION)
        assert put_away(folder, SESSION) is None
    assert contents(folder) == DONE


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_summary_is_none(folder: Path, text: str) -> None:
    before = contents(folder)
    with pytest.raises(ValueError, match="empty"):
        put_summary(folder, SESSION, text)
    assert contents(folder) == before


def test_earlier_summaries_are_kept(folder: Path) -> None:
    for number in range(1, 13):
        changed = put_summary(folder, SESSION, f"version {number}")
    assert changed == [folder / "archive" / f"{SESSION}-summary-11.md", folder / "sessions" / f"{SESSION}-summary.md"]
    assert [path.read_text() for path in earlier_summaries(folder, SESSION)] == [
        f"version {number}" for number in range(1, 12)
    ]
    assert (folder / "sessions" / f"{SESSION}-summary.md").read_text() == "version 12"


def test_a_transcript_never_takes_the_place_of_another(folder: Path) -> None:
    (folder / "archive" / f"{SESSION}.md").write_text("something else")
    with pytest.raises(FileExistsError, match="is another transcript"):
        put_away(folder, SESSION)
    (folder / "archive" / f"{SESSION}.md").write_text("all that was said")
    assert put_away(folder, SESSION) == folder / "sessions" / f"{SESSION}.md"


def _first(folder: Path) -> None:
    put_summary(folder, SESSION, "in short")
    put_away(folder, SESSION)


def _again(folder: Path) -> None:
    put_summary(folder, SESSION, "in other words")


@pytest.mark.parametrize("work", [_first, _again])
def test_a_crash_at_any_step_is_mended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], None]
) -> None:
    """Every call that changes the disk is once the last one; then it is mended, and the work is done again."""
    if work is _again:
        _first(folder)
    earlier = contents(folder)
    left = 0

    def crashing[**P, R](call: Callable[P, R]) -> Callable[P, R]:
        def may_crash(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal left
            left -= 1
            if left < 0:
                raise CrashError
            return call(*args, **kwargs)

        return may_crash

    crashes = 0
    for steps in range(20):
        with monkeypatch.context() as patched:
            patched.setattr(files.os, "write", crashing(os.write))
            for name in ("replace", "chmod", "unlink"):
                patched.setattr(Path, name, crashing(getattr(Path, name)))
            left = steps
            try:
                work(folder)
            except CrashError:
                crashes += 1
            else:
                break
        mend(folder, current=OTHER)
        found = contents(folder)
        summary = found.get(f"sessions/{SESSION}-summary.md")
        assert summary in {None, "in short", "in other words"}
        assert not any(name.startswith(".unfinished") for name in found)
        # What was said is somewhere, and where its summary is not indexed, it is.
        assert (f"archive/{SESSION}.md" in found) is (summary is not None)
        assert (f"sessions/{SESSION}.md" in found) is (summary is None)
        assert found[f"sessions/{OTHER}.md"] == "still being said"
        if work is _again:
            assert "in short" in {summary, found.get(f"archive/{SESSION}-summary-1.md")}
    assert crashes >= 4
    work(folder)
    if work is _first:
        assert contents(folder) == DONE
    else:
        assert contents(folder) == {
            **earlier,
            f"archive/{SESSION}-summary-1.md": "in short",
            f"sessions/{SESSION}-summary.md": "in other words",
        }


def test_mending_says_what_has_changed(folder: Path) -> None:
    assert mend(folder, current=OTHER) == ()
    put_summary(folder, SESSION, "in short")
    transcript, summary = folder / "sessions" / f"{SESSION}.md", folder / "sessions" / f"{SESSION}-summary.md"
    assert mend(folder, current=SESSION) == ()
    assert mend(folder, current=OTHER) == (transcript, summary)
    assert mend(folder, current=OTHER) == ()
    assert contents(folder) == DONE


def test_a_session_is_brought_back(folder: Path) -> None:
    before = contents(folder)
    put_summary(folder, SESSION, "in short")
    put_summary(folder, SESSION, "in other words")
    put_away(folder, SESSION)
    assert bring_back(folder, SESSION) == (
        [folder / "sessions" / f"{SESSION}.md"],
        [folder / "sessions" / f"{SESSION}-summary.md", folder / "archive" / f"{SESSION}-summary-1.md"],
    )
    assert contents(folder) == before
    assert bring_back(folder, SESSION) == ([], [])


def test_a_crash_while_a_session_is_brought_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transcript is back before its summary goes: then it is as if nothing had begun."""
    put_summary(folder, SESSION, "in short")
    put_away(folder, SESSION)
    with monkeypatch.context() as patched:
        patched.setattr(archive.Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(CrashError))
        with pytest.raises(CrashError):
            bring_back(folder, SESSION)
    mend(folder, current=None)
    assert contents(folder) == DONE
    bring_back(folder, SESSION)
    assert contents(folder)[f"sessions/{SESSION}.md"] == "all that was said"
