"""A folder of Markdown as a source: what is read, what is left out, and how a source is made."""

import os
import socket
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.notes import Link, MemorySource, SourceWarning
from memory.sources import KINDS, BuiltInSource, IncrementalSource, make_source
from memory.sources.markdown import MarkdownSource
from tests.memory.source_files import paths, write

symlinks = pytest.mark.skipif(sys.platform == "win32", reason="symlinks need a privilege on Windows")


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
