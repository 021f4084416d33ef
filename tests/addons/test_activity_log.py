"""The activity log of a real suite: over a kill, a restart and a damaged file, and the command beside it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from addons.config import ActivityConfig, Config
from addons.demo.authority import AuthorityPaths
from addons.makers import make_activity
from memory.activity import Activity
from memory.activity_store import ActivityStore
from tests.addons.conftest import HARBOUR, Serve, configuration
from tests.addons.test_proxy import URL, curl, messages
from tests.harness import RawRequest, RawUpstream, SuiteProcess, mitmemory


def test_it_is_kept_where_there_is_a_state_directory(tmp_path: Path) -> None:
    kept = make_activity(Config(state=tmp_path, activity=ActivityConfig(keep=60.0, max_entries=7)))
    assert isinstance(kept, ActivityStore)
    assert kept.file == tmp_path / "activity.db"
    assert type(make_activity(Config(state=None))) is Activity
    assert not list(tmp_path.iterdir())


async def answer_or_begin(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Answers at once; of a body with `slowly` only the beginning comes."""
    begin = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    writer.write(begin + (b"{" if b"slowly" in request.body else b"{}"))
    await writer.drain()


@pytest.fixture
def upstream(serve: Serve) -> RawUpstream:
    return serve(answer_or_begin)


@pytest.fixture
def suite(tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths) -> Iterator[SuiteProcess]:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, activity={"keep": "30d"})
    with SuiteProcess(tmp_path, config, trust=authority.authority) as running:
        yield running


def ledger(suite: SuiteProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return mitmemory("ledger", *arguments, "--config", str(suite.config))


def restarted(suite: SuiteProcess) -> SuiteProcess:
    again = SuiteProcess(suite.folder, {})
    again._command = suite._command
    return again


def test_a_suite_that_is_killed_forgets_no_disclosure(suite: SuiteProcess) -> None:
    curl(suite, URL, body=messages("Look:\n\n" + HARBOUR))
    curl(suite, URL, body=messages("Another day."))
    suite.activity(2)
    # The answer has begun: the model has the body, and then everything stops.
    asked = subprocess.Popen(
        ["curl", "-s", "--proxy", suite.proxy, "--noproxy", "", "--cacert", str(suite.ca), "--data-binary", "@-", URL],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert asked.stdin is not None
    with asked.stdin as body:
        body.write(messages("slowly:\n\n" + HARBOUR))
    suite.wait_for(lambda: suite.activity(3, finished=False)[0]["sentTo"] != [], "the body being released")
    suite.wait_for(lambda: "rows 1 to 5 fit" in ledger(suite, "verify").stdout, "it being written")
    noted = ledger(suite, "head").stdout.strip()
    suite.process.send_signal(signal.SIGKILL)
    suite._close()
    asked.wait()

    assert ledger(suite, "verify", "--head", noted).returncode == 0
    kept = [json.loads(line) for line in ledger(suite, "export").stdout.splitlines()]
    assert [(entry["outcome"], len(entry["sentTo"]), len(entry["notes"])) for entry in kept] == [
        ("answered", 1, 1),
        ("answered", 1, 0),
        (None, 1, 1),
    ]
    with restarted(suite) as again:
        assert again.activity(3, finished=False) == kept[::-1]
        curl(again, URL, body=messages("One more."))
        assert [entry["outcome"] for entry in again.activity(4, finished=False)] == [
            "answered",
            None,
            *["answered"] * 2,
        ]
        assert again.api("api/activity/export?format=csv", token="read_only").body.count("\r\n") == 5
        assert again.api("api/status").body["warnings"] == []
        assert again.stop() == 0
        assert {one.name for one in again.state.glob("activity*")} == {"activity.db"}
    checked = ledger(suite, "verify", "--head", noted)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "rows 1 to 7 fit\nthe head that was noted is row 5: 2 came after it\n" in checked.stdout


def test_a_damaged_file_stops_nothing_and_is_said(suite: SuiteProcess) -> None:
    assert suite.stop() == 0
    (suite.state / "activity.db").write_bytes(b"no database at all")
    assert ledger(suite, "verify").returncode == 1
    with restarted(suite) as again:
        assert curl(again, URL, body=messages("Hello.")).stdout == b"{}"
        assert len(again.activity()) == 1
        [warning] = again.api("api/status").body["warnings"]
        assert "was damaged: it is now activity.db.damaged-" in warning
    assert ledger(suite, "verify").returncode == 0
