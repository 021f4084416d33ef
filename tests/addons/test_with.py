"""`mitmemory with`, each time as a real process: a program notices nothing but its variables."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from addons import with_command
from addons.demo.authority import AuthorityPaths
from addons.presence import running_suites
from tests.addons.conftest import GARDEN, configuration
from tests.addons.test_proxy import URL, messages, notes_of
from tests.harness import MITMEMORY, START_SECONDS, RawUpstream, SuiteProcess, free_port, mitmemory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs of these tests are not for Windows")

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


class Setting:
    """A configuration in a folder of its own, and `mitmemory` with it."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.proxy, self.dashboard = free_port(), free_port()
        written = {
            "proxy": {"listen": f"127.0.0.1:{self.proxy}"},
            "dashboard": {"listen": f"127.0.0.1:{self.dashboard}"},
            "state": str(self.state),
        } | config
        self.config = folder / "mitm.yaml"
        self.config.write_text(yaml.safe_dump(written))

    def command(self, *rest: str, client: str | None = None) -> list[str]:
        chosen = ["--client", client] if client else []
        return [str(MITMEMORY), "with", "--config", str(self.config), *chosen, "--", *rest]

    def run(self, *rest: str, client: str | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*rest, client=client), capture_output=True, text=True, timeout=120, check=False, **more
        )

    def start(self, *rest: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(*rest), stdout=subprocess.PIPE, text=True, **more)

    def wait_until_gone(self) -> None:
        eventually(lambda: not running_suites(self.state))
        eventually(lambda: not is_open(self.proxy))


def eventually(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path, clients=[{"name": "nightly", "match": {"proxy_user": "night"}}])


def test_a_program_has_the_variables_and_its_own_output_and_exit_code(setting: Setting) -> None:
    (setting.folder / "addons").mkdir()
    (setting.folder / "addons" / "__init__.py").write_text("raise SystemExit('not ours')")
    program = f"{SHOW}; import sys; print(sys.stdin.read(), file=sys.stderr); sys.exit(7)"
    ran = setting.run(sys.executable, "-c", program, client="nightly", input="typed", cwd=setting.folder)
    assert (ran.returncode, ran.stderr) == (7, "typed\n")
    environ = json.loads(ran.stdout)
    proxy = f"http://night:x@127.0.0.1:{setting.proxy}"
    assert [environ[name] for name in ("HTTPS_PROXY", "https_proxy", "http_proxy")] == [proxy] * 3
    bundle, certificate = Path(environ["SSL_CERT_FILE"]), Path(environ["NODE_EXTRA_CA_CERTS"])
    assert bundle.read_bytes().endswith(certificate.read_bytes())
    assert environ["PATH"] == os.environ["PATH"]
    # Its ports are free, and nobody was told of it.
    assert running_suites(setting.state) == []
    assert not is_open(setting.proxy)
    assert not is_open(setting.dashboard)
    assert (setting.state / "with.log").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            ["no-such-program"],
            127,
            "mitmemory: no-such-program: command not found: is it installed, and on the PATH?\n",
        ),
        (["./no/such"], 127, "mitmemory: ./no/such: command not found: is it installed, and on the PATH?\n"),
    ],
)
def test_a_program_that_there_is_not(setting: Setting, command: Sequence[str], code: int, said: str) -> None:
    ran = setting.run(*command)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", said)
    assert not setting.state.exists()


def test_a_suite_that_ends_without_a_word(tmp_path: Path) -> None:
    log = tmp_path / "with.log"
    log.write_bytes(b"of the last one\n")
    with (
        subprocess.Popen([sys.executable, "-c", ""]) as process,
        pytest.raises(with_command.NoSuiteError) as raised,
    ):
        with_command._wait_for(process, tmp_path, log, log.stat().st_size)
    assert str(raised.value) == (f"the suite did not start: it left no word in {log}: is there room on the disk?")


