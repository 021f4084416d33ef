"""`mitmemory doctor`: each thing that can be wrong is found, and the mend said."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml

from addons import cli
from addons import doctor_checks as checks
from addons.certificates import BUNDLE, CA, CA_CERTIFICATE, Certificates, ensure_certificates, write_bundle
from addons.config import Address, Config, DashboardConfig, ProxyConfig
from addons.demo.authority import AuthorityPaths
from addons.doctor_checks import Check
from addons.presence import Presence
from addons.program import with_program
from addons.providers import ProviderConfig, ProviderTable
from memory import native
from memory.index import NoteIndex
from memory.note_library import Snapshot, SourceState
from memory.note_map import NoteMap
from tests.addons.conftest import configuration
from tests.harness import MITMEMORY, RawUpstream, SuiteProcess, free_port, mitmemory

NOW = datetime.now(UTC)
PROXY = "127.0.0.1:8080"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with an authority of its own."""
    state = tmp_path_factory.mktemp("state")
    ensure_certificates(state)
    return state


@pytest.fixture
def certificates(made: Path, tmp_path: Path) -> Certificates:
    """A copy, to be broken."""
    for file in (made / "mitmproxy").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / file.name).chmod(0o600)
    return Certificates(tmp_path)


def states(found: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in found}


# ---- the authority


def test_the_authority_is_made_once_as_the_proxy_makes_it(made: Path) -> None:
    folder = made / "mitmproxy"
    before = {name: (folder / name).read_bytes() for name in (CA, CA_CERTIFICATE, BUNDLE)}
    stamp = (folder / BUNDLE).stat().st_mtime_ns
    assert ensure_certificates(made) == Certificates(folder)
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert (folder / BUNDLE).stat().st_mtime_ns == stamp
    assert before[BUNDLE] == Path(certifi.where()).read_bytes() + before[CA_CERTIFICATE]
    assert (folder / CA).stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0


def test_a_bundle_of_another_authority_is_replaced_as_a_whole(certificates: Certificates) -> None:
    certificates.bundle.write_text("old")
    write_bundle(certificates.folder)
    assert certificates.bundle.read_bytes().endswith(certificates.certificate.read_bytes())
    assert not list(certificates.folder.glob(f"{BUNDLE}.*"))


def test_a_damaged_authority_is_an_error(made: Path, tmp_path: Path) -> None:
    (tmp_path / "mitmproxy").mkdir()
    (tmp_path / "mitmproxy" / CA).write_text("nothing of the kind")
    with pytest.raises(ValueError):
        ensure_certificates(tmp_path)


def test_a_sound_authority(certificates: Certificates) -> None:
    found = list(checks.authority(certificates, NOW))
    assert states(found) == {"Authority": "fine", "Clock": "fine", "Bundle": "fine"}
    assert not any(check.mend for check in found)


def test_no_authority_yet_is_nothing_wrong(tmp_path: Path) -> None:
    [found] = checks.authority(Certificates(tmp_path), NOW)
    assert (found.name, found.state, found.mend) == ("Authority", "note", "`mitmemory env` makes it")


def test_a_wrong_clock(certificates: Certificates) -> None:
    early = list(checks.authority(certificates, NOW - timedelta(days=400)))
    late = list(checks.authority(certificates, NOW + timedelta(days=20_000)))
    assert states(early)["Clock"] == states(late)["Clock"] == "wrong"
    assert "is valid from" in early[1].found
    assert "was valid until" in late[1].found


def break_bundle(certificates: Certificates) -> None:
    certificates.bundle.write_bytes(Path(certifi.where()).read_bytes())


