"""A suite with an HTTP/2 server behind it that does what a test's script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from addons.demo.authority import AuthorityPaths
from tests.addons.conftest import configuration
from tests.addons.hostile import ALL, SECONDS, WHOLE, asked_for, begun, ended, entry_of, question, said, tells
from tests.addons.http2_peers import Call, Client, Upstream
from tests.harness import Loop, SuiteProcess
from tests.own_time import patience

ANTHROPIC = "api.anthropic.com"
SSE = "text/event-stream"
FIRST, REST = begun(), said("The tide turns at noon. 🌊") + ended()

type Step = Callable[[Call], Awaitable[None]]


class Stage:
    """A suite and the server behind it; `scripts` is model -> what the server does."""

    suite: SuiteProcess
    upstream: Upstream

    def __init__(self, background: Loop) -> None:
        self.background = background
        self.scripts: dict[str, Step] = {}

    async def play(self, call: Call) -> None:
        script = self.scripts.get(asked_for(bytes(call.body)))
        if script is not None:
            await script(call)
        else:
            call.begin(content_type=SSE)
            await call.send(WHOLE, end=True)

    def calls(self, model: str) -> list[Call]:
        return [call for call in self.upstream.calls if asked_for(bytes(call.body)) == model]

    def connection(self, model: str) -> int:
        """The number of the server's connection that a request came by."""
        (call,) = self.calls(model)
        return self.upstream.peers.index(call.peer)

    def let(self, event: asyncio.Event) -> None:
        self.background.loop.call_soon_threadsafe(event.set)

    async def client(self) -> Client:
        return await Client.connect(self.suite, ANTHROPIC)

    async def goes_on(self, client: Client, model: str) -> None:
        """The next request of this client is served."""
        reply = await client.ask(question(model))
        await over(reply.over)
        assert reply.told == (200, WHOLE, "")
        assert tells(await entry_of(self.suite, model)) == (200, "answered", ALL, len(WHOLE))
        assert len(self.calls(model)) == 1


async def over(event: asyncio.Event) -> None:
    async with asyncio.timeout(SECONDS * patience()):
        await event.wait()


def staged(background: Loop, folder: Path, vault: Path, authority: AuthorityPaths, **more: Any) -> Iterator[Stage]:
    made = Stage(background)
    context = authority.server_context()
    context.set_alpn_protocols(["h2"])
    made.upstream = Upstream(made.play, context, **more)
    background.run(made.upstream.start())
    config = configuration(vault, {"anthropic": f"https://127.0.0.1:{made.upstream.port}"})
    with SuiteProcess(folder, config, trust=authority.authority) as running:
        made.suite = running
        yield made
    background.run(made.upstream.stop())
