"""docs/api.md says of every address what it is for, and its examples run."""

import asyncio
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.memory.exchanges import released
from tests.web.remembering import KEY, remembering
from web.app import LARGEST_BODY, create_app
from web.errors import CODES
from web.events import MOST_READERS, PING_INTERVAL
from web.layout_api import LARGEST_LAYOUT

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
SECTION = re.compile(r"^### ([A-Z]+) (\S+)\n\nWho: (read|admin|client)\. (.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
EXAMPLES = re.findall(r"^curl .*$", TEXT, re.MULTILINE)
DOCUMENTED = {(method, path): (who, text) for method, path, who, text in SECTION.findall(TEXT)}


async def test_every_address_is_documented_and_nothing_else(dashboard: Any) -> None:
    router = create_app(dashboard.services).router
    there = {(route.method, route.resource.canonical) for route in router.routes() if route.resource}
    assert {one for one in there if one[0] != "HEAD"} == set(DOCUMENTED)
    gets = {("HEAD", path) for (method, path), (who, _) in DOCUMENTED.items() if method == "GET" and who != "client"}
    assert there - set(DOCUMENTED) == gets


async def test_who_may_ask_is_as_documented(dashboard: Any) -> None:
    for (method, path), (who, _) in DOCUMENTED.items():
        place = path.replace("{", "").replace("}", "")  # braces are no part of any name
        async with dashboard.ask(method, place, token="read-only-token-of-the-tests") as answer:
            assert (answer.status == 403) is (who == "admin"), path
            assert (answer.status == 401) is (who == "client"), path


def test_every_endpoint_has_an_example() -> None:
    for (method, path), (_, text) in DOCUMENTED.items():
        if path.startswith("/api/"):
            [example] = re.findall(r"^curl .*$", text, re.MULTILINE)
            assert f"$URL{path}" in example
            assert (" -X POST " in example) is (method == "POST")


def test_the_error_codes_that_are_documented_are_those_that_are_used() -> None:
    source = "".join(path.read_text("utf-8") for path in Path(create_app.__code__.co_filename).parent.glob("*.py"))
    used = set(re.findall(r"Refusal\(\s*\d{3},\s*\"(\w+)\"", source))
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| \d{3} \| ([^|]*) \|", TEXT, re.MULTILINE))))
    assert used <= documented
    assert documented <= used | set(CODES.values())


def test_the_numbers_are_the_codes_own() -> None:
    assert LARGEST_BODY == 2**20
    assert f"a layout: {LARGEST_LAYOUT // 2**20} MiB" in TEXT
    assert f"{MOST_READERS} event streams" in TEXT
    assert f"every {PING_INTERVAL:.0f} s" in TEXT


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("example", EXAMPLES)
async def test_the_examples_run(open_dashboard: Any, tmp_path: Path, example: str) -> None:
    """`{client}` is `client` to curl."""
    async with remembering(tmp_path) as kept, open_dashboard(conversations=kept) as dashboard:
        session = kept.say("client", KEY).session
        for name, there in (("{session}", session), ("{n}", "1"), ("{m}", "1")):
            example = example.replace(name, there)
        dashboard.services.held.begin(released("activityId", sent_to=[]), 60)
        await runs(dashboard, example)


async def runs(dashboard: Any, example: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        example.replace("curl ", "exec curl --fail --noproxy '*' ", 1),
        env={"URL": dashboard.origin, "TOKEN": "admin-token-of-the-tests", "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    output = await process.stdout.read(1)
    if " -N " in example:
        process.terminate()
    await process.communicate()
    assert process.returncode == (-signal.SIGTERM if " -N " in example else 0)
    assert output
