"""A mitm.yaml that the dashboard changes, and what a test does to the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from addons.config_writing import ConfigFile
from addons.file_settings import FileSettings
from web.settings import NotChangedError

TEXT = """\
# mine
memory:
  sources:
    - {name: first, path: first, exclude: ["Old/*"]}   # the first
    # and more
    - {name: second, path: ~/second, enabled: no}
state: null
"""


class Change:
    """Changes one mitm.yaml, and says what was taken over."""

    def __init__(self, file: Path, *, allowed: bool = False) -> None:
        self.file = file
        self.taken_over: list[Path] = []
        self.config_file = ConfigFile(file)
        self.settings = FileSettings(self.config_file, allow_process_settings=allowed, take_over=self._take_over)

    async def _take_over(self, file: Path) -> None:
        self.taken_over.append(file)

    async def sources(self) -> list[dict[str, Any]]:
        return list((await self.settings.sources())["sources"])

    async def refused(self, sources: list[dict[str, Any]], version: str | None = None) -> tuple[str, str]:
        before = self.file.read_bytes() if self.file.exists() else None
        with pytest.raises(NotChangedError) as raised:
            await self.settings.change_sources(sources, version)
        assert (self.file.read_bytes() if self.file.exists() else None) == before
        assert self.taken_over == []
        assert [
            path.name for path in self.file.parent.iterdir() if path.name.endswith("yaml") or "yaml." in path.name
        ] in (
            [self.file.name],
            [],
        )
        return raised.value.cause, str(raised.value)


def text_of(file: Path) -> str:
    return file.read_text("utf-8")


def write(file: Path, text: str | bytes) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def chmod(file: Path, mode: int) -> None:
    file.chmod(mode)


def remove(file: Path) -> None:
    file.unlink()


def link(file: Path, real: Path) -> None:
    file.unlink()
    file.symlink_to(real)


def is_link(file: Path) -> bool:
    return file.is_symlink()


def stat_of(file: Path) -> os.stat_result:
    return file.stat()


def source(name: str, kind: str = "markdown", path: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "path": path, "exclude": [], "extensions": [], "enabled": True} | more


def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an account of its own, which is not there yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("MITMEMORY_HOME", raising=False)
    return tmp_path / "home"


def written(tmp_path: Path) -> Path:
    """A mitm.yaml with `TEXT`."""
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "mitm.yaml").write_text(TEXT, "utf-8")
    return folder / "mitm.yaml"
