"""Real clients from npm, kept apart from whoever runs the tests: a home of their own, a dummy key, loopback only."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import Received, ScriptedModel
from memory.exchange import Usage
from tests.harness import Loop, SuiteProcess

CLIENTS = Path(__file__).parent / "clients" / "node_modules"
KEY = "dummy-key-of-the-tests"
LAMP, HORN, FERRY = (f"vault/light/{name}.md" for name in ("Lighthouse", "Foghorn", "Ferry"))

# Nothing but what it sends to its provider: no usage statistics, no look for plugins, no look for a newer version.
CODEX_SETTINGS = """check_for_update_on_startup = false
[analytics]
enabled = false
[features]
apps = false
plugins = false
"""
LINES_SEEN = pytest.StashKey[list[str]]()

# Four lines of 24 characters or more; the heading, the tag and the list are too short.
LIGHTHOUSE = """---
tags: [work]
---
# Lighthouse lamp

The lamp turns once in eleven seconds now.
Ordered two spare bearings from the depot.
- oil
The keeper's log says the old lens fogged in May.
Call the harbour office before the next spring tide.
"""


@pytest.fixture(scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three notes; the clients are asked about the lamp."""
    folder = tmp_path_factory.mktemp("notes") / "vault"
    (folder / "light").mkdir(parents=True)
    (folder / "light" / "Lighthouse.md").write_text(LIGHTHOUSE, "utf-8")
    (folder / "light" / "Foghorn.md").write_text("The foghorn sounds twice in every minute.\n", "utf-8")
    (folder / "light" / "Ferry.md").write_text("The last ferry leaves at a quarter past nine.\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def model(background: Loop, authority: AuthorityPaths) -> Iterator[ScriptedModel]:
    """The scripted model over TLS, in a thread of its own."""

    async def start() -> ScriptedModel:
        return await ScriptedModel(tls=authority.server_context()).__aenter__()

    running = background.run(start())
    yield running
    background.run(running.__aexit__())


def proxy(suite: SuiteProcess, user: str = "") -> str:
    """The address as a client is given it, with the name under which it uses the proxy."""
    return suite.proxy.replace("http://", f"http://{user}:x@", 1) if user else suite.proxy


@dataclass(frozen=True, slots=True)
class Home:
    """A person's machine in a folder: home, project, and the environment that sends clients through the proxy."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def environment(self, suite: SuiteProcess, variables: Mapping[str, str], user: str = "") -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": f"{Path(node()).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTPS_PROXY": proxy(suite, user),
            "NO_PROXY": "localhost,127.0.0.1,::1",
            "NODE_EXTRA_CA_CERTS": str(suite.ca),
            **variables,
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.project.mkdir(parents=True)
    return made


def run_client(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, stdin: str = "", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, in a process group of its own, of which nothing is left however that end comes."""
    with subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def node() -> str:
    found = shutil.which("node")
    assert found, "the clients need Node.js"
    return found


def native_program(package: str, path: str) -> str:
    """The program that an npm package brings for this platform; `path` is a pattern below the package."""
    system = {"Linux": "linux", "Darwin": "darwin"}[os.uname().sysname]
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[os.uname().machine]
    folder = CLIENTS / f"{package}-{system}-{machine}"
    found = next(folder.glob(path), None)
    assert found is not None, f"{folder / path} is missing: run make test-e2e, which installs it"
    return str(found)


class ClaudeCode:
    """Claude Code in a home of its own, sent through the suite, by the proxy's `user` where one is named."""

    def __init__(self, home: Home, suite: SuiteProcess, user: str = "") -> None:
        self._program = native_program("@anthropic-ai/claude-code", "claude")
        self._project = home.project
        self._environment = home.environment(
            suite,
            {
                "ANTHROPIC_API_KEY": KEY,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "ENABLE_TOOL_SEARCH": "false",  # all tools are in each request, those of MCP servers too
                "IS_SANDBOX": "1",
            },
            user,
        )

    def ask(self, *arguments: str) -> str:
        ran = self.run(*arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_client([self._program, "-p", *arguments], self._environment, self._project)

    def command(self, *arguments: str) -> str:
        """What one of its commands prints."""
        ran = run_client([self._program, *arguments], self._environment, self._project)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


class Codex:
    """Codex in a home of its own, sent through the suite, by the proxy's `user` where one is named."""

    def __init__(self, home: Home, suite: SuiteProcess, user: str = "") -> None:
        self._program = native_program("@openai/codex", "vendor/*/bin/codex")
        self._project = home.project
        self._settings = home.folder / ".codex" / "config.toml"
        self._settings.parent.mkdir()
        self._settings.write_text(CODEX_SETTINGS)
        self._environment = home.environment(
            suite,
            {"CODEX_CA_CERTIFICATE": str(suite.ca), "CODEX_HOME": str(self._settings.parent), "OPENAI_API_KEY": KEY},
            user,
        )
        self.session = ""
        self.model = ""

    def ask(self, *arguments: str) -> str:
        """What it prints; the session and the model are those that it names."""
        ran = run_client([self._program, "exec", "--skip-git-repo-check", *arguments], self._environment, self._project)
        assert ran.returncode == 0, ran.stderr
        said = dict(re.findall(r"^([a-z ]+): (.+)$", ran.stderr, re.MULTILINE))
        self.session, self.model = said["session id"], said["model"]
        return ran.stdout

    def add_server(self, name: str, url: str, token: str) -> None:
        """An MCP server over HTTP, by a token in the environment. Codex begins no turn before it is there."""
        with self._settings.open("a") as file:
            file.write(f'[mcp_servers.{name}]\nurl = "{url}"\nbearer_token_env_var = "MITMEMORY_TOKEN"\n')
            file.write("required = true\n")
        self._environment["MITMEMORY_TOKEN"] = token


def python(program: str) -> tuple[str, ...]:
    """The command for one of our programs with an SDK for Python."""
    return sys.executable, "-W", "ignore", str(Path(__file__).parent / "programs" / program)


def sdk_environment(suite: SuiteProcess, user: str = "") -> dict[str, str]:
    """What sends a program with an SDK through the proxy.

    A NO_PROXY for loopback would send what is for a local Ollama past it.
    """
    return {
        "HTTPS_PROXY": proxy(suite, user),
        "HTTP_PROXY": proxy(suite, user),
        "SSL_CERT_FILE": str(suite.ca.with_name("ca-bundle.pem")),
        "NODE_EXTRA_CA_CERTS": str(suite.ca),
    }


def seen(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What tests compare of an activity entry: all but ids, times, sizes and evidence."""
    sent = [(one["model"], one["to"], one["upstream"]) for one in entry["sentTo"]]
    assert sent == [(entry["model"], entry["to"], sent[0][2])]
    return {
        "client": entry["client"],
        "protocol": entry["protocol"],
        "model": entry["model"],
        "to": f"{entry['to']}: {entry['provider']} at {sent[0][2]}",
        "notes": {one["id"]: found(one) for one in entry["notes"]},
        "side": entry["sideRequest"],
        "scan": entry["scan"]["state"],
        "outcome": entry["outcome"],
        "usage": entry["usage"],
    }


def found(note: Mapping[str, Any]) -> str:
    """`4/4 lines`, `name`, `listing`; with `, again` for what this conversation already carried."""
    kinds = {"line": f"{note['matched']}/{note['distinctive']} lines", "reference": "name"}
    return kinds.get(note["grade"], note["grade"]) + (", again" if note["resent"] else "")


def counted(usage: Usage) -> dict[str, int | None]:
    """Usage as an activity entry shows it."""
    return usage.to_json()


class Report(Protocol):
    def __call__(
        self, client: str, received: Sequence[Received], entries: Sequence[Mapping[str, Any]], how: str = ""
    ) -> None: ...


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Tells at the end of the run what the entries, oldest first, say of a client.

    The version is the one that its User-Agent names.
    """
    lines = request.config.stash.setdefault(LINES_SEEN, [])

    def add(client: str, received: Sequence[Received], entries: Sequence[Mapping[str, Any]], how: str = "") -> None:
        agent = next(value for one in received if (value := one.header("user-agent")))
        number = re.search(r"\d+(\.\d+)+", agent)
        assert number, f"no version in {agent!r}"
        lines.append(f"{client} {number[0]}{how}:")
        for entry in entries:
            notes = ", ".join(sorted(f"{note['title']} {found(note)}" for note in entry["notes"])) or "no note"
            side = " (side request)" if entry["sideRequest"] else ""
            size = entry["bytes"]["request"]
            lines.append(f"  {size:>7,} bytes of {entry['protocol']} to {entry['model']}{side}: {notes}")

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(LINES_SEEN, []):
        terminalreporter.section("what was seen of each client")
        for line in lines:
            terminalreporter.line(line)
