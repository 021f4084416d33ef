"""Claude Code's memory: what is opened and what is not, what the notes are called, which links stay in a project."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.note_library import NoteLibrary
from memory.notes import MemoryDocument, SourceWarning
from memory.sources import BuiltInSource, make_source
from memory.sources.claude_code import ClaudeCodeSource, project_tails
from memory.sources.limits import Limits

posix = pytest.mark.skipif(sys.platform == "win32", reason="symlinks need a privilege on Windows; it has no pipes")

ATLAS = "projects/-home-ada-code-star-atlas/memory"
KILN = "projects/-home-ada-kiln/memory"
TOPIC = "---\nname: lens-grinding\ndescription: how the lens is ground\n---\nSee [[kiln-log]] and [[Orbits]].\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder at a path that the projects' names do not begin with."""
    return write(
        tmp_path / ".claude",
        {
            "CLAUDE.md": "Always answer with a star chart.\n",
            "CLAUDE.local.md": "---\nname: Only here\n---\n",
            f"{ATLAS}/MEMORY.md": "- [Lens](lens.md): grinding\n- [Orbits](orbits.md)\n- [Gone](gone.md)\n",
            f"{ATLAS}/lens.md": TOPIC,
            f"{ATLAS}/orbits.md": "---\ntitle: All orbits\ntags: [sky]\n---\nBack to [user](../../../CLAUDE.md).\n",
            f"{KILN}/MEMORY.md": "- [Lens](lens.md)\n- [Log](kiln-log.md)\n",
            f"{KILN}/kiln-log.md": "The kiln cracked in March.\n",
        },
    )


async def documents(source: ClaudeCodeSource) -> dict[str, MemoryDocument]:
    return {document.path: document for document in await source.load()}


async def test_titles(home: Path) -> None:
    source = ClaudeCodeSource("claude", home)

    found = await documents(source)

    assert {path: document.title for path, document in found.items()} == {
        "CLAUDE.md": None,
        "CLAUDE.local.md": "Only here",
        f"{ATLAS}/MEMORY.md": "code-star-atlas · MEMORY",
        f"{ATLAS}/lens.md": "lens-grinding",
        f"{ATLAS}/orbits.md": "All orbits",
        f"{KILN}/MEMORY.md": "home-ada-kiln · MEMORY",
        f"{KILN}/kiln-log.md": "home-ada-kiln · kiln-log",
    }
    assert list(found) == [
        *("CLAUDE.md", "CLAUDE.local.md", f"{ATLAS}/MEMORY.md", f"{ATLAS}/lens.md", f"{ATLAS}/orbits.md"),
        *(f"{KILN}/MEMORY.md", f"{KILN}/kiln-log.md"),
    ]
    assert found[f"{ATLAS}/orbits.md"].tags == ("sky",)
    assert found[f"{ATLAS}/lens.md"].size == len(TOPIC)
    assert source.report.warnings == []
    assert isinstance(source, BuiltInSource)
    assert (source.name, source.kind, source.location) == ("claude", "claude_code", str(home))


async def test_links_stay_within_a_project(home: Path) -> None:
    snapshot = await NoteLibrary([make_source("claude", "claude_code", home)]).scan()

    links = {(start.removeprefix("claude/"), end.removeprefix("claude/")) for start, end in snapshot.map.links()}
    assert links == {
        (f"{ATLAS}/MEMORY.md", f"{ATLAS}/lens.md"),
        (f"{ATLAS}/MEMORY.md", f"{ATLAS}/orbits.md"),
        (f"{ATLAS}/lens.md", f"{ATLAS}/orbits.md"),
        (f"{ATLAS}/orbits.md", "CLAUDE.md"),
        (f"{KILN}/MEMORY.md", f"{KILN}/kiln-log.md"),
    }
    unresolved = {node["path"]: node["unresolved"] for node in snapshot.map.nodes() if node["unresolved"]}
    assert unresolved == {f"{ATLAS}/MEMORY.md": 1, f"{ATLAS}/lens.md": 1, f"{KILN}/MEMORY.md": 1}
    [user] = [node for node in snapshot.map.nodes() if node["path"] == "CLAUDE.md"]
    assert (user["title"], user["folder"]) == ("CLAUDE", "claude")


