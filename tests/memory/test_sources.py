import os
import socket
import sys
import tempfile
import threading
import time
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.markdown import Parsed
from memory.notes import Link, MemorySource, SourceWarning
from memory.sources import KINDS, BuiltInSource, IncrementalSource, make_source
from memory.sources.cache import Entry, read_cache, write_cache
from memory.sources.markdown import MarkdownSource
from memory.sources.walk import Walk

symlinks = pytest.mark.skipif(sys.platform == "win32", reason="symlinks need a privilege on Windows")


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def trusted_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of files tell everything, however short ago they changed."""
    monkeypatch.setattr("memory.sources.markdown.SETTLED_AFTER", -(10**18))


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


async def test_documents(tmp_path: Path) -> None:
    text = "---\ntitle: Alpha\naliases: [First]\n---\n[[B]] ![[c.png]] #tag\n"
    source = MarkdownSource("vault", write(tmp_path, {"deep/A.md": text, "B.MD": "ü"}))

    b, a = await source.load()

    assert (a.path, a.text, a.title, a.aliases, a.tags) == ("deep/A.md", text, "Alpha", ("First",), ("tag",))
    assert a.links == (Link("B"), Link("c.png", embed=True))
    assert a.size == len(text)
    assert (b.path, b.text, b.title, b.size) == ("B.MD", "ü", None, 2)
    assert source.report.warnings == []
    assert source.report.skipped == 0
    assert (source.name, source.kind, source.location) == ("vault", "markdown", str(tmp_path))
    assert isinstance(source, MemorySource)
    assert isinstance(source, BuiltInSource)
    assert isinstance(source, IncrementalSource)


async def test_what_is_left_out(tmp_path: Path) -> None:
    files = ["a.md", "b.txt", "c.markdown", ".obsidian/x.md", "deep/.git/x.md", "Templates/x.md", "Templates/in/x.md"]
    files += ["deep/Templates/y.md", "drafts/z.md", "deep/drafts/z.md", "deep/z.tmp.md"]
    write(tmp_path, dict.fromkeys(files, ""))

    everything = await paths(MarkdownSource("v", tmp_path))
    chosen = await paths(MarkdownSource("v", tmp_path, exclude=["Templates/*", "drafts/", "*.tmp.md"]))
    with_text = await paths(MarkdownSource("v", tmp_path, extensions=[".md", "TXT"], exclude=["*/**"]))

    assert everything == [
        *("Templates/in/x.md", "Templates/x.md", "a.md", "deep/Templates/y.md", "deep/drafts/z.md", "deep/z.tmp.md"),
        "drafts/z.md",
    ]
    assert chosen == ["a.md", "deep/Templates/y.md"]
    assert with_text == ["a.md", "b.txt"]


async def test_limits_count_what_they_leave_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "12345", "b.md": "123456", "c.md": "", "d.md": ""})
    source = MarkdownSource("v", tmp_path, max_notes=2, max_note_bytes=5)

    assert await paths(source) == ["a.md", "c.md"]
    assert source.report.skipped == 2
    assert source.report.warnings == []


async def test_encodings(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "bad.md": b"---\ntitle: T\n---\n\xff\xfe one [[A]]",
            "bom.md": "\ufeff# [[A]]",
            "cut16.md": b"\xff\xfea",
            "nul.md": b"\0[[A]]",
            "utf16.md": "[[Ä]]".encode("utf-16"),
        },
    )
    source = MarkdownSource("v", tmp_path)

    documents = {document.path: document for document in await source.load()}

    assert documents["bad.md"].text == "---\ntitle: T\n---\n\ufffd\ufffd one [[A]]"
    assert documents["bad.md"].title == "T"
    assert documents["bom.md"].text == "# [[A]]"
    assert documents["utf16.md"].links == (Link("Ä"),)
    assert documents["nul.md"].links == (Link("A"),)
    reason = "not valid UTF-8; what cannot be read is replaced"
    assert source.report.warnings == [
        SourceWarning("bad.md", reason),
        SourceWarning("cut16.md", reason.replace("8", "16")),
    ]


async def test_everything_wrong_with_a_file_is_one_warning(tmp_path: Path) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": b"---\ntitle: [\n---\n\xff [[A]]", "b.md": ""}))

    assert await paths(source) == ["a.md", "b.md"]
    assert source.report.warnings == [
        SourceWarning(
            "a.md",
            "not valid UTF-8; what cannot be read is replaced; "
            "the frontmatter is not valid YAML (line 3); read without it",
        )
    ]


async def test_a_parser_that_fails_costs_one_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recursive(text: str, dialect: object) -> None:
        raise RecursionError

    monkeypatch.setattr("memory.sources.markdown.parse", recursive)
    source = MarkdownSource("v", write(tmp_path, {"a.md": ""}))

    assert await paths(source) == []
    assert source.report.warnings == [SourceWarning("a.md", "cannot be parsed (RecursionError)")]


async def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, {"file.md": ""})
    missing, file = tmp_path / "missing", tmp_path / "file.md"

    for ask in (MarkdownSource("v", missing).load, MarkdownSource("v", missing).stamp):
        with pytest.raises(FileNotFoundError) as raised:
            await ask()
        assert str(raised.value) == f"{missing} does not exist"
    with pytest.raises(NotADirectoryError) as not_a_folder:
        await MarkdownSource("v", file).load()
    assert str(not_a_folder.value) == f"{file} is not a folder"


async def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.md": "", "deep/b.md": ""})
    real, closed = os.scandir, {str(tmp_path / "deep")}

    def scandir(path: object) -> object:
        if str(path) in closed:
            raise PermissionError(13, "Permission denied")
        return real(str(path))

    monkeypatch.setattr("memory.sources.walk.os.scandir", scandir)
    source = MarkdownSource("v", tmp_path)

    assert await paths(source) == ["a.md"]
    assert source.report.warnings == [SourceWarning("deep", "cannot be read: Permission denied")]
    closed.add(str(tmp_path))
    with pytest.raises(PermissionError) as raised:
        await source.load()
    assert str(raised.value) == f"{tmp_path} cannot be read: permission denied"


@symlinks
async def test_symlinks(tmp_path: Path) -> None:
    vault = write(tmp_path / "vault", {"zeta/note.md": "one", "other.md": "two"})
    outside = write(tmp_path / "outside", {"out.md": "three", "more/x.md": "four"})
    (vault / "again").symlink_to(vault / "zeta")
    (vault / "loop").symlink_to(vault)
    (vault / "zeta" / "up").symlink_to("..")
    (vault / "self.md").symlink_to("self.md")
    (vault / "gone.md").symlink_to("nowhere.md")
    (vault / "copy.md").symlink_to("other.md")
    (vault / "outside").symlink_to(outside)
    (outside / "back").symlink_to(vault)
    source = MarkdownSource("v", vault)

    assert await paths(source) == ["other.md", "outside/more/x.md", "outside/out.md", "zeta/note.md"]
    assert {warning.path for warning in source.report.warnings} == {"self.md", "gone.md"}
    assert all(warning.reason.startswith("cannot be read: ") for warning in source.report.warnings)


@symlinks
async def test_the_folder_itself_may_be_a_symlink(tmp_path: Path) -> None:
    write(tmp_path / "real", {"a.md": ""})
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert await paths(MarkdownSource("v", tmp_path / "link")) == ["a.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such files on Windows")
async def test_pipes_and_sockets_are_no_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has a short limit
    os.mkfifo("pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        assert await paths(MarkdownSource("v", tmp_path)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are Unicode")
async def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"n\xff.md")).write_bytes(b"text")
    source = MarkdownSource("v", tmp_path)

    (document,) = await source.load()

    assert document.path == "n\ufffd.md"
    assert document.text == "text"


async def test_stamp(tmp_path: Path) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": "one", "b.txt": ""}))
    stamps = [await source.stamp()]
    assert await source.stamp() == stamps[0]
    write(tmp_path, {"b.txt": "no note"})
    assert await source.stamp() == stamps[0]

    write(tmp_path, {"a.md": "two"})
    os.utime(tmp_path / "a.md", ns=(1, 1))
    stamps.append(await source.stamp())
    write(tmp_path, {"b.md": ""})
    stamps.append(await source.stamp())
    (tmp_path / "a.md").unlink()
    stamps.append(await source.stamp())

    assert len(set(stamps)) == 4


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


async def test_progress_and_its_thread(tmp_path: Path) -> None:
    source = MarkdownSource("v", write(tmp_path, {"a.md": "", "b.md": ""}))
    seen: list[tuple[int, int]] = []
    threads: set[threading.Thread] = set()

    def on_progress(done: int, total: int) -> None:
        seen.append((done, total))
        threads.add(threading.current_thread())

    source.on_progress = on_progress
    await source.load()

    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert threading.main_thread() not in threads


def test_make_source(tmp_path: Path) -> None:
    source = make_source("notes", "markdown", tmp_path, enabled=False)

    assert isinstance(source, MarkdownSource)
    assert (source.name, source.enabled) == ("notes", False)
    assert KINDS == ("markdown", "claude_code", "knowledge_graph", "conversations")
    with pytest.raises(ValueError) as raised:
        make_source("graph", "graph", tmp_path)
    assert str(raised.value) == (
        "'graph' is no kind of source; there is: markdown, claude_code, knowledge_graph, conversations"
    )
    with pytest.raises(ValueError, match="'!'"):
        make_source("notes", "markdown", tmp_path, exclude=["!"])


PIECES = st.sampled_from(
    (
        *(
            b"---\n",
            b"---",
            b"\n",
            b"\r\n",
            b"[[",
            b"]]",
            b"#",
            b"`",
            b"```\n",
            b"<!--",
            b"$$",
            b"title: ",
            b"{{date}}",
        ),
        *(
            b"\xef\xbb\xbf",
            b"\xff\xfe",
            b"\xed\xa0\x80",
            b"\0",
            b"&a ",
            b"*a",
            b"|",
            b"- ",
            b"> ",
            b"\xe2\x80\xa8",
            b": ",
        ),
    )
)


@given(content=st.binary() | st.lists(PIECES, max_size=40).map(b"".join))
async def test_no_bytes_make_the_source_raise(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = MarkdownSource("v", write(Path(folder), {"a.md": content}))

        (document,) = await source.load()

        assert document.size == len(content)
        assert len(source.report.warnings) <= 1