@pytest.mark.parametrize(
    ("harm", "name", "said"),
    [
        (lambda one: one.bundle.unlink(), "Bundle", "is missing"),
        (break_bundle, "Bundle", "lacks the authority"),
        (lambda one: one.certificate.unlink(), "Authority", "cannot be read (No such file or directory)"),
        (lambda one: one.certificate.write_text("x"), "Authority", "are damaged"),
        (lambda one: (one.folder / CA).write_text("x"), "Authority", "are damaged"),
        (lambda one: (one.folder / CA).chmod(0o644), "Authority", "others may read the key"),
    ],
)
def test_what_is_wrong_with_the_authority(
    certificates: Certificates, harm: Callable[[Certificates], Any], name: str, said: str
) -> None:
    harm(certificates)
    [found] = [check for check in checks.authority(certificates, NOW) if check.state == "wrong"]
    assert found.name == name
    assert said in found.found
    assert found.mend


def test_a_certificate_of_another_authority(certificates: Certificates, authority: AuthorityPaths) -> None:
    certificates.certificate.write_bytes(authority.authority.read_bytes())
    found = states(list(checks.authority(certificates, NOW)))
    assert found == {"Authority": "wrong", "Clock": "fine", "Bundle": "wrong"}


# ---- packages


def test_scanning_without_c_is_slower_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILT", True)
    assert (checks.scanning().state, checks.scanning().mend) == ("fine", "")
    monkeypatch.setattr(native, "BUILT", False)
    assert checks.scanning().state == "note"
    assert "C compiler" in checks.scanning().mend


def test_the_packages_are_those_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = checks.packages()
    assert (found.state, found.mend) == ("fine", "")
    needs = ["rich>=999", "no-such-package>=1", "mitmproxy<1; python_version < '3'", "aiohttp>=1", "!!"]
    monkeypatch.setattr("addons.doctor_checks.metadata.requires", lambda _name: needs)
    [found] = checks.packages()
    version = metadata.version("rich")
    assert (found.state, found.found) == ("wrong", f"rich is {version}, not >=999; no-such-package is missing")


# ---- ports


def config_of(tmp_path: Path, port: int = 0) -> Config:
    free = Address("127.0.0.1", 0)
    return Config(
        proxy=ProxyConfig(Address("127.0.0.1", port), inspector=None), dashboard=DashboardConfig(free), state=tmp_path
    )


def test_ports_that_are_free_ours_or_taken(tmp_path: Path) -> None:
    suite = Presence(1, "", PROXY, "127.0.0.1:8090", "")
    assert checks.ports(config_of(tmp_path), None).state == "note"
    assert checks.ports(config_of(tmp_path), suite).state == "fine"
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        found = checks.ports(config_of(tmp_path, port), None)
    assert found == Check(
        "Ports",
        "wrong",
        f"127.0.0.1:{port} cannot be used (Address already in use); it is no suite of ours",
        "end the program that has it, or set proxy.listen to another port",
    )


# ---- the state directory


def test_a_state_directory_that_can_be_used_or_made(tmp_path: Path) -> None:
    assert checks.state(tmp_path) == Check("State", "fine", str(tmp_path))
    assert checks.state(tmp_path / "a" / "b") == Check("State", "fine", str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "state"])
def test_a_file_where_the_state_directory_should_be(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    found = checks.state(file / below)
    assert found == Check("State", "wrong", f"{file} is no directory", "set `state` to another directory")


def test_a_link_to_nothing_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "gone")
    assert checks.state(tmp_path / "state").found == f"{tmp_path / 'state'} is no directory"


def test_a_state_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("addons.doctor_checks.os.access", lambda _, mode: asked.append(mode))
    assert checks.state(tmp_path).found == f"{tmp_path} may not be written"
    assert asked == [os.R_OK | os.W_OK | os.X_OK]


def test_doctor_says_so_and_leaves_out_what_depends_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "state").write_text("")
    file = tmp_path / "mitm.yaml"
    sources = [{"name": "claude", "type": "claude_code"}, {"name": "gone", "path": str(tmp_path / "gone")}]
    file.write_text(yaml.safe_dump({"state": str(tmp_path / "state"), "memory": {"sources": sources}}))
    assert cli.main(["doctor", "--config", str(file), "--json"]) == 1
    out, err = capsys.readouterr()
    found = {check["name"]: check for check in json.loads(out)["checks"]}
    assert err == ""
    assert found["State"]["state"] == "wrong"
    assert found.keys().isdisjoint({"Ports", "Authority", "Bundle"})
    assert found["Notes: claude"]["mend"] == "use Claude Code once, or set `path` of this source in mitm.yaml"
    assert found["Notes: gone"]["mend"] == "correct its `path` in mitm.yaml, or make it readable"