def test_a_file_that_may_not_be_run_and_a_folder_are_there(setting: Setting) -> None:
    program = setting.folder / "notes.txt"
    program.write_text("no program")
    for path, why in (
        (program, "a file that may not be run: make it executable"),
        (setting.folder, "a folder"),
    ):
        ran = setting.run(str(path))
        assert (ran.returncode, ran.stdout) == (126, "")
        assert ran.stderr == f"mitmemory: {path}: cannot be run: it is {why}\n"


def test_a_program_that_cannot_be_run(setting: Setting) -> None:
    program = setting.folder / "broken"
    program.write_bytes(b"\x00 no program")
    program.chmod(0o755)
    ran = setting.run(str(program))
    assert (ran.returncode, ran.stdout) == (126, "")
    assert ran.stderr == f"mitmemory: {program}: cannot be run (Exec format error)\n"


def test_wrong_input_starts_nothing(setting: Setting, tmp_path: Path) -> None:
    ran = setting.run("true", client="nix")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("mitmemory: there is no client nix: name one of nightly, claude-code, ")
    assert not setting.state.exists()
    (tmp_path / "other").mkdir()
    ran = Setting(tmp_path / "other", state=None).run("true")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("mitmemory: state is null")


def test_another_program_on_the_port_is_said(setting: Setting) -> None:
    with socket.create_server(("127.0.0.1", setting.proxy)):
        ran = setting.run("echo", "hello")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"mitmemory: the suite did not start: 127.0.0.1:{setting.proxy} cannot be used (Address already in use): "
        "end the program that has it, or set proxy.listen to another port\n"
    )


def test_a_suite_that_runs_is_used_and_goes_on(
    tmp_path: Path, vault: Path, upstream: RawUpstream, authority: AuthorityPaths
) -> None:
    clients = [{"name": "nightly", "match": {"proxy_user": "night"}}]
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{upstream.port}"}, clients=clients)
    with SuiteProcess(tmp_path, config, trust=authority.authority) as suite:
        command = [str(MITMEMORY), "with", "--config", str(suite.config), "--client", "nightly", "--"]
        asked = subprocess.run(
            [*command, "curl", "-sS", "--data-binary", "@-", "-H", "Content-Type: application/json", URL],
            input=messages(GARDEN),
            capture_output=True,
            check=False,
        )
        assert (asked.returncode, asked.stderr) == (0, b"")
        entry = suite.activity()[0]
        assert (entry["client"], notes_of(entry)) == ("nightly", {"vault/Garden.md": ("line", 2, 2)})
        assert not (suite.state / "with.log").exists()
        environ = mitmemory("env", "--config", str(suite.config), "--shell", "bash").stdout
        assert f"export HTTPS_PROXY={suite.proxy}\n" in environ
        assert suite.api("api/status").status == 200
    assert running_suites(suite.state) == []


