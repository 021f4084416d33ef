"""A folder of notes that a test writes, and what a source reads of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.sources.markdown import MarkdownSource


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that the source opens from now on."""
    opened: list[str] = []

    def opening(file: str, mode: str, buffering: int) -> object:
        opened.append(Path(file).name)
        return open(file, mode, buffering=buffering)  # noqa: PTH123

    monkeypatch.setattr("memory.sources.markdown.open", opening, raising=False)
    return opened


async def paths(source: MarkdownSource) -> list[str]:
    return [document.path for document in await source.load()]
