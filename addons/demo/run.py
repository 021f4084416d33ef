"""`mitmemory demo`: the suite on the sample vault, with the scripted model for every provider, kept apart from the rest.

Nothing of the person's is read or written: the demo has a configuration and a state directory of its own.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from addons.clients import ClientConfig, MatchConfig
from addons.config import Config, ConversationsConfig, DashboardConfig, MemoryConfig, ProxyConfig, SourceConfig
from addons.config_values import Address, ConnectTo
from addons.demo import play
from addons.demo.authority import make_authority
from addons.demo.model import ScriptedModel
from addons.demo.sample import CLAUDE, GRAPH, SOURCE, VAULT
from addons.demo.script import ASSISTANT
from addons.exits import FAILED, INTERRUPTED, OK
from addons.greeting import greet
from addons.launcher import Running, launch
from addons.makers import StartError
from addons.providers import ProviderConfig

CLOUD = ("anthropic", "openai", "google")
"""The providers whose traffic goes to the scripted model."""
ANY_PORT = Address("127.0.0.1", 0)


def run_demo(*, once: bool) -> int:
    """The exit code: 0 when the suite says of every note what was sent; without `once` it runs until it is ended.

    With `once` it is 130 when it was ended by Ctrl-C before that was known.
    """
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="mitmemory-demo-") as folder,
        socket.create_server(ANY_PORT) as tls_socket,
        socket.create_server(ANY_PORT) as plain_socket,
    ):
        authority = make_authority(Path(folder))
        config = demo_config(
            tls_socket.getsockname()[1], plain_socket.getsockname()[1], authority.authority, Path(folder, "memory")
        )
        show = Show(
            lambda: ScriptedModel(
                play.demo_script(), tls=authority.server_context(), sock=tls_socket, plain_sock=plain_socket
            ),
            console,
            once=once,
        )
        try:
            launch(config, show.begin)
        except StartError as error:
            console.print(f"mitmemory: {error}", markup=False, style="red")
            return FAILED
    return show.code


def demo_config(tls_port: int, plain_port: int, authority: Path, conversations: Path) -> Config:
    """The sample vault and two small memories, and a client that is remembered in the folder `conversations`.

    Every cloud leads to the scripted model's TLS port, and a local Ollama is its plain one.
    """
    cloud = ConnectTo("https", "127.0.0.1", tls_port)
    return Config(
        proxy=ProxyConfig(
            listen=ANY_PORT,
            inspector=ANY_PORT,
            mitmproxy={"ssl_verify_upstream_trusted_ca": str(authority)},
        ),
        memory=MemoryConfig(
            sources=(
                SourceConfig(SOURCE, "markdown", VAULT),
                SourceConfig("claude-code", "claude_code", CLAUDE),
                SourceConfig("mcp-memory", "knowledge_graph", GRAPH),
            )
        ),
        providers=(
            *(ProviderConfig(name, connect_to=cloud) for name in CLOUD),
            ProviderConfig("ollama", hosts=(f"127.0.0.1:{plain_port}",)),
        ),
        clients=(
            ClientConfig("assistant", MatchConfig(user_agent=f"{ASSISTANT}*"), mode="mcp_via_llm", memory_enabled=True),
        ),
        conversations=ConversationsConfig(directory=conversations),
        dashboard=DashboardConfig(listen=ANY_PORT),
        state=None,
    )


class Show:
    """The part of the demo that runs inside the suite's event loop: the model, and the client that plays."""

    def __init__(self, make_model: Callable[[], ScriptedModel], console: Console, *, once: bool) -> None:
        self._make_model = make_model
        self._console = console
        self._once = once
        self._playing: asyncio.Task[None] | None = None
        self.code = INTERRUPTED if once else OK
        """What the command ends with: with `once` what the comparison gives, once it is made."""

    def begin(self, running: Running, end: Callable[[], None]) -> None:
        """Called by the launcher once the suite is up; `end` ends it."""
        if not self._once:
            greet(running, self._console)
            self._console.print()
        self._playing = asyncio.get_running_loop().create_task(self._play(running, end), name="demo")

    async def _play(self, running: Running, end: Callable[[], None]) -> None:
        suite = running.suite
        dashboard = suite.config.dashboard
        try:
            async with self._make_model() as model:
                self.code = await play.run_demo(
                    proxy_url=running.proxy_url,
                    ca_file=running.ca_certificate,
                    api_url=f"http://{dashboard.listen}{dashboard.prefix}",
                    api_token=suite.tokens.admin,
                    local_url=model.plain_url,
                    once=self._once,
                    console=self._console,
                )
        except Exception:  # whatever it is, the command does not end as if it had worked
            self.code = FAILED
            raise
        finally:
            end()