async def test_a_link_by_the_name_in_the_frontmatter(tmp_path: Path) -> None:
    write(tmp_path, {f"{KILN}/a.md": "[[Lens-Grinding]] [x](./B.MD)", f"{KILN}/b.md": TOPIC})

    found = await documents(ClaudeCodeSource("claude", tmp_path))

    assert [link.target for link in found[f"{KILN}/a.md"].links] == [f"/{KILN}/b.md", f"/{KILN}/b.md"]


@pytest.mark.parametrize(
    ("projects", "home", "tails"),
    [
        (["-home-ada-code-star-atlas"], "/home/ada", ["code-star-atlas"]),
        (["-home-ada-kiln"], "/home/ada", ["kiln"]),
        (["-home-ada"], "/home/ada", ["home-ada"]),
        (["-home-ada-work-client-one-big-site"], "/home/ada", ["one-big-site"]),
        (["-home-adam-x"], "/home/ada", ["home-adam-x"]),
        (["-srv-a-one-big-site", "-srv-b-one-big-site"], "/home/ben", ["a-one-big-site", "b-one-big-site"]),
        (["-x-y", "-x--y"], "/home/ben", ["x-y", "x-y"]),
        (["-home-ada-kiln--claude-worktrees-glaze"], "/home/ada", ["claude-worktrees-glaze"]),
        (["C--Users-ada-kiln"], "C:\\Users\\ada", ["kiln"]),
        (["---"], "/home/ada", ["---"]),
        ([], "/home/ada", []),
    ],
)
def test_a_readable_tail(projects: list[str], home: str, tails: list[str]) -> None:
    assert list(project_tails(projects, home).values()) == tails


def test_a_thousand_projects_with_the_same_last_words_take_no_time() -> None:
    projects = [f"-srv-{'-'.join('ab'[bit == '1'] for bit in f'{number:010b}')}-one-big-site" for number in range(1000)]

    assert len(set(project_tails(projects, "/home/ben").values())) == 1000


TRIPWIRE = """
import asyncio, json, os, sys
from memory.note_library import NoteLibrary
from memory.sources import make_source

folder, touched = sys.argv[1], []

def hook(event, arguments):
    if event in {"open", "os.listdir", "os.scandir"}:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes, os.PathLike)) else ""
        if path.startswith(folder):
            touched.append([event, path[len(folder) + 1:]])

sys.addaudithook(hook)
library = NoteLibrary([make_source("claude", "claude_code", folder)])
asyncio.run(library.scan())
print(json.dumps(touched))
"""


@posix
def test_nothing_else_is_opened(home: Path) -> None:
    """Everything else is a pipe: whoever opened one would wait for ever. And the interpreter tells what was opened."""
    others = [
        *("settings.json", ".credentials.json", "history.jsonl", "README.md", "agents/reviewer.md", "commands/go.md"),
        *("projects/stray.md", f"{ATLAS}/../3f2a.jsonl", f"{ATLAS}/../notes.md", f"{ATLAS}/deeper/x.md"),
        *(f"{ATLAS}/data.json", f"{ATLAS}/pipe.md", "memory/x.md", "plans/CLAUDE.md"),
    ]
    for other in others:
        (home / other).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / other)

    ran = subprocess.run(
        [sys.executable, "-c", TRIPWIRE, str(home)], capture_output=True, text=True, timeout=120, check=True
    )

    touched = json.loads(ran.stdout)
    opened = sorted(path for event, path in touched if event == "open")
    assert opened == sorted(
        [
            *("CLAUDE.md", "CLAUDE.local.md", f"{ATLAS}/MEMORY.md", f"{ATLAS}/lens.md", f"{ATLAS}/orbits.md"),
            *(f"{KILN}/MEMORY.md", f"{KILN}/kiln-log.md"),
        ]
    )
    listed = {path for event, path in touched if event != "open"}
    no_folder = "projects/stray.md/memory"  # as it turns out when it is to be listed
    assert listed == {"projects", ATLAS, KILN, no_folder}


