"""A folder of Markdown that is read again: only what changed is, also after a start anew."""

import os
import sys
import time
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memory.markdown import Parsed
from memory.notes import Link
from memory.sources.cache import Entry, read_cache, write_cache
from memory.sources.markdown import MarkdownSource
from memory.sources.walk import Walk
from tests.memory.source_files import opened_files, paths, write


@pytest.fixture
def trusted_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of files tell everything, however short ago they changed."""
    monkeypatch.setattr("memory.sources.markdown.SETTLED_AFTER", -(10**18))


async def test_only_what_changed_is_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory.markdown import parse

    read: list[str] = []
    monkeypatch.setattr(
        "memory.sources.markdown.parse", lambda text, dialect: read.append(text) or parse(text, dialect)
    )
    source = MarkdownSource("v", write(tmp_path, {"a.md": "[[A]]", "b.md": "[[B]]"}))

    await source.load()
    write(tmp_path, {"b.md": "[[C]]"})
    documents = await source.load()

    assert read == ["[[A]]", "[[B]]", "[[C]]"]
    assert [document.links for document in documents] == [(Link("A"),), (Link("C"),)]


@pytest.mark.usefixtures("trusted_times")
async def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": "[[A]]", "b.md": "[[B]]", "c.md": "---\na: [\n---"}))
    first = await source.load()
    known = {document.path: document for document in first}
    opened = opened_files(monkeypatch)

    unchanged = await source.load_since(known)
    assert opened == []
    assert [one is other for one, other in zip(unchanged, first, strict=True)] == [True] * 3
    assert [warning.path for warning in source.report.warnings] == ["c.md"]

    write(tmp_path, {"b.md": "[[C]]", "d.md": ""})
    (tmp_path / "a.md").unlink()
    changed = await source.load_since(known)
    assert opened == ["b.md", "d.md"]
    assert [(document.path, document.links) for document in changed] == [
        ("b.md", (Link("C"),)),
        ("c.md", ()),
        ("d.md", ()),
    ]
    assert changed[1] is first[2]

    await source.load_since({"c.md": replace(first[2], digest=b"of something else")})
    assert opened[2:] == ["b.md", "c.md", "d.md"]


@pytest.mark.usefixtures("trusted_times")
async def test_a_file_with_another_time_and_the_same_content_is_read_and_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": "[[A]]"}))
    (first,) = await source.load()
    os.utime(tmp_path / "a.md", ns=(10**18, 10**18))
    opened = opened_files(monkeypatch)
    monkeypatch.setattr("memory.sources.markdown.parse", None)

    (second,) = await source.load_since({"a.md": first})

    assert second is first
    assert opened == ["a.md"]


@pytest.mark.parametrize(("age", "text"), [(1.5, "two"), (2.5, "")])
async def test_a_file_that_has_just_changed_is_read_again(
    age: float, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change within one step of the file system's clock leaves the times as they are."""
    stopped = time.time_ns() - int(age * 1e9)

    class Stopped(Walk):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.files = [file._replace(stamp=(stopped, stopped)) for file in self.files]

    monkeypatch.setattr("memory.sources.markdown.Walk", Stopped)
    source = MarkdownSource("v", write(tmp_path, {"a.md": "one"}))
    (first,) = await source.load()

    write(tmp_path, {"a.md": "two"})
    (second,) = await source.load_since({"a.md": replace(first, text="", unread=True)})

    assert second.text == text


@pytest.mark.usefixtures("trusted_times")
async def test_a_folder_that_gets_another_dialect_is_parsed_again(tmp_path: Path) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": "# H\n[[l|t]]"}))
    (first,) = await source.load()
    write(tmp_path, {"dendron.yml": ""})

    (second,) = await source.load_since({"a.md": first})

    assert (first.title, first.links) == (None, (Link("l"),))
    assert (second.title, second.links) == ("H", (Link("t"),))


# ---- what is kept for the next start


async def test_a_second_start_parses_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory.markdown import parse

    text = "---\ntitle: T\naliases: [x]\nshare: never\n---\n[[A|b]] ![[B]] #tag"
    vault = write(tmp_path / "vault", {"a.md": text, "b.md": "---\na: [\n---\n", "c.md": b"\xff"})
    write(tmp_path / "vault", {"g/logseq/config.edn": "", "g/pages/x___y.md": "title:: z\n#tag"})
    first = MarkdownSource("v", vault)
    first.restore(tmp_path / "cache")
    documents = await first.load()
    first.save(tmp_path / "cache")
    write(vault, {"d.md": "new"})

    read: list[str] = []
    monkeypatch.setattr(
        "memory.sources.markdown.parse", lambda text, dialect: read.append(text) or parse(text, dialect)
    )
    second = MarkdownSource("v", vault)
    second.restore(tmp_path / "cache")
    again = await second.load()

    assert read == ["new"]
    assert [one for one in again if one.path != "d.md"] == documents
    assert second.report.warnings == first.report.warnings
    assert [document.path for document in documents] == ["a.md", "b.md", "c.md", "g/pages/x___y.md"]
    assert documents[3].names == ("z",)
    assert [document.share for document in again] == ["never", None, None, None, None]


async def test_the_cache_holds_no_text_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    secret = uuid4().hex
    vault = write(tmp_path / "vault", {"a.md": f"---\nkey: {secret}\n---\n{secret} [[B]]\n\n{secret}", "b.md": secret})
    source = MarkdownSource("v", vault)
    source.restore(tmp_path / "cache")
    await source.load()
    source.save(tmp_path / "cache")

    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        assert secret.encode() not in content
        # A hash that anybody can make would tell a short note by trying.
        assert not any(
            blake2b(secret.encode(), digest_size=size).hexdigest().encode() in content for size in (8, 16, 32, 64)
        )
        if sys.platform != "win32":
            assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 1, "key": "", "notes": {"a.md": []}}', b"\xff"],
)
async def test_a_cache_that_is_none_is_left_alone(tmp_path: Path, content: bytes) -> None:
    vault = write(tmp_path / "vault", {"a.md": "[[A]]"})
    source = MarkdownSource("v", vault)
    source.restore(tmp_path / "cache")
    await source.load()
    source.save(tmp_path / "cache")
    (file,) = (tmp_path / "cache").glob("*.json")
    file.write_bytes(content)

    second = MarkdownSource("v", vault)
    second.restore(tmp_path / "cache")

    assert [document.links for document in await second.load()] == [(Link("A"),)]


async def test_a_cache_of_another_key_or_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.json"
    entry = Entry(1, (2, 3), b"d" * 16, "obsidian", Parsed(title="T", links=(Link("A", True), Link("B", tag=True))))
    write_cache(file, b"k" * 32, {"a.md": entry})

    assert read_cache(file, b"k" * 32) == {"a.md": entry}
    assert read_cache(file, b"other") == {}
    monkeypatch.setattr("memory.sources.cache.FORMAT", 0)
    assert read_cache(file, b"k" * 32) == {}


async def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, where the folder should be")
    source = MarkdownSource("v", write(tmp_path / "vault", {"a.md": ""}))

    source.restore(tmp_path / "cache")
    assert await paths(source) == ["a.md"]
    source.save(tmp_path / "cache")


async def test_two_sources_share_a_cache_folder(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", {"a.md": "[[A]]"})
    for name in ("one", "two"):
        source = MarkdownSource(name, vault)
        source.restore(tmp_path / "cache")
        await source.load()
        source.save(tmp_path / "cache")

    assert len(list((tmp_path / "cache").glob("*.json"))) == 2