TRAP = """
import signal, sys, time
def told(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(5)
for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT"):
    signal.signal(getattr(signal, name), told)
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


def test_signals_reach_the_program(setting: Setting) -> None:
    with setting.start(sys.executable, "-c", TRAP, start_new_session=True) as process:
        assert line_of(process) == "ready\n"
        for name in ("SIGUSR1", "SIGHUP", "SIGINT", "SIGTERM"):
            process.send_signal(getattr(signal, name))
            assert line_of(process) == f"{name}\n"
        assert process.wait(timeout=120) == 5
    setting.wait_until_gone()


def test_ctrl_c_at_a_terminal_reaches_the_program_once(setting: Setting) -> None:
    spawn = f"import pty, sys; sys.exit(pty.spawn({setting.command(sys.executable, '-c', TRAP)!r}) >> 8)"
    with subprocess.Popen(
        [sys.executable, "-c", spawn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin
        assert line_of(process) == "ready\n"
        process.stdin.write("\x03")
        process.stdin.flush()
        assert line_of(process).endswith("SIGINT\n")
        time.sleep(0.5)
        [suite] = running_suites(setting.state)
        os.kill(int(children_of(suite.pid, setting)), signal.SIGTERM)
        assert line_of(process) == "SIGTERM\n"
        process.stdin.close()
        assert process.wait(timeout=120) == 5
    setting.wait_until_gone()


def test_whether_the_keyboard_reaches_the_program_by_itself() -> None:
    """Two signals at once may become one: what is asked above is asked here in a way that cannot be missed."""
    asked = "from addons.with_command import _in_the_foreground; print(_in_the_foreground())"
    spawn = f"import pty; pty.spawn([{sys.executable!r}, '-c', {asked!r}])"
    for program, answer in ((spawn, "True"), (asked, "False")):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=True,
        )  # fmt: skip
        assert ran.stdout.strip().splitlines()[-1] == answer


@pytest.mark.parametrize("foreground", [True, False])
def test_what_the_terminal_has_said_is_not_said_again(monkeypatch: pytest.MonkeyPatch, foreground: bool) -> None:
    told: list[int] = []
    process: Any = SimpleNamespace(send_signal=told.append)
    monkeypatch.setattr(with_command, "_in_the_foreground", lambda: foreground)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        with_command._send(process, number)
    keyboard = [] if foreground else [signal.SIGINT, signal.SIGQUIT]
    assert told == [*keyboard, signal.SIGTERM, signal.SIGHUP]


def children_of(suite: int, setting: Setting) -> str:
    """The process id of the `with` that uses this suite, as the name of its file says."""
    [used] = (setting.state / "running").glob(f"{suite}.*.use")
    return used.name.split(".")[1]


def test_a_program_that_a_signal_ends(setting: Setting) -> None:
    assert setting.run(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)").returncode == 137


def test_a_suite_goes_on_for_as_long_as_any_program_uses_it(setting: Setting) -> None:
    wait = "import sys; print('ready', flush=True); sys.stdin.read()"
    with setting.start(sys.executable, "-c", wait, stdin=subprocess.PIPE) as first:
        assert line_of(first) == "ready\n"
        [suite] = running_suites(setting.state)
        with setting.start(sys.executable, "-c", wait, stdin=subprocess.PIPE) as second:
            assert line_of(second) == "ready\n"
            assert first.stdin
            first.stdin.close()
            assert first.wait(timeout=120) == 0
            time.sleep(0.5)  # more than twice what it takes to look
            assert running_suites(setting.state) == [suite]
            assert is_open(setting.proxy)
    setting.wait_until_gone()


def test_programs_that_start_at_once_share_one_suite(setting: Setting) -> None:
    program = "import os, sys, time; print(os.environ['HTTPS_PROXY'], flush=True); time.sleep(1)"
    started = [setting.start(sys.executable, "-c", program, stderr=subprocess.PIPE) for _ in range(3)]
    said = [process.communicate(timeout=120) for process in started]
    assert said == [(f"http://127.0.0.1:{setting.proxy}\n", "")] * 3
    # And one that comes while the suite is about to end has one as well.
    assert setting.run("true").returncode == 0
    setting.wait_until_gone()


def test_a_suite_ends_although_the_command_was_killed(setting: Setting) -> None:
    with setting.start("cat", stdin=subprocess.PIPE) as process:
        eventually(lambda: len(running_suites(setting.state)) == 1)
        process.kill()
    setting.wait_until_gone()


def test_a_state_directory_that_cannot_be_used_is_said(setting: Setting) -> None:
    setting.state.write_text("a file")
    ran = setting.run("true")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("set state to another directory\n")


def test_the_authority_is_made_once_and_kept(setting: Setting) -> None:
    said = mitmemory("env", "--config", str(setting.config), "--shell", "bash").stdout
    values: Mapping[str, str] = dict(line.removeprefix("export ").split("=", 1) for line in said.splitlines())
    certificate = Path(values["NODE_EXTRA_CA_CERTS"]).read_bytes()
    read = "import os, sys; sys.stdout.write(open(os.environ['NODE_EXTRA_CA_CERTS']).read())"
    assert setting.run(sys.executable, "-c", read).stdout.encode() == certificate
    assert (setting.state / "mitmproxy").stat().st_mode & 0o077 == 0
