"""Which program shows a folder, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.show_folder import opener, show_folder


def test_each_system_has_its_program() -> None:
    assert [opener(platform, {}) for platform in ("darwin", "win32", "linux")] == ["open", "explorer", None]
    assert opener("linux", {"DISPLAY": ":0"}) == "xdg-open"
    assert opener("freebsd14", {"WAYLAND_DISPLAY": "wayland-0"}) == "xdg-open"


@pytest.mark.parametrize(("ends", "shown"), [("exit 0", True), ("exit 3", False)])
async def test_it_is_started_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, *, shown: bool
) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "a folder; rm"
    for place in (programs, folder):
        place.mkdir()
    program = programs / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/asked"\n{ends}\n')
    program.chmod(0o700)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", str(programs))
    assert await show_folder(folder) is shown
    assert (tmp_path / "asked").read_text() == str(folder)


async def test_without_a_screen_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert await show_folder(tmp_path) is False
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", str(tmp_path))  # where no program is
    assert await show_folder(tmp_path) is False
