"""A line of a note goes through everything, and is said nowhere: no answer, event, log or state file holds it.

The addresses are those of the application itself: one that is added later is asked as well. Only the client and the model
may see the line, and the inspector, whose business it is to show whole requests; it has a token of its own.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import threading
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addons.demo.authority import AuthorityPaths
from memory.activity import Activity
from memory.exposure import Exposure
from memory.note_library import NoteLibrary
from tests.addons.conftest import configuration
from tests.harness import RawRequest, RawUpstream, SuiteProcess
from web.access import Access, Tokens
from web.app import Services, create_app
from web.events import EventHub

LINE = "Zanzibar canaries whistle quarterly under the velvet observatory."
QUOTED = "velvet observatory"
"""Two words of the line, which stand together nowhere else."""
NOTES = {
    "Birds/Canary.md": f"---\ntags: [birds]\n---\n# Canary\n\n{LINE}\n\nSee [[Cage]].\n",
    "Cage.md": f"The willow cage stands beside the northern window.\n> {LINE}\n",
    "Kept.md": "Nobody outside may read what the keeper wrote down here.\n",
}
RULES = [
    {"name": "kept", "when": {"note": "vault/Kept.md", "to": "cloud"}, "then": "block"},
]
URL = "https://api.anthropic.com/v1/messages"


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes") / "vault"
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    (folder / "Broken.md").write_bytes(b"---\ntags: [\n---\n" + LINE.encode() + b"\xff\n")
    return folder


async def echo(request: RawRequest, writer: Any) -> None:
    """The model says the line again, in an answer and in an error."""
    failing = b"fail" in request.body
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": LINE}], "error": LINE}).encode()
    status = b"529 Overloaded" if failing else b"200 OK"
    writer.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
    writer.write(body)
    await writer.drain()


@pytest.fixture(scope="module")
def upstream(serve: Any) -> RawUpstream:
    server: RawUpstream = serve(echo)
    return server


@pytest.fixture(scope="module")
def suite(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> Iterator[SuiteProcess]:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, rules=RULES)
    with SuiteProcess(tmp_path_factory.mktemp("suite"), config, trust=authority.authority) as running:
        yield running


class Events:
    """All that the event stream says, until the suite ends it or `close`."""

    def __init__(self, suite: SuiteProcess) -> None:
        request = urllib.request.Request(f"{suite.dashboard}api/events")
        request.add_header("Authorization", f"Bearer {suite.tokens['admin']}")
        self._stream = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)
        self.said = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._stream:
            self.said += line

    def join(self) -> None:
        self._thread.join(timeout=60)
        self._stream.close()


def send(suite: SuiteProcess, body: bytes, *headers: str) -> None:
    command = ["curl", "-sS", "--max-time", "60", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca)]
    for header in ("Content-Type: application/json", *headers):
        command += ["-H", header]
    subprocess.run([*command, "--data-binary", "@-", URL], input=body, capture_output=True, check=True)


def asked(text: str, **more: Any) -> bytes:
    return json.dumps({"model": "tide-1", "messages": [{"role": "user", "content": text}], **more}).encode()


def addresses(client: str) -> list[tuple[str, str]]:
    """Method and path of every address of the API; ids are of what there is."""
    access = Access(Tokens("admin-token-of-the-tests", "read-only-token-of-the-tests"), 1)
    app = create_app(Services(NoteLibrary([]), Exposure(), Activity(), EventHub(), access, dict))
    found = [(route.method, route.resource.canonical.lstrip("/")) for route in app.router.routes() if route.resource]
    return [(method, re.sub(r"\{client\}", client, path)) for method, path in found if path.startswith("api/")]


def read_out(suite: SuiteProcess, client: str = "curl") -> dict[str, bytes]:
    """What each address answers. Writes are sent an empty object: most are refused, and say why."""
    said: dict[str, bytes] = {}
    for method, path in sorted(addresses(client), key=lambda one: one[0] == "DELETE" or one[1].endswith("reset")):
        if path == "api/events":
            continue
        entry = suite.api("api/activity?limit=1").body["entries"][0]["id"]
        place = re.sub(r"\{\w*[iI]d\}", entry, path)
        place = re.sub(r"\{\w+\}", "1", place)
        answer = suite.api(place, method=method)
        said[f"{method} {path}"] = json.dumps([answer.body, dict(answer.headers)]).encode()
    for query in ("api/activity/export?format=csv", "api/activity?note=vault/Birds/Canary.md&notes=only"):
        said[query] = json.dumps(suite.api(query).body).encode()
    return said


def unpacked(data: bytes) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data[:1] == b"\x78":
        return zlib.decompress(data)
    return data


def holds_line(data: bytes) -> bool:
    """As it is, in another case or spacing, or written as JSON, UTF-16 or Base64 do."""
    plain = re.sub(rb"[\s\x00]+", b" ", data.lower())
    spread = data.replace(b"\0", b"").lower()
    return any(QUOTED.encode() in one for one in (plain, spread)) or b"dmVsdmV0IG9ic2VydmF0b3J5" in data


def test_the_line_is_said_nowhere(suite: SuiteProcess, upstream: RawUpstream) -> None:
    assert suite.api("api/memory").body["nodes"]
    events = Events(suite)
    send(suite, asked(LINE))
    send(suite, asked(f"  12\t{LINE}\n  13\tand more"), "User-Agent: claude-cli/2.1.197")
    send(suite, asked(f"fail {LINE}"))
    send(suite, asked(f"{LINE}\n{NOTES['Kept.md']}"))
    send(suite, asked("x", system=LINE, tools=[{"name": LINE, "input_schema": {LINE: {"type": "string"}}}]))
    send(suite, json.dumps({LINE: LINE, "model": "tide-1"}).encode())
    send(suite, f'{{"model": "tide-1", "messages": [{{"content": "{LINE}'.encode())
    send(suite, LINE.encode(), "Content-Type: text/plain")
    send(suite, gzip.compress(asked(LINE)), "Content-Encoding: gzip")
    send(suite, asked(LINE), "Content-Encoding: unheard-of")
    entries = suite.activity(10)

    # It did go through, and was seen.
    assert sum(holds_line(request.body) for request in upstream.requests) >= 5
    seen = [note for entry in entries for note in entry["notes"] if note["id"] == "vault/Birds/Canary.md"]
    assert sum(note["by"] == "content" for note in seen) >= 4
    assert {entry["outcome"] for entry in entries} >= {"answered", "blocked", "failed"}
    suite.api("api/memory/refresh", method="POST")

    said = read_out(suite)
    assert len(said) > 12
    assert [place for place, body in said.items() if holds_line(body)] == []
    assert b"vault/Birds/Canary.md" in said["GET api/memory"]

    suite.stop()
    events.join()
    assert b"vault/Birds/Canary.md" in events.said
    assert not holds_line(events.said)
    assert not holds_line(suite.log.encode())
    files = [path for path in suite.state.rglob("*") if path.is_file()]
    assert {"activity.db", "tokens.json"} <= {path.name for path in files}
    assert [path.name for path in files if holds_line(unpacked(path.read_bytes()))] == []


def test_with_a_memory_the_line_stands_in_the_memory_and_nowhere_else(
    tmp_path_factory: pytest.TempPathFactory, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    """Its conversations are kept in full: in the folder of its client, and in what an admin reads of them."""
    config = configuration(
        vault,
        {"anthropic": f"https://127.0.0.1:{upstream.port}"},
        clients=[{"name": "keeper", "match": {"user_agent": "keeper/*"}, "memory_enabled": True}],
    )
    with SuiteProcess(tmp_path_factory.mktemp("keeping"), config, trust=authority.authority) as suite:
        events = Events(suite)
        for text in (f"{LINE}\nwhat do they whistle", "and what is beside it"):
            send(suite, asked(text), "User-Agent: keeper/1.0")
        kept = suite.state / "memory" / "keeper" / "sessions"
        suite.wait_for(lambda: any(holds_line(file.read_bytes()) for file in kept.glob("*.md")), "a transcript")
        [session] = suite.api("api/clients/keeper/memory/sessions").body["sessions"]
        told = suite.api(f"api/clients/keeper/memory/sessions/{session['session']}/conversations/1").body
        assert holds_line(json.dumps(told).encode())
        assert suite.activity(2)[-1]["client"] == "keeper"

        said = read_out(suite, "keeper")  # the list of sessions says how each begins
        assert [place for place, body in said.items() if holds_line(body)] == ["GET api/clients/keeper/memory/sessions"]

        suite.stop()
        events.join()
        assert b"keeper" in events.said
        assert not holds_line(events.said)
        assert not holds_line(suite.log.encode())
        outside = [path for path in suite.state.rglob("*") if path.is_file() and not path.is_relative_to(kept.parent)]
        assert "activity.db" in {path.name for path in outside}
        assert [path.name for path in outside if holds_line(unpacked(path.read_bytes()))] == []


def test_it_would_be_found() -> None:
    for data in (LINE.encode(), LINE.upper().encode(), LINE.encode("utf-16"), json.dumps({"a": LINE}).encode()):
        assert holds_line(b"..." + data + b"...")
    assert holds_line(LINE.replace("velvet ", "velvet\n  ").encode())
    assert holds_line(unpacked(gzip.compress(LINE.encode())))
    assert not holds_line(LINE.replace("velvet", "velour").encode())