@pytest.mark.parametrize(
    ("kind", "error", "mend"),
    [
        ("knowledge_graph", "x is no file", "correct its `path` in mitm.yaml, or make it readable"),
        ("conversations", "x is damaged", "make it readable, or restore it"),
        ("facts:Facts", "facts:Facts has no `load`", "mend its class, or its `type` and `path` in mitm.yaml"),
    ],
)
def test_what_is_to_be_mended_of_a_source_in_error(kind: str, error: str, mend: str) -> None:
    source = SourceState("s", kind, "x", error=error)
    assert list(checks.sources(snapshot(source))) == [Check("Notes: s", "wrong", error, mend)]


@pytest.mark.parametrize(
    ("kind", "state", "mend"),
    [
        ("markdown", "wrong", "look at its `path`, `exclude` and `extensions`"),
        ("facts:Facts", "wrong", "look at its `path` and `exclude`"),
        ("conversations", "note", "switch on the memory of a client, or take this source out of mitm.yaml"),
    ],
)
def test_what_is_to_be_mended_of_a_source_without_a_note(kind: str, state: checks.State, mend: str) -> None:
    found = list(checks.sources(snapshot(SourceState("s", kind, "x"))))
    assert found == [Check("Notes: s", state, "it holds no note", mend)]


def snapshot(*sources: SourceState) -> Snapshot:
    return Snapshot(NoteMap(), NoteIndex.build(()), sources, None)


def test_doctor_names_the_command_as_it_works_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addons.program.shutil.which", lambda _: None)
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "mitm.yaml"
    file.write_text(yaml.safe_dump({"state": str(tmp_path / "state")}))
    cli.main(["doctor", "--config", str(file), "--json"])
    found = {check["name"]: check["mend"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert found["This shell"] == f"`{MITMEMORY} with --config {file} -- COMMAND` starts a program that does"


def test_nothing_of_it_is_cut_off_or_wrapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mitm.yaml"
    sources = [{"name": "gone", "path": str(tmp_path / ("x" * 100))}]
    file.write_text(yaml.safe_dump({"state": str(tmp_path / "state"), "memory": {"sources": sources}}))
    monkeypatch.setenv("COLUMNS", "30")
    cli.main(["doctor", "--config", str(file)])
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(f"wrong  Notes: gone     {tmp_path / ('x' * 100)} does not exist")
    assert lines[at + 1] == "       mend: correct its `path` in mitm.yaml, or make it readable"
    start = with_program("start one with `mitmemory run`", file)
    assert f"       mend: {start}" in lines


# ---- the shell


def variables(certificates: Certificates, **changes: str | None) -> dict[str, str]:
    bundle, alone = str(certificates.bundle), str(certificates.certificate)
    names = {"SSL_CERT_FILE": bundle, "REQUESTS_CA_BUNDLE": bundle, "CURL_CA_BUNDLE": bundle}
    given = {
        "HTTPS_PROXY": f"http://{PROXY}",
        "NO_PROXY": "localhost,127.0.0.1,::1",
        "NODE_EXTRA_CA_CERTS": alone,
        **names,
    }
    return {name: value for name, value in (given | changes).items() if value is not None}


def test_a_shell_that_is_set_up(certificates: Certificates) -> None:
    found = list(checks.environment(PROXY, certificates, variables(certificates)))
    assert set(states(found).values()) == {"fine"}
    assert len(found) == 6


def test_a_shell_that_is_not_set_up_is_nothing_wrong(certificates: Certificates) -> None:
    [found] = checks.environment(PROXY, certificates, {"SSL_CERT_FILE": "/nowhere"})
    assert (found.name, found.state) == ("This shell", "note")
    [found] = checks.environment(PROXY, certificates, {"https_proxy": "http://me:secret@corp.example:3128"})
    assert (found.state, found.found) == ("note", f"it leads to http://corp.example:3128, not to {PROXY}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@corp.example:3128", "http://corp.example:3128"),
        ("me:secret@corp.example:3128", "corp.example:3128"),
        ("//me:secret@corp.example:3128", "corp.example:3128"),
        ("http://me:se/cr@et@corp.example:3128", "http://corp.example:3128"),
        ("me:secret//x@corp.example", "corp.example"),
        ("socks5h://corp.example:1080", "socks5h://corp.example:1080"),
    ],
)
def test_the_password_of_another_proxy_is_not_shown(certificates: Certificates, url: str, shown: str) -> None:
    [found] = checks.environment(PROXY, certificates, {"HTTPS_PROXY": url})
    assert (found.found, found.mend.count("secret")) == (f"it leads to {shown}, not to {PROXY}", 0)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://me:x@127.0.0.1:8080/", "127.0.0.1:8080", "http://localhost:8080"]
)
def test_every_spelling_of_the_proxy_is_known(certificates: Certificates, url: str) -> None:
    found = states(list(checks.environment(PROXY, certificates, variables(certificates, HTTPS_PROXY=url))))
    assert found["HTTPS_PROXY"] == "fine"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081", "http://127.0.0.1", "http://[::1", "http://h:99999", "x"])
