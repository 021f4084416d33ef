"""`mitmemory rules test`: what it says with and without requests, a state directory, a suite that writes meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from addons.cli import main
from addons.config import Config, MemoryConfig, SourceConfig
from addons.exits import FAILED, OK, WRONG_INPUT
from addons.rules_command import rules_test
from memory.activity_file import FILE_NAME, open_to_write
from memory.activity_rows import append
from memory.exchange import Exchange, Scan
from memory.rules import Rule, When
from tests.memory.exchanges import finished, released, sighting

RULES = (
    Rule("[private] stays", When(tags=("private",), to="cloud"), "block"),
    Rule("strip", When(note=("vault/Garden.md",)), "redact"),
    Rule("idle", When(client=("codex",)), "hold"),
)


def identifier(ago: timedelta) -> str:
    return f"{int((datetime.now(UTC) - ago).timestamp() * 1e6):014x}"


IDS = [identifier(timedelta(days=days, seconds=number)) for number, days in enumerate((40, 3, 2, 1))]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Tides.md").write_text("---\ntags: [private]\n---\nThe harbour master keeps the table.\n", "utf-8")
    source = SourceConfig("vault", "markdown", vault)
    return Config(state=tmp_path / "state", memory=MemoryConfig(sources=(source,)), rules=RULES)


@pytest.fixture
def writer(config: Config) -> Iterator[sqlite3.Connection]:
    """The suite that runs meanwhile: one exchange is old, one carried a note that is gone, one carried none."""
    assert config.state
    with closing(open_to_write(config.state / FILE_NAME)) as connection:
        for one, notes in zip(IDS, (("vault/Tides.md",), ("vault/Tides.md",), ("vault/Garden.md",), ()), strict=True):
            for made in (released, finished):
                append(connection, [made(one, notes=notes).to_json()], 1)
        yield connection


def run(config: Config, since: str | None = None, *, as_json: bool = False) -> int:
    return rules_test(config, since=since, as_json=as_json)


@pytest.mark.usefixtures("writer")
def test_each_rule_with_its_hits_and_an_example(config: Config, capsys: Any) -> None:
    assert run(config) == OK
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()[1:-2] if "─" not in line] == [
        ["rule", "then", "hits", "for", "example"],
        ["[private]", "stays", "block", "1", IDS[1]],
        ["strip", "redact", "1", IDS[2]],
        ["idle", "hold", "0"],
    ]
    assert out.splitlines()[-1].startswith("Of 3 requests since ")
    assert out.endswith("Z, 1 would have been blocked, 1 redacted, 1 allowed.\n")
    assert err == ""


@pytest.mark.usefixtures("writer")
def test_as_json_each_exchange_once_although_it_has_two_rows(config: Config, capsys: Any) -> None:
    assert run(config, "60d", as_json=True) == OK
    assert json.loads(capsys.readouterr().out) == {
        "tested": 4,
        "actions": {"block": 2, "redact": 1, "allow": 1},
        "rules": [
            {"name": "[private] stays", "action": "block", "hits": 2, "examples": IDS[:2]},
            {"name": "strip", "action": "redact", "hits": 1, "examples": [IDS[2]]},
            {"name": "idle", "action": "hold", "hits": 0, "examples": []},
        ],
    }


@pytest.mark.usefixtures("writer")
def test_nothing_since_then(config: Config, capsys: Any) -> None:
    assert run(config, "1h") == OK
    assert capsys.readouterr().out.startswith("No request was recorded since ")


def test_without_rules(config: Config, writer: sqlite3.Connection, tmp_path: Path, capsys: Any) -> None:
    unseen = finished(identifier(timedelta()), scan=Scan("unscanned", ("off",)))
    append(writer, [unseen.to_json()], 1)
    bare = Config(state=config.state, file=tmp_path / "mitm.yaml")
    assert run(bare) == OK
    out = capsys.readouterr().out
    assert out.startswith(f"There are no rules in {tmp_path / 'mitm.yaml'}.\nOf 4 requests since ")
    assert out.endswith("Z, 4 would have been allowed.\n")


def test_what_is_wrong_is_said(config: Config, tmp_path: Path, capsys: Any) -> None:
    assert run(config, "yesterday") == WRONG_INPUT
    message = "--since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z"
    assert capsys.readouterr() == ("", f"mitmemory: {message}\n")
    assert run(Config(state=None)) == WRONG_INPUT
    message = "state is null, so past requests are kept in memory only: set state to a folder"
    assert capsys.readouterr() == ("", f"mitmemory: {message}\n")
    assert run(config) == FAILED
    file = tmp_path / "state" / FILE_NAME
    assert capsys.readouterr() == ("", f"mitmemory: there is no {file}: no request has been recorded yet\n")
    file.parent.mkdir()
    file.write_bytes(b"no database at all, and longer than a header" * 9)
    assert run(config) == FAILED
    assert capsys.readouterr().err == f"mitmemory: {file} cannot be read (file is not a database)\n"


@pytest.mark.usefixtures("writer")
def test_a_source_that_cannot_be_read(config: Config, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "vault" / "Tides.md").unlink()
    (tmp_path / "vault").rmdir()
    assert run(config, as_json=True) == FAILED
    out, err = capsys.readouterr()
    assert json.loads(out)["actions"] == {"allow": 2, "redact": 1}
    assert err.startswith("mitmemory: source vault: ")


def test_the_command(config: Config, writer: sqlite3.Connection, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "mitm.yaml"
    written = f"state: {config.state}\nrules: [{{name: codex waits, when: {{client: codex}}, then: block}}]\n"
    file.write_text(written, "utf-8")
    append(writer, [codex().to_json()], 1)
    assert main(["rules", "test", "--since", "2d", "--config", str(file), "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["rules"] == [
        {"name": "codex waits", "action": "block", "hits": 1, "examples": ["1000000000000f"]}
    ]
    file.write_text(written.replace("client", "cleint"), "utf-8")
    assert main(["rules", "test", "--config", str(file)]) == WRONG_INPUT
    assert "did you mean `client`?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["rules", "apply"])
    assert ended.value.code == WRONG_INPUT


def codex() -> Exchange:
    return finished("1000000000000f", client="codex", scan=Scan("complete", (), (sighting("vault/Tides.md"),)))
