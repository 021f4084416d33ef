"""Where a request really goes: local or cloud, decided before connecting, and the very address that is then dialled."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from addons.guard import Address, resolve
from addons.providers import Provider
from memory.exchange import Place

MOST_REMEMBERED = 1000
PROBE_SECONDS = 0.5

type HostPort = tuple[str, int]


class Destinations:
    """What each `(host, port)` of a provider was last decided to mean. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._dial: OrderedDict[HostPort, HostPort] = OrderedDict()

    async def decide(self, provider: Provider, model: str, host: str, port: int) -> Place:
        """Where a request for `model` to this host ends up (interception.md, "Local or cloud").

        A name that is local by its addresses is pinned to one of them, so that it cannot mean this machine when it is
        judged and another when it is dialled. What is cloud is judged strictly already, wherever it leads.
        """
        if provider.connect_to is not None:
            self._remember((host, port), (provider.connect_to.host, provider.connect_to.port))
            if provider.cloud or provider.local is not None:
                return provider.place(model, ())
            return provider.place(model, await resolve(provider.connect_to.host, provider.connect_to.port))
        if provider.cloud or provider.local is not None:
            self.forget(host, port)  # it may have had a `connect_to`, until its entry changed
            return provider.place(model, ())
        addresses = await resolve(host, port)
        decided = provider.place(model, addresses)
        if decided == "cloud":
            self.forget(host, port)
        elif str(addresses[0]) != host:
            pinned = self.dial(host, port)
            if pinned not in [(str(address), port) for address in addresses]:
                pinned = (str(await _answering(addresses, port)), port)
            self._remember((host, port), pinned)
        return decided

    def dial(self, host: str, port: int) -> HostPort | None:
        """The address to dial instead; None: as it stands."""
        return self._dial.get((host, port))

    def forget(self, host: str, port: int) -> None:
        """Find the address anew with the next request, as after one that could not be reached."""
        self._dial.pop((host, port), None)

    def _remember(self, asked: HostPort, dialled: HostPort) -> None:
        self._dial[asked] = dialled
        self._dial.move_to_end(asked)
        if len(self._dial) > MOST_REMEMBERED:
            self._dial.popitem(last=False)


async def _answering(addresses: Sequence[Address], port: int) -> Address:
    """The first address that accepts a connection, since `localhost` is `::1` and 127.0.0.1 and most servers have one."""
    if len(addresses) > 1:
        for address in addresses:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS):
                    _, writer = await asyncio.open_connection(str(address), port)
                writer.close()
                return address
    return addresses[0]