def test_another_proxy_is_not_taken_for_ours(certificates: Certificates, url: str) -> None:
    [found] = checks.environment(PROXY, certificates, variables(certificates, HTTPS_PROXY=url))
    assert (found.name, found.state) == ("HTTPS_PROXY", "note")


@pytest.mark.parametrize(
    ("changes", "name", "state", "said"),
    [
        ({"NO_PROXY": None}, "NO_PROXY", "wrong", "it lacks localhost"),
        ({"NO_PROXY": "localhost"}, "NO_PROXY", "wrong", "it lacks localhost"),
        ({"NO_PROXY": "localhost,127.0.0.1,*"}, "NO_PROXY", "wrong", "`*` leads requests"),
        ({"NO_PROXY": "localhost,127.0.0.1,.anthropic.com"}, "NO_PROXY", "wrong", "`anthropic.com` leads"),
        ({"NO_PROXY": "localhost,127.0.0.1,Api.Anthropic.com"}, "NO_PROXY", "wrong", "leads requests"),
        ({"NO_PROXY": "localhost,127.0.0.1,c.com"}, "NO_PROXY", "fine", "c.com"),
        ({"NODE_EXTRA_CA_CERTS": None}, "NODE_EXTRA_CA_CERTS", "note", "not set: Claude Code may refuse"),
        ({"NODE_EXTRA_CA_CERTS": "/no/where.pem"}, "NODE_EXTRA_CA_CERTS", "wrong", "there is no file"),
        ({"SSL_CERT_FILE": certifi.where()}, "SSL_CERT_FILE", "wrong", "lacks this installation's authority"),
        ({"CURL_CA_BUNDLE": __file__}, "CURL_CA_BUNDLE", "wrong", "lacks this installation's authority"),
    ],
)
def test_what_is_wrong_with_a_shell(
    certificates: Certificates, changes: Mapping[str, str | None], name: str, state: str, said: str
) -> None:
    found = list(checks.environment(PROXY, certificates, variables(certificates, **changes)))
    assert {check.name for check in found if check.state != "fine"} == ({name} if state != "fine" else set())
    [one] = [check for check in found if check.name == name]
    assert one.state == state
    assert said in one.found


def test_the_certificate_alone_where_the_roots_are_replaced(certificates: Certificates) -> None:
    alone = str(certificates.certificate)
    found = states(list(checks.environment(PROXY, certificates, variables(certificates, SSL_CERT_FILE=alone))))
    assert (found["SSL_CERT_FILE"], found["NODE_EXTRA_CA_CERTS"]) == ("wrong", "fine")


# ---- the command


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return mitmemory("doctor", *arguments, environ=clean | {"COLUMNS": "200"} | environ)


