"""`mitmemory recall`, beside a running suite and without one; and a memory that is switched on and off while it runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons import cli
from addons.demo.authority import AuthorityPaths
from memory.conversations.store import Store
from tests.addons.conftest import Serve, configuration
from tests.addons.test_proxy import URL, curl
from tests.harness import RawRequest, SuiteProcess, mitmemory
from tests.web.remembering import CAKE, KEY, NOON, remembering

FAUCET = "Who is going to repair the faucet?"
TAP, NOVAK = "The tap in the kitchen drips.", "Mr Novak comes on Friday to replace the cartridge."
ME = {"name": "Me", "match": {"proxy_user": "me"}}

type Ran = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """(exit code, stdout, stderr) of `mitmemory recall` with these arguments."""

    def ran(*arguments: str | Path) -> Ran:
        code = cli.main(["recall", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return ran


def write_config(folder: Path, *clients: dict[str, Any], **more: Any) -> Path:
    file = folder / "mitm.yaml"
    file.write_text(yaml.safe_dump({"clients": list(clients), "state": str(folder / "state"), **more}), "utf-8")
    return file


def remember(directory: Path, client: str, *turns: tuple[str, str]) -> str:
    """What was said is on the disk; its session."""

    async def said() -> str:
        async with remembering(directory) as kept:
            kept.store.configure([client])
            return kept.say(client, *turns).session

    return asyncio.run(said())


def test_without_a_suite_the_index_is_opened_here(run: Any, tmp_path: Path) -> None:
    config = write_config(tmp_path, ME | {"memory_enabled": True})
    nothing = "No relevant memories found. Nothing has been recorded yet.\n"
    assert run("--config", config, "Me", FAUCET) == (0, nothing, "")
    assert not (tmp_path / "state" / "memory").exists()
    session = remember(tmp_path / "state" / "memory", "me", (TAP, f"{NOVAK} \x1b]52;c;eA==\x07"), KEY, CAKE)
    code, out, err = run("--config", config, "me", FAUCET, "--limit", "1")
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first.startswith(f"[1] session {session}, conversation 1, 2026-11-30 12:00 UTC (relevance 0.")
    assert lines == [f"    User: {TAP}", "", f"    Assistant: {NOVAK} �]52;c;eA==�"]
    code, out, err = run("--config", config, "me", FAUCET, "--json", "--after", "2026-11-30", "--before", "2027-01-01")
    found = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert found["results"][0]["session"] == session
    assert found["holdings"] == {"sessions": 1, "first": "2026-11-30T12:00:00Z", "last": "2026-11-30T12:00:00Z"}
    nothing = "No relevant memories found. 1 session is recorded, of 2026-11-30.\n"
    assert run("--config", config, "me", FAUCET, "--before", "2026-11-30") == (0, nothing, "")


def test_a_client_without_a_folder_finds_nothing_and_gets_none(run: Any, tmp_path: Path) -> None:
    config = write_config(tmp_path, ME | {"memory_enabled": True})
    remember(tmp_path / "state" / "memory", "you", KEY)
    assert run("--config", config, "me", "key")[:2] == (
        0,
        "No relevant memories found. Nothing has been recorded yet.\n",
    )
    assert not (tmp_path / "state" / "memory" / "me").exists()


def test_what_is_wrong_is_said(run: Any, tmp_path: Path) -> None:
    config = write_config(tmp_path, ME, {"name": "on", "match": {"proxy_user": "on"}, "memory_enabled": True})
    when = "must be a duration like 2d, or a time like 2026-03-04T05:06:07Z"
    for arguments, message in [
        (
            ("nobody", "key"),
            f"{config} names no client nobody: name one of on, or add it under `clients`, with memory_enabled: true",
        ),
        (("Me", "key"), f"Me has no memory: set memory_enabled: true for it in {config}"),
        (("on", " "), "say what to look for"),
        (("on", "key", "--limit", "21"), "--limit must be a number from 1 to 20"),
        (("on", "key", "--after", "soon"), f"--after {when}"),
        (("on", "key", "--before", ""), f"--before {when}"),
    ]:
        assert run("--config", config, *arguments) == (2, "", f"mitmemory: {message}\n")


def test_a_directory_that_another_has_is_told(run: Any, tmp_path: Path) -> None:
    config = write_config(tmp_path, ME | {"memory_enabled": True})
    directory = tmp_path / "state" / "memory"
    store = Store(directory)
    store.open()
    try:
        why = f"another mitmemory uses the conversations in {directory}: ask that one, or end it first"
        assert run("--config", config, "me", "key") == (1, "", f"mitmemory: {why}\n")
    finally:
        store.close()
    (directory / "clients.json").write_text("{")
    assert run("--config", config, "me", "key")[0] == 1


async def answer(_: RawRequest, writer: asyncio.StreamWriter) -> None:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "stop_reason": "end_turn"}
    body = json.dumps(message | {"content": [{"type": "text", "text": NOVAK}]}).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    await writer.drain()


def say(suite: SuiteProcess, text: str) -> None:
    body = {"model": "claude-test", "max_tokens": 99, "messages": [{"role": "user", "content": text}]}
    done = curl(suite, URL, "--proxy-user", "me:x", body=json.dumps(body).encode())
    assert done.stdout, done.stderr


def recall(suite: SuiteProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return mitmemory("recall", "--config", str(suite.config), *arguments)


def test_a_memory_is_switched_on_searched_and_switched_off_while_it_runs(
    tmp_path: Path, vault: Path, serve: Serve, authority: AuthorityPaths
) -> None:
    upstream = serve(answer)
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, clients=[ME])
    folder = tmp_path / "state" / "memory" / "me"
    query = {"query": FAUCET}
    with SuiteProcess(tmp_path, config, trust=authority.authority, inspector=True) as suite:
        say(suite, "Who won the cup?")
        assert suite.api("api/clients/me/recall", method="POST", body=query).status == 409
        assert not folder.parent.exists()

        switched = suite.api("api/clients/me", method="PATCH", body={"memoryEnabled": True})
        assert (switched.status, switched.body["client"], switched.body["memoryEnabled"]) == (200, "me", True)
        suite.wait_for(folder.is_dir, "the client's folder")
        say(suite, TAP)
        [transcript] = (folder / "sessions").glob("*.md")
        suite.wait_for((folder / ".memsearch" / "milvus.db").is_dir, "an index that nobody has asked for")
        found = suite.api("api/clients/me/recall", method="POST", body=query).body["results"]
        assert [one["text"] for one in found] == [f"User: {TAP}\n\nAssistant: {NOVAK}"]
        asked = recall(suite, "--json", "Me", FAUCET)
        assert (asked.returncode, json.loads(asked.stdout)["results"]) == (0, found)
        asked = recall(suite, "me", "parliament election results in Mongolia")
        assert (asked.returncode, asked.stdout[:28]) == (0, "No relevant memories found. ")

        suite.api("api/clients/me", method="PATCH", body={"memoryEnabled": False})
        kept = transcript.read_bytes()
        say(suite, "Who won the cup?")
        assert transcript.read_bytes() == kept
        assert suite.api("api/clients/me/recall", method="POST", body=query).status == 409
        assert recall(suite, "me", FAUCET).returncode == 2
        assert len(suite.api("api/clients/me/memory/sessions").body["sessions"]) == 1

        assert suite.stop() == 0
        assert "ERROR" not in suite.log
        assert "Novak" not in suite.log


def test_a_suite_with_a_memory_to_index_starts_and_ends_in_peace(tmp_path: Path) -> None:
    """Milvus Lite logs an ERROR for each call that asks whether something exists, which would end mitmproxy's start."""
    remember(tmp_path / "state" / "memory", "me", (TAP, NOVAK))
    assert not list((tmp_path / "state" / "memory").rglob("milvus.db"))
    with SuiteProcess(tmp_path, {"clients": [ME | {"memory_enabled": True}]}) as suite:
        found = suite.api("api/clients/me/recall", method="POST", body={"query": FAUCET}).body["results"]
        assert found[0]["startedAt"] == f"{NOON:%Y-%m-%dT%H:%M:%SZ}"
        assert suite.stop() == 0
        assert "ERROR" not in suite.log
        left = {path.name for path in (tmp_path / "state" / "memory" / "me").rglob("*") if path.is_file()}
        assert "index.json" in left
    assert recall(suite, "me", FAUCET).stdout.startswith("[1] session ")
