"""The MCP memory server from npm writes a graph through its own protocol while the suite's library reads it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.body import read_body
from memory.note_library import NoteLibrary, Snapshot
from memory.scan import scan_body
from memory.sources import make_source
from tests.e2e.conftest import CLIENTS

pytestmark = pytest.mark.e2e

PACKAGE = "@modelcontextprotocol/server-memory"


class MemoryServer:
    """The server as a child process; JSON-RPC in lines over its stdin and stdout."""

    def __init__(self, file: Path) -> None:
        node = shutil.which("node")
        assert node, "the server needs Node.js"
        program = CLIENTS / PACKAGE / "dist" / "index.js"
        assert program.exists(), f"{program} is missing: run make test-e2e, which installs it"
        self._process = subprocess.Popen(
            [node, str(program)],
            env={"MEMORY_FILE_PATH": str(file), "PATH": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._last = 0
        client = {"name": "mitmemory-tests", "version": "1"}
        answer = self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        assert answer["serverInfo"]["name"] == "memory-server"
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; it has written the file when this returns."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result.get("structuredContent")

    def ask(self, method: str, parameters: dict[str, Any]) -> Any:
        self._last += 1
        self._send({"id": self._last, "method": method, "params": parameters})
        assert self._process.stdout is not None
        while True:
            message = json.loads(self._process.stdout.readline())
            if message.get("id") == self._last:
                assert "error" not in message, message
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.jsonl"


@pytest.fixture
def server(file: Path) -> Iterator[MemoryServer]:
    running = MemoryServer(file)
    yield running
    running.close()


def entity(name: str, kind: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(start: str, end: str, kind: str) -> dict[str, str]:
    return {"from": start, "to": end, "relationType": kind}


MASTS = "The Wren has two masts and a blue hull."
YARD = "The old yard is closed on every second Monday."
SOLD = "She was sold to the harbour school in May."


def bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def write(file: Path, content: bytes) -> None:
    """In place, as older servers do."""
    file.write_bytes(content)


def seen(snapshot: Snapshot) -> dict[str, Any]:
    """What the map shows, and how many lines of each note can be recognised."""
    assert [(source.error, source.warnings) for source in snapshot.sources] == [(None, ())]
    return {
        "notes": {node["id"]: node["distinctiveLines"] for node in snapshot.map.nodes()},
        "links": sorted((start, end) for start, end in snapshot.map.links()),
    }


async def test_what_the_server_writes_is_on_the_map(file: Path, server: MemoryServer) -> None:
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    [missing] = (await library.scan()).sources
    assert missing.error is not None, "the server makes its file when it first writes"
    assert missing.error.startswith(f"{file} does not exist")

    server.call("create_entities", entities=[entity("Wren", "ship", MASTS), entity("Old Yard", "place", YARD)])
    assert seen(await library.scan()) == {"notes": {"mcp/ship/Wren.md": 1, "mcp/place/Old Yard.md": 1}, "links": []}

    server.call("create_relations", relations=[relation("Wren", "Old Yard", "was built in")])
    server.call("add_observations", observations=[{"entityName": "Wren", "contents": [SOLD]}])
    added = await library.scan()
    assert seen(added) == {
        "notes": {"mcp/ship/Wren.md": 2, "mcp/place/Old Yard.md": 1},
        "links": [("mcp/ship/Wren.md", "mcp/place/Old Yard.md")],
    }
    assert (await library.scan()).map is added.map, "nothing changed"

    # What the model is given when its client calls the server's `read_graph`.
    given = {"type": "tool_result", "content": json.dumps(server.call("read_graph"), indent=2)}
    body = json.dumps({"messages": [{"role": "user", "content": [given]}]}).encode()
    sightings = scan_body(added.index, read_body(body, "application/json")).sightings
    assert sorted((one.note, one.by, one.matched, one.distinctive) for one in sightings) == [
        ("mcp/place/Old Yard.md", "content", 1, 1),
        ("mcp/ship/Wren.md", "content", 2, 2),
    ]

    server.call("delete_observations", deletions=[{"entityName": "Wren", "observations": [MASTS]}])
    assert seen(await library.scan())["notes"] == {"mcp/ship/Wren.md": 1, "mcp/place/Old Yard.md": 1}
    server.call("delete_relations", relations=[relation("Wren", "Old Yard", "was built in")])
    assert seen(await library.scan())["links"] == []
    server.call("create_relations", relations=[relation("Old Yard", "Wren", "built")])
    assert seen(await library.scan())["links"] == [("mcp/place/Old Yard.md", "mcp/ship/Wren.md")]
    server.call("delete_entities", entityNames=["Wren"])
    assert seen(await library.scan()) == {"notes": {"mcp/place/Old Yard.md": 1}, "links": []}
    server.call("delete_entities", entityNames=["Old Yard"])
    assert seen(await library.scan()) == {"notes": {}, "links": []}
    await library.aclose()


async def test_a_line_cut_in_half_is_survived(file: Path, server: MemoryServer) -> None:
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    server.call("create_entities", entities=[entity("Wren", "ship", MASTS), entity("Old Yard", "place", YARD)])
    whole = await library.scan()
    content = bytes_of(file)

    for end in (len(content) - 1, len(content) - 30, content.index(b"\n") + 2, 5):
        write(file, content[:end])
        cut = await library.scan()
        assert (cut.map, cut.index) == (whole.map, whole.index)
        assert [warning.path for warning in cut.sources[0].warnings] == ["memory.jsonl"]

    write(file, content)
    server.call("add_observations", observations=[{"entityName": "Wren", "contents": [SOLD]}])
    assert seen(await library.scan())["notes"] == {"mcp/ship/Wren.md": 2, "mcp/place/Old Yard.md": 1}
    await library.aclose()


async def test_a_library_that_reads_all_the_while_never_sees_half_a_graph(file: Path, server: MemoryServer) -> None:
    """Scans run in this thread's pauses, while the server writes as fast as it can."""
    library = NoteLibrary([make_source("mcp", "knowledge_graph", file)])
    server.call("create_entities", entities=[entity("e0", "thing", "x" * 5000)])
    sizes: list[int] = []
    writing = True

    async def read() -> None:
        while writing:
            snapshot = await library.scan()
            assert [(source.error, source.warnings) for source in snapshot.sources] == [(None, ())]
            sizes.append(len(snapshot.map))

    reading = asyncio.ensure_future(read())
    for number in range(1, 40):
        await asyncio.to_thread(
            server.call, "create_entities", entities=[entity(f"e{number}", "thing", f"{number} " * 2000)]
        )
    writing = False
    await reading

    assert sizes == sorted(sizes)
    assert len(sizes) > 2
    assert len((await library.scan()).map) == 40
    await library.aclose()
