"""Sources of the user's own: how they are found, and that what is wrong with one stays its own."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.note_library import NoteLibrary, SourceState
from memory.notes import Link, MemoryDocument, MemorySource
from memory.sources import BuiltInSource, make_source
from memory.sources.own import OwnSourceError, UnusableSource, is_import_path, load_own, make_own

FINE = """
from memory.notes import MemoryDocument

class Fine:
    kind = "fine"
    made = 0

    def __init__(self, name, path):
        Fine.made += 1
        self.name, self.location = name, str(path)

    async def load(self):
        return [MemoryDocument("a.md", f"{self.name} {self.location}"), MemoryDocument("b/c.md", "x" * 50)]

class Outer:
    class Inner(Fine):
        pass

class Neither(Fine):
    name, location = "its own", "somewhere"
    def __init__(self): pass

class Any(Fine):
    def __init__(self, **given):
        super().__init__(**given)

class Broken(Fine):
    def __init__(self, name):
        raise LookupError("no such table")

class Exits(Fine):
    def __init__(self):
        raise SystemExit(3)

class Nameless:
    kind = location = "x"
    async def load(self): return []

class Loadless:
    name = kind = location = "x"

def function(name, path):
    return Fine(name, path)

number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """`module(name, text)` writes a module that can be imported; they are forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text, "utf-8")

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


async def scanned(*sources: MemorySource) -> tuple[SourceState, ...]:
    return (await NoteLibrary(sources).scan()).sources


@pytest.mark.parametrize("kind", ["own_fine:Fine", "own_fine:Outer.Inner", "own_fine:Any", "own_fine:function"])
async def test_a_class_by_its_import_path(module: Callable[[str, str], None], tmp_path: Path, kind: str) -> None:
    module("own_fine", FINE)
    source = make_source("mine", kind, tmp_path / "data", exclude=["b/*"])
    assert "own_fine" not in sys.modules, "nothing is imported before the first load"
    library = NoteLibrary([source])

    snapshot = await library.scan()
    await library.scan()

    assert [node["id"] for node in snapshot.map.nodes()] == ["mine/a.md"]
    assert sys.modules["own_fine"].Fine.made == 1
    [state] = snapshot.sources
    assert (state.name, state.kind, state.location, state.error) == ("mine", kind, str(tmp_path / "data"), None)
    [document] = await source.load()
    assert document.text == f"mine {tmp_path / 'data'}"
    assert isinstance(source, BuiltInSource)


async def test_a_class_that_takes_neither_name_nor_path(module: Callable[[str, str], None], tmp_path: Path) -> None:
    module("own_fine", FINE)
    source = make_source("mine", "own_fine:Neither", tmp_path, max_notes=1)
    seen: list[tuple[int, int]] = []
    source.on_progress = lambda done, total: seen.append((done, total))  # type: ignore[attr-defined]

    [document] = await source.load()

    assert document.text == "its own somewhere"
    assert seen == [(1, 1)]
    assert [(state.name, state.notes, state.skipped) for state in await scanned(source)] == [("mine", 1, 1)]


async def test_disabled_is_not_even_imported(module: Callable[[str, str], None], tmp_path: Path) -> None:
    module("own_exits", "raise SystemExit")

    assert [(one.enabled, one.error) for one in await scanned(make_source("m", "own_exits:X", "", enabled=False))] == [
        (False, None)
    ]
    assert "own_exits" not in sys.modules


NAMES = "a source has name, kind, location and load()"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("own_missing:X", "own_missing:X cannot be imported: No module named 'own_missing'; install it beside mitmemory, or name its folder in PYTHONPATH"),
        ("own_fine:Nothing", "own_fine:Nothing cannot be imported: AttributeError: module 'own_fine' has no attribute 'Nothing'"),
        ("own_wrong:X", "own_wrong:X cannot be imported: SyntaxError: '(' was never closed (own_wrong.py, line 1)"),
        ("own_exits:X", "own_exits:X cannot be imported: SystemExit: 4"),
        ("own_fine:number", "own_fine:number is an int, not a class"),
        ("own_fine:Broken", "own_fine:Broken cannot be made: LookupError: no such table"),
        ("own_fine:Exits", "own_fine:Exits cannot be made: SystemExit: 3"),
        ("own_fine:Nameless", f"own_fine:Nameless has no `name` that is a text; {NAMES}"),
        ("own_fine:Loadless", f"own_fine:Loadless has no `load`; {NAMES}"),
    ],
)  # fmt: skip
async def test_a_class_that_cannot_be_used(
    module: Callable[[str, str], None], tmp_path: Path, kind: str, error: str
) -> None:
    module("own_fine", FINE)
    module("own_wrong", "(")
    module("own_exits", "raise SystemExit(4)")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("")

    bad, good = await scanned(make_source("bad", kind, "x"), make_source("good", "markdown", tmp_path / "notes"))

    assert (bad.error, bad.notes) == (error, 0)
    assert (good.error, good.notes) == (None, 1)


async def test_a_module_that_is_installed_meanwhile_is_found(module: Callable[[str, str], None]) -> None:
    library = NoteLibrary([make_source("mine", "own_late:Fine", "x")])
    assert (await library.scan()).sources[0].error is not None

    module("own_late", FINE)

    assert (await library.scan()).sources[0].error is None


async def test_an_entry_point(module: Callable[[str, str], None], tmp_path: Path) -> None:
    module("own_fine", FINE)
    info = tmp_path / "own_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mitmemory.sources]\nfine-facts = own_fine:Fine\n")

    source = make_source("mine", "fine-facts", "x")

    assert [(one.kind, one.notes) for one in await scanned(source)] == [("fine-facts", 2)]
    with pytest.raises(
        ValueError, match=r"there is: markdown, claude_code, knowledge_graph, conversations, fine-facts$"
    ):
        make_source("mine", "fine", "x")
    (info / "entry_points.txt").unlink()
    [gone] = await scanned(make_own(source))
    assert gone.notes == 2, "what is in use stays"


async def test_an_entry_point_that_is_gone(tmp_path: Path) -> None:
    from memory.sources.limits import Limits
    from memory.sources.own import OwnSource

    [state] = await scanned(OwnSource("mine", "fine-facts", "x", limits=Limits()))

    assert state.error == "no installed package has a source 'fine-facts' (entry points 'mitmemory.sources')"


def test_import_paths() -> None:
    right = ["a:B", "a.b.c:D", "a:B.C", "_a1:_B", "straße:Ä"]
    wrong = ["a", "a:", ":B", "a.:B", ".a:B", "a:B:C", "a b:C", "1a:B", "a/b:C", "a:B-c", "a:B\n", ""]
    assert [path for path in (*right, *wrong) if is_import_path(path)] == right


@pytest.mark.parametrize(
    ("kind", "path", "extensions", "message"),
    [
        ("a:B", None, (), "a source of type a:B needs a path"),
        ("knowledge_graph", None, (), "a source of type knowledge_graph needs a path"),
        ("claude_code", None, (".txt",), "a source of type claude_code has no extensions"),
        ("a:B", "x", (".txt",), "a source of type a:B has no extensions"),
    ],
)
def test_what_no_source_can_be_made_of(kind: str, path: str | None, extensions: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make_source("mine", kind, path, extensions=extensions)
    assert str(raised.value) == message
    with pytest.raises(ValueError, match="'!'"):
        make_source("mine", kind, "x", exclude=["!"])


# --- what load gives --------------------------------------------------------------------------------------------------


class Shelf:
    kind = location = "shelf"
    name = "shelf"

    def __init__(self, given: Any = ()) -> None:
        self.given = given

    async def load(self) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, "load() gave nothing, not a list of MemoryDocuments"),
        (7, "load() gave an int, not a list of MemoryDocuments"),
        ("text", "load() gave a str, not a list of MemoryDocuments"),
        ({"a": 1}, "load() gave a dict, not a list of MemoryDocuments"),
        ([("a.md", "text")], "load() gave something that is no MemoryDocument with a text"),
        ([MemoryDocument("a.md", b"")], "load() gave something that is no MemoryDocument with a text"),
        ([MemoryDocument("", "")], "load() gave a document whose path is empty, not a name"),
        ([MemoryDocument(Path("a.md"), "")], "load() gave a document whose path is a PosixPath, not a name"),
        ([MemoryDocument("a.md", "", title=1)], "load() gave 'a.md' with a title that is an int, not a text"),
        ([MemoryDocument("a.md", "", share="no")], "load() gave 'a.md' with a share that is none of never, local, ask"),
        ([MemoryDocument("a.md", "", size="1")], "load() gave 'a.md' with a size that is a str, not a number of bytes"),
        ([MemoryDocument("a.md", "", tags="one")], "load() gave 'a.md' with tags that are a str, not a tuple of texts"),
        ([MemoryDocument("a.md", "", aliases=None)], "load() gave 'a.md' with aliases that are nothing, not a tuple of texts"),
        ([MemoryDocument("a.md", "", links=(7,))], "load() gave 'a.md' with an int among its links, where texts belong"),
        ([MemoryDocument("a.md", "", aliases=(None,))], "load() gave 'a.md' with nothing among its aliases, where texts belong"),
    ],
)  # fmt: skip
async def test_what_is_no_document(given: Any, error: str) -> None:
    bad, good = await scanned(Shelf(given), make_own(OneNote))

    assert (bad.error, bad.notes) == (error.replace("PosixPath", type(Path()).__name__), 0)
    assert good.notes == 1


class OneNote(Shelf):
    name = "one"

    def __init__(self) -> None:
        super().__init__([MemoryDocument("a.md", "x")])


async def test_lists_are_as_good_as_tuples() -> None:
    given = [MemoryDocument("a.md", "x", aliases=["A"], tags={"t", "s"}, links=["b", Link("c")])]  # type: ignore[arg-type]

    assert await load_own(Shelf(given)) == [MemoryDocument("a.md", "x", None, ("A",), ("s", "t"), ("b", Link("c")))]


async def test_a_generator_is_read_beside_the_loop() -> None:
    threads = set()

    def documents() -> Iterator[MemoryDocument]:
        threads.add(threading.current_thread())
        yield MemoryDocument("a.md", "x")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await load_own(Shelf(documents()))
    assert threading.main_thread() not in threads


async def test_a_load_that_is_not_async() -> None:
    class Plain(Shelf):
        def load(self) -> Any:  # type: ignore[override]
            return []

    class Generator(Shelf):
        async def load(self) -> Any:
            yield MemoryDocument("a.md", "x")

    for source in (Plain(), Generator()):
        with pytest.raises(OwnSourceError) as raised:
            await load_own(source)
        assert str(raised.value) == "load() must be an `async def` that returns its documents"


async def test_a_load_that_ends_the_program() -> None:
    class Exits(Shelf):
        async def load(self) -> Any:
            sys.exit("bye")

    assert [state.error for state in await scanned(Exits())] == ["load() ended with SystemExit: bye"]


# --- handed over in code ----------------------------------------------------------------------------------------------


def test_an_instance_is_used_as_it_is() -> None:
    shelf = Shelf()

    assert make_own(shelf) is shelf
    assert isinstance(make_own(OneNote), OneNote)


@pytest.mark.parametrize(
    ("given", "name", "error"),
    [
        (7, "int", f"int has no `name` that is a text; {NAMES}"),
        (object, "object", f"object has no `name` that is a text; {NAMES}"),
        (type("Half", (), {"name": "half", "kind": "k", "location": None}), "half", f"Half has no `location` that is a text; {NAMES}"),
        (type("Needs", (), {"__init__": lambda self, table: None}), "Needs", "Needs cannot be made: TypeError: <lambda>() missing 1 required positional argument: 'table'"),
    ],
)  # fmt: skip
async def test_what_is_no_source_says_so_where_sources_are_seen(given: Any, name: str, error: str) -> None:
    made = make_own(given)

    assert isinstance(made, UnusableSource)
    assert [(state.name, state.error) for state in await scanned(made)] == [(name, error)]
