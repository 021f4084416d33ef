"""Pages and files: the right types, kept by browsers but asked for again, and nothing from outside the folder."""

import re
from pathlib import Path
from typing import Any

import pytest

from web.pages import STATIC, file_below


@pytest.mark.parametrize("path", ["/", "/live"])
async def test_a_page_is_sent(dashboard: Any, path: str) -> None:
    async with dashboard.ask("GET", path, token="read-only-token-of-the-tests") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert answer.headers["Cache-Control"] == "no-cache"
        tag = answer.headers["ETag"]
    async with dashboard.ask("GET", path, headers={"If-None-Match": tag}) as answer:
        assert answer.status == 304


@pytest.mark.parametrize(
    ("path", "command"), [("/", "map"), ("/conversations", "recall"), ("/setup", "doctor"), ("/live", "link")]
)
async def test_commands_are_named_as_they_are_typed(open_dashboard: Any, path: str, command: str) -> None:
    async with open_dashboard(typed=lambda name: f"/opt/<m> {name} --config 'my notes.yaml'") as dashboard:
        token = None if command == "link" else "read-only-token-of-the-tests"
        async with dashboard.ask("GET", path, token=token, headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
        async with dashboard.ask("GET", "/api/status", token=None) as answer:
            message = (await answer.json())["error"]["message"]
    assert re.findall(r"<code>(/opt.*?)</code>", text) == [
        f"/opt/&lt;m&gt; {command} --config &#x27;my notes.yaml&#x27;"
    ]
    assert "<code>mitmemory" not in text
    assert message.endswith("open a link: `/opt/<m> link --config 'my notes.yaml'` prints one")


async def test_each_file_of_the_pages_has_a_type_that_browsers_take(dashboard: Any) -> None:
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    for file in STATIC.rglob("*"):
        if file.suffix in types:
            async with dashboard.ask("GET", f"/static/{file.relative_to(STATIC).as_posix()}") as answer:
                assert (answer.status, answer.content_type) == (200, types[file.suffix]), file.name


@pytest.mark.parametrize("page", sorted(STATIC.glob("*.html")), ids=lambda page: page.name)
def test_what_a_page_loads_early_is_what_its_modules_import(page: Path) -> None:
    text = page.read_text("utf-8")
    used: set[Path] = set()
    waiting = [STATIC.parent / script for script in re.findall(r'<script type="module" src="([^"]+)"', text)]
    while waiting:
        used.add(module := waiting.pop())
        imported = {
            module.parent / name
            for name in re.findall(r'^import .* from "(\.[^"]+)"', module.read_text("utf-8"), re.MULTILINE)
        }
        waiting += {one.resolve() for one in imported} - used
    early = {(STATIC.parent / one).resolve() for one in re.findall(r'<link rel="modulepreload" href="([^"]+)"', text)}
    assert len(used) > 5
    assert early <= used


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = (tmp_path / "static").resolve()
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "map.js").write_text("")
    (folder / "again.js").symlink_to(folder / "parts" / "map.js")
    (folder / "out.js").symlink_to(tmp_path / "secret.js")
    (folder / "round").symlink_to(folder / "round")
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "secret.js").write_text("")
    (tmp_path / "static-old").mkdir()
    (tmp_path / "static-old" / "x.js").write_text("")
    return folder


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("parts/map.js", "parts/map.js"),
        ("parts/../parts/map.js", "parts/map.js"),
        ("again.js", "parts/map.js"),
        ("parts", None),
        ("", None),
        ("missing.js", None),
        ("parts/map.js/x", None),
        ("out.js", None),
        ("round", None),
        ("up/secret.js", None),
        ("../secret.js", None),
        ("../static-old/x.js", None),
        ("/etc/passwd", None),
        ("//host/share/x.js", None),
        ("\\\\host\\share\\x.js", None),
        ("C:/x.js", None),
        ("x\0.js", None),
        ("x" * 5000, None),
        ("\udcff", None),
    ],
)
def test_only_files_below_the_folder_are_found(folder: Path, path: str, found: str | None) -> None:
    assert file_below(folder, path) == (folder / found if found else None)
