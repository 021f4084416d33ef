"""`mitmemory env` and `mitmemory hmac`: what is printed, and what is said instead. No suite runs."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons import cli
from addons.certificates import CA, certificates_of
from addons.clients import hmac_of
from addons.env_command import thumbprint
from addons.presence import Announcement, Presence
from addons.program import with_program
from tests.harness import MITMEMORY, mitmemory

type Run = Callable[..., tuple[int, str, str]]
KEY = "sk-test-a-key-that-is-nobodys"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "my state"


@pytest.fixture
def config(tmp_path: Path, state: Path) -> Path:
    return write(tmp_path, state=str(state))


def write(folder: Path, **config: Any) -> Path:
    file = folder / "mitm.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, config: Path) -> Run:
    """(exit code, stdout, stderr)"""

    def ran(command: str, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = cli.main([command, "--config", str(config), *arguments])
        return code, *capsys.readouterr()

    return ran


# ---- env


def test_it_makes_the_authority_and_prints_nothing_but_variables(run: Run, state: Path) -> None:
    code, out, err = run("env", "--shell", "bash")
    assert (code, err) == (0, "")
    assert f"export SSL_CERT_FILE='{state}/mitmproxy/ca-bundle.pem'" in out.splitlines()
    assert all(line.startswith("export ") for line in out.splitlines())
    assert (state / "mitmproxy" / CA).stat().st_mode & 0o077 == 0
    assert run("env", "--shell", "bash") == (0, out, "")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no bash")
def test_bash_can_evaluate_it(config: Path, state: Path) -> None:
    script = (
        f"eval \"$('{MITMEMORY}' env --config '{config}' --shell bash)\"; echo \"$HTTPS_PROXY $NODE_EXTRA_CA_CERTS\""
    )
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == f"http://127.0.0.1:8080 {state}/mitmproxy/mitmproxy-ca-cert.pem\n"


@pytest.mark.parametrize(
    ("shell", "start"),
    [
        ("/bin/zsh", "export HTTPS_PROXY="),
        ("/usr/bin/fish", "set -gx HTTPS_PROXY "),
        ("/usr/bin/pwsh", "$env:HTTPS_PROXY = "),
        ("/bin/ksh", "export HTTPS_PROXY="),
        ("", "export HTTPS_PROXY="),
    ],
)
def test_the_shell_is_told_by_its_variable(run: Run, shell: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert run("env")[1].startswith(start)


def test_a_client_that_there_is_not(run: Run, state: Path) -> None:
    code, out, err = run("env", "--client", "nix")
    assert (code, out) == (2, "")
    assert err.startswith("mitmemory: there is no client nix: name one of claude-code, ")
    assert not state.exists()


def test_the_commands_for_the_whole_machine(run: Run, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    code, out, err = run("env", "--system")
    assert (code, err) == (0, "")
    assert out.startswith("# Set (macOS)")
    assert f"'{state}/mitmproxy/mitmproxy-ca-cert.pem'" in out
    assert "HTTPS_PROXY" not in out


def test_the_thumbprint_is_openssls(run: Run, state: Path) -> None:
    run("env")
    certificates = certificates_of(state)
    command = ["openssl", "x509", "-noout", "-fingerprint", "-sha1", "-in", str(certificates.certificate)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert thumbprint(certificates) == said.strip().partition("=")[2].replace(":", "")


def test_port_0_is_known_once_a_suite_runs(run: Run, config: Path, state: Path) -> None:
    write(config.parent, state=str(state), proxy={"listen": "127.0.0.1:0"})
    code, out, err = run("env")
    assert (code, out) == (2, "")
    assert (
        err
        == "mitmemory: proxy.listen has port 0, another one with each start: start mitmemory first, or name a port\n"
    )
    said = Announcement(state, Presence(os.getpid(), str(config), "127.0.0.1:12345", "127.0.0.1:2", "/elsewhere"))
    said.announce()
    code, out, err = run("env", "--shell", "bash")
    said.withdraw()
    assert (code, err) == (0, "")
    assert "export HTTPS_PROXY=http://127.0.0.1:12345\n" in out
    assert "export NODE_EXTRA_CA_CERTS=/elsewhere/mitmproxy-ca-cert.pem\n" in out


def test_without_a_state_directory_there_is_nothing_to_point_at(run: Run, config: Path) -> None:
    write(config.parent, state=None)
    for command in ("env", "hmac"):
        code, out, err = run(command)
        assert (code, out) == (2, "")
        assert err.startswith("mitmemory: state is null")
        assert err.count("\n") == 1


def test_a_damaged_authority_is_said(run: Run, state: Path) -> None:
    (state / "mitmproxy").mkdir(parents=True)
    (state / "mitmproxy" / CA).write_text("x")
    code, out, err = run("env")
    assert (code, out) == (1, "")
    assert err == f"mitmemory: the authority in {state / 'mitmproxy'} is damaged: remove that folder for a new one\n"


@pytest.mark.parametrize("command", ["env", "hmac"])
def test_a_state_directory_that_cannot_be_used_is_said(run: Run, state: Path, command: str) -> None:
    state.write_text("a file")
    code, out, err = run(command)
    assert (code, out) == (1, "")
    assert err.endswith("set state to another directory\n")
    assert err.count("\n") == 1


# ---- the memory of a client

REMEMBERED = [
    {"name": "Claude Code", "match": {"proxy_user": "a"}, "memory_enabled": True},
    {"name": "editor", "match": {"user_agent": "GeminiCLI*"}, "memory_enabled": True},
    {"name": "other", "match": {"proxy_user": "b"}, "memory_enabled": True},
    {"name": "inside", "match": {"proxy_user": "c"}, "memory_enabled": True, "mode": "mcp_via_llm"},
    {"name": "off", "match": {"proxy_user": "d"}},
]


def of_memory(out: str) -> list[str]:
    """What stands after the variables, which is comments alone, without their sign."""
    lines = out.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("#")), len(lines))
    assert all(line.startswith("# ") for line in lines[first:])
    return [line[2:] for line in lines[first:]]


def test_how_a_client_meets_its_memory(run: Run, config: Path, state: Path) -> None:
    write(config.parent, state=str(state), clients=REMEMBERED)
    started = [str(MITMEMORY), "mcp", "--client", "claude-code", "--config", str(config)]
    code, out, err = run("env", "--client", "Claude Code", "--shell", "fish")
    assert (code, err) == (0, "")
    assert of_memory(out) == [
        "Its memory as an MCP server, which asks the suite that runs:",
        "",
        "Claude Code, in a shell:",
        f"claude mcp add --scope user mitmemory -- {shlex.join(started)}",
        "",
        "The same over HTTP needs a token, which the Setup page makes.",
    ]
    programs = {
        "editor": ["Gemini CLI"] * 2,
        "other": ["Claude Code", "Claude Desktop", *["Codex"] * 2, *["Gemini CLI"] * 2, "Cursor"],
    }
    for client, named in programs.items():
        lines = of_memory(run("env", "--client", client)[1])
        heads = [after for before, after in pairwise(["", *lines]) if not before and after.endswith(":")]
        assert [head.partition(",")[0] for head in heads[1:]] == named
    inside = ["Its memory comes inside its conversations: nothing more need be set up."]
    assert of_memory(run("env", "--client", "inside")[1]) == inside
    for arguments in (("--client", "off"), (), ("--client", "codex"), ("--client", "other", "--system")):
        assert "mcp" not in run("env", *arguments)[1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no bash")
def test_no_name_of_a_folder_is_run_by_bash(tmp_path: Path) -> None:
    folder = tmp_path / "a\n touch made\r\x85\u2028'x"
    folder.mkdir()
    file = write(folder, state=str(tmp_path / "state"), clients=REMEMBERED)
    printed = mitmemory("env", "--config", str(file), "--client", "other", "--shell", "bash").stdout
    script = 'eval "$1"; echo "$HTTPS_PROXY"'
    ran = subprocess.run(["bash", "-c", script, "x", printed], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("http://b:x@127.0.0.1:8080\n", "")
    assert not (tmp_path / "made").exists()


# ---- hmac


def test_the_hmac_of_a_key_from_stdin(run: Run, state: Path) -> None:
    code, out, err = run("hmac", stdin=f"  {KEY}\r\nmore\n")
    assert (code, err) == (0, "")
    assert out == hmac_of((state / "client-key").read_bytes(), KEY) + "\n"
    assert run("hmac", stdin=KEY) == (0, out, "")
    assert all(KEY.encode() not in file.read_bytes() for file in state.rglob("*") if file.is_file())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shell", "bash"], '# Set them with: eval "$({} --shell bash)"\n'),
        (["--shell", "fish", "--client", "codex"], "# Set them with: {} --shell fish --client codex | source\n"),
    ],
)
def test_a_person_is_told_to_set_what_was_asked_for(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    assert cli.main(["env", "--config", str(config), *flags]) == 0
    assert capsys.readouterr().err == said.format(with_program("`mitmemory env`", config).strip("`"))


def test_the_hmac_of_a_key_that_is_typed(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        return KEY

    monkeypatch.setattr("getpass.getpass", typed)
    monkeypatch.setattr("sys.stdin", Terminal())
    assert cli.main(["hmac", "--config", str(config)]) == 0
    assert asked == ["API key: "]


@pytest.mark.parametrize("stdin", ["", "\n", "  \n"])
def test_no_key_is_wrong_input(run: Run, stdin: str) -> None:
    assert run("hmac", stdin=stdin) == (2, "", "mitmemory: no API key came: type it, or send it to stdin\n")


def test_a_damaged_key_is_said(run: Run, state: Path) -> None:
    state.mkdir()
    (state / "client-key").write_bytes(b"short")
    code, out, err = run("hmac", stdin=KEY)
    assert (code, out) == (1, "")
    assert "client-key is damaged" in err