def test_a_running_suite_and_its_shell(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"})
    connections = upstream.connections
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        command = [str(MITMEMORY), "with", "--config", str(suite.config), "--", str(MITMEMORY), "doctor"]
        ran = subprocess.run(
            [*command, "--config", str(suite.config), "--json"], capture_output=True, text=True, check=False
        )
        found = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
        assert {name for name, check in found.items() if check["state"] == "wrong"} == set()
        for name in ("Ports", "Proxy", "Trust", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "Clock", "Bundle"):
            assert found[name]["state"] == "fine", found[name]
        assert found["Notes: vault"]["found"] == "2 notes"
        assert ran.returncode == 0
        # It has left no trace: nothing went to the provider, and nothing was recorded.
        assert suite.api("api/activity").body["entries"] == []
        assert upstream.connections == connections

        # An authority that was replaced while the suite runs.
        ca = suite.ca.read_bytes()
        suite.ca.write_bytes(authority.authority.read_bytes())
        broken = json.loads(run("--config", str(suite.config), "--json").stdout)["checks"]
        assert {"Authority", "Bundle", "Trust"} <= {check["name"] for check in broken if check["state"] == "wrong"}
        suite.ca.write_bytes(ca)


def test_a_proxy_that_does_not_answer_is_said(made: Path) -> None:
    gone = Presence(1, "", f"127.0.0.1:{free_port()}", "", str(made / "mitmproxy"))
    [found] = checks.through_the_proxy(gone, ProviderTable())
    assert (found.name, found.state) == ("Proxy", "wrong")


def test_a_host_whose_traffic_is_left_alone_is_not_asked(made: Path, suite: SuiteProcess) -> None:
    """Through a tunnel the question would leave this machine."""
    running = Presence(1, "", suite.proxy.removeprefix("http://"), "", str(suite.ca.parent))
    own = ProviderTable((ProviderConfig("anthropic", hosts=("llm.example.com",)),))
    assert [check.name for check in checks.through_the_proxy(running, own)] == ["Proxy"]
    assert [check.name for check in checks.through_the_proxy(running, ProviderTable())] == ["Proxy", "Trust"]


def test_faults_of_the_configuration_are_shown_and_what_depends_on_it_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "mitm.yaml"
    file.write_text("mode: x\nproxy: {lisen: 1}\n")
    ran = run("--config", str(file))
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"{file}:1: mode: `x` is not one of annotate, dispatch" in ran.stdout
    assert "did you mean `listen`?" in ran.stdout
    assert "Ports" not in ran.stdout
    assert ran.stdout.rstrip().endswith("2 to mend.")


def test_a_fresh_installation_has_nothing_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "mitm.yaml"
    state = tmp_path / "state"
    proxy = {"listen": "127.0.0.1:0", "inspector": None}
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Tides.md").write_text("The tide chart hangs beside the harbour door.")
    written: dict[str, Any] = {"proxy": proxy, "dashboard": {"listen": "127.0.0.1:0"}, "state": str(state)}
    written["memory"] = {"sources": [{"name": "vault", "path": str(tmp_path / "vault")}]}
    file.write_text(yaml.safe_dump(written))
    assert cli.main(["doctor", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Nothing is wrong." in out
    assert "1 note" in out
    assert "there is none yet" in out
    assert not state.exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    written["memory"] = {"sources": [{"name": "[red]", "path": str(empty)}, {"name": "gone", "path": "/no/such"}]}
    file.write_text(yaml.safe_dump(written | {"state": None}))
    assert cli.main(["doctor", "--config", str(file)]) == 1
    out = capsys.readouterr().out
    assert "Notes: [red]" in out
    assert "it holds no note" in out
    assert "nothing is kept" in out
    assert out.rstrip().endswith("2 to mend.")


def test_the_clients_that_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(checks.programs()) == [
        Check("claude", "fine", str(tmp_path / "claude"), "start it with `mitmemory with -- claude`"),
        Check("codex", "note", "not on the PATH"),
        Check("gemini", "note", "not on the PATH"),
    ]
