"""Nothing reaches the suite's own pages through the proxy.

The dashboard and the inspector listen on loopback, where every local program may knock; through the proxy, so could
whatever a client can be talked into fetching (the way of mitmweb's CVE-2025-23217). Their tokens are the real lock;
this is the wall in front of it. It judges addresses, not spellings: a name is resolved first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
from collections.abc import Callable, Collection

from mitmproxy import http
from mitmproxy.proxy import server_hooks

logger = logging.getLogger(__name__)

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_REFUSED = "mitmemory does not lead to its own pages: open the dashboard directly, without the proxy"


class Guard:
    """Refuses requests and connections to `ports` of this machine. Those are read anew each time: they may be late.

    `is_led` tells the connections that the suite itself leads to one of them.
    """

    def __init__(
        self,
        ports: Collection[int],
        is_led: Callable[[server_hooks.ServerConnectionHookData], bool] = lambda _: False,
    ) -> None:
        self._ports = ports
        self._is_led = is_led

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response:
            return
        if await self._is_own(flow.request.host, flow.request.port):
            logger.warning("Refused: %s asked for the suite's own port %d", _peer(flow), flow.request.port)
            flow.response = http.Response.make(
                403,
                json.dumps({"error": {"code": "own_pages", "message": _REFUSED}}),
                {"Content-Type": "application/json"},
            )

    async def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        if data.server.error or data.server.address is None:
            return
        host, port = data.server.address[:2]
        if port not in self._ports or self._is_led(data):
            return
        addresses = await resolve(host, port)
        if not addresses or any(is_this_machine(address) for address in addresses):
            data.server.error = _REFUSED
        else:
            # What was judged is dialled: asked a second time, the name might lead here.
            data.server.address = (str(addresses[0]), port)

    async def _is_own(self, host: str, port: int) -> bool:
        return port in self._ports and any(is_this_machine(address) for address in await resolve(host, port))


def is_this_machine(address: Address) -> bool:
    """Loopback or unspecified (`0.0.0.0` and `::` connect to loopback), IPv4-mapped ones unmapped."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


async def resolve(host: str, port: int) -> list[Address]:
    """Every address that connecting to `host` may dial, in the resolver's order; empty if it does not resolve.

    The system's resolver reads the odd spellings of an address (`127.1`, `0x7f000001`, `2130706433`) as the
    connection itself would.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: a label that IDNA cannot encode
        return []
    return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]


def _peer(flow: http.HTTPFlow) -> str:
    return flow.client_conn.peername[0] if flow.client_conn.peername else "a client"