@posix
async def test_symlinks(home: Path, tmp_path: Path) -> None:
    write(
        tmp_path, {"dotfiles/CLAUDE.md": "Kept elsewhere.", "dotfiles/memory/far.md": "", ".claude/settings.json": "{}"}
    )
    (home / "CLAUDE.md").unlink()
    (home / "CLAUDE.md").symlink_to(tmp_path / "dotfiles" / "CLAUDE.md")
    (home / "projects" / "-srv-far").mkdir()
    (home / "projects" / "-srv-far" / "memory").symlink_to(tmp_path / "dotfiles" / "memory")
    (home / ATLAS / "again.md").symlink_to("lens.md")
    (home / ATLAS / "z-settings.md").symlink_to(home / "settings.json")
    (home / ATLAS / "loop.md").symlink_to("loop.md")
    (home / ATLAS / "broken.md").symlink_to("nowhere.md")
    source = ClaudeCodeSource("claude", home)

    found = await documents(source)

    assert found["CLAUDE.md"].text == "Kept elsewhere."
    assert "projects/-srv-far/memory/far.md" in found
    assert [path for path in found if path.startswith(ATLAS)] == [
        f"{ATLAS}/MEMORY.md",
        f"{ATLAS}/again.md",
        f"{ATLAS}/orbits.md",
    ]
    assert [(warning.path, warning.reason) for warning in source.report.warnings] == [
        (f"{ATLAS}/loop.md", "cannot be read: Too many levels of symbolic links"),
        (f"{ATLAS}/z-settings.md", "a link to a file that is no memory; not opened"),
    ]


async def test_limits(home: Path) -> None:
    some = ClaudeCodeSource("claude", home, limits=Limits(["projects/-home-ada-code-*/"], max_notes=3))
    small = ClaudeCodeSource("claude", home, limits=Limits(max_note_bytes=30))

    assert list(await documents(some)) == ["CLAUDE.md", "CLAUDE.local.md", f"{KILN}/MEMORY.md"]
    assert some.report.skipped == 1
    assert list(await documents(small)) == ["CLAUDE.local.md", f"{KILN}/kiln-log.md"]
    assert small.report.skipped == 5


async def test_what_is_wrong_with_one_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ATLAS / "lens.md").write_bytes(b"---\nname: [\n---\n\xff")
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "orbits.md":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    source = ClaudeCodeSource("claude", home)

    found = await documents(source)

    assert found[f"{ATLAS}/lens.md"].title == "code-star-atlas · lens"
    assert source.report.warnings == [
        SourceWarning(
            f"{ATLAS}/lens.md",
            "not valid UTF-8; what cannot be read is replaced; "
            "the frontmatter is not valid YAML (line 3); read without it",
        ),
        SourceWarning(f"{ATLAS}/orbits.md", "cannot be read: Permission denied"),
    ]


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    file = write(tmp_path, {"file": ""}) / "file"

    for path, message in ((tmp_path / "no", "does not exist"), (file, "is not a folder")):
        source = ClaudeCodeSource("claude", path)
        for ask in (source.load, source.stamp):
            with pytest.raises(OSError) as raised:
                await ask()
            assert str(raised.value) == f"{path} {message}"
    empty = ClaudeCodeSource("claude", tmp_path)
    assert (await empty.load(), empty.report.warnings) == ([], [])


async def test_the_default_place(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("USERPROFILE", str(home.parent))

    source = make_source("claude", "claude_code")

    assert source.location == str(home)


async def test_only_what_changed_is_parsed_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory.markdown import parse

    read: list[str] = []
    monkeypatch.setattr("memory.sources.claude_code.parse", lambda text: read.append(text) or parse(text))
    source = ClaudeCodeSource("claude", home)
    first, stamp = await source.load(), await source.stamp()
    read.clear()
    assert await source.stamp() == stamp

    (home / KILN / "kiln-log.md").write_text("The kiln is whole again.\n")

    assert await source.stamp() != stamp
    second = await source.load()
    assert read == ["The kiln is whole again.\n"]
    assert [document.title for document in second] == [document.title for document in first]


@settings(deadline=None, max_examples=50)  # threads and files, on a machine that may be busy
@given(content=st.binary(max_size=200), name=st.binary(max_size=40))
async def test_no_bytes_make_the_source_raise(content: bytes, name: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {f"{KILN}/MEMORY.md": "[a](a.md)"})
        (Path(folder) / KILN / "a.md").write_bytes(b"---\nname: " + name + b"\n---\n" + content)
        source = ClaudeCodeSource("claude", folder)

        assert len(await source.load()) == 2
        assert len(source.report.warnings) <= 1
