"""Real clients from npm, kept apart from whoever runs the tests: a home of their own, a dummy key, loopback only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from addons.demo.authority import AuthorityPaths
from addons.demo.model import ScriptedModel
from tests.harness import Loop, SuiteProcess

CLIENTS = Path(__file__).parent / "clients" / "node_modules"


@pytest.fixture(scope="module")
def model(background: Loop, authority: AuthorityPaths) -> Iterator[ScriptedModel]:
    """The scripted model over TLS, in a thread of its own."""

    async def start() -> ScriptedModel:
        return await ScriptedModel(tls=authority.server_context()).__aenter__()

    running = background.run(start())
    yield running
    background.run(running.__aexit__())


@dataclass(frozen=True, slots=True)
class Home:
    """A person's machine in a folder: home, project, and the environment that sends clients through the proxy."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def environment(self, suite: SuiteProcess, variables: Mapping[str, str]) -> dict[str, str]:
        node = shutil.which("node")
        assert node, "the clients need Node.js"
        return {
            "HOME": str(self.folder),
            "PATH": f"{Path(node).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTPS_PROXY": suite.proxy,
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
    command: list[str], environment: Mapping[str, str], folder: Path, *, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def native_program(package: str, name: str) -> str:
    """The program that an npm package brings for this platform."""
    system = {"Linux": "linux", "Darwin": "darwin"}[os.uname().sysname]
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[os.uname().machine]
    program = CLIENTS / f"{package}-{system}-{machine}" / name
    assert program.exists(), f"{program} is missing: run make test-e2e, which installs it"
    return str(program)
