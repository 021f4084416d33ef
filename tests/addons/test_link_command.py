"""`mitmemory link`: a link that opens, without a start anew."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from addons import cli
from addons.program import with_program
from tests.addons.conftest import configuration
from tests.harness import SuiteProcess, mitmemory


def status_of(link: str) -> int:
    place = urlsplit(link)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request("GET", f"{place.path}?{place.query}")
    status = connection.getresponse().status
    connection.close()
    return status


def test_each_link_opens_once(tmp_path: Path, vault: Path) -> None:
    with SuiteProcess(tmp_path, configuration(vault, {})) as suite:
        made = [mitmemory("link", "--config", str(suite.config)) for _ in range(2)]
        assert [(one.returncode, one.stderr) for one in made] == [(0, "")] * 2
        links = [one.stdout.removesuffix("\n") for one in made]
        assert len(set(links)) == 2
        assert [status_of(link) for link in (*links, *links)] == [303, 303, 401, 401]
        # Who may only read gets none.
        assert suite.api("api/link", method="POST", token="read_only").status == 403
        assert suite.api("api/link", method="POST", body={"role": "admin"}).status == 400
        # Without the tokens nobody is asked.
        (suite.state / "tokens.json").unlink()
        assert mitmemory("link", "--config", str(suite.config)).returncode == 1
    gone = mitmemory("link", "--config", str(suite.config))
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == with_program("mitmemory: no suite runs: start one with `mitmemory run`\n", suite.config)


def test_without_a_state_directory_the_suite_cannot_be_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mitm.yaml"
    file.write_text(yaml.safe_dump({"state": None}))
    assert cli.main(["link", "--config", str(file)]) == 2
    assert capsys.readouterr() == (
        "",
        "mitmemory: state is null, and the suite is found there: set state to a folder\n",
    )


def test_a_suite_that_does_not_answer_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from addons.suite_api import SuiteApi

    file = tmp_path / "mitm.yaml"
    file.write_text(json.dumps({"state": str(tmp_path)}))
    monkeypatch.setattr("addons.link_command.running_api", lambda _: SuiteApi("http://127.0.0.1:9/", "x" * 16))
    assert cli.main(["link", "--config", str(file)]) == 1
    assert capsys.readouterr().err.startswith("mitmemory: the suite at http://127.0.0.1:9/ cannot be asked (")
