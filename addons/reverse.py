"""Reverse: listeners for clients that take a base URL instead of a proxy (`proxy.reverse`); they need no certificate.

mitmproxy's reverse mode leads every request to one server. Here is added what it lacks: a path in the upstream's URL,
and a look at the name that a request was sent to. mitmproxy would replace that name by the server's own, and with it
the server's defence against web pages whose name was made to mean this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence

from mitmproxy import http
from mitmproxy.net.http import url
from mitmproxy.proxy import server_hooks
from mitmproxy.proxy.mode_specs import ReverseMode

from addons.config_model import ReverseConfig
from addons.config_values import Address

_REFUSED = "this listener of mitmemory answers only to the names of this machine: use http://127.0.0.1 and its port"
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal")
"""Names that no public name server gives out; `host.docker.internal` is how a container calls this machine."""


class Reverse:
    """Prepares the requests that come in by a reverse listener. mitmproxy's `keep_host_header` must be on."""

    def __init__(self, listeners: Sequence[ReverseConfig]) -> None:
        self._prefixes: Mapping[str, str] = {reverse_mode(one): one.upstream.prefix for one in listeners}

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        mode = flow.client_conn.proxy_mode
        if not isinstance(mode, ReverseMode) or flow.response or flow.is_replay:
            return  # what is sent again from the inspector has been prepared already
        if not is_own_name(flow.request.host_header or ""):
            flow.response = http.Response.make(
                403,
                json.dumps({"error": {"code": "foreign_name", "message": _REFUSED}}),
                {"Content-Type": "application/json"},
            )
            return
        flow.request.host_header = url.hostport(mode.scheme, *mode.address)
        flow.request.path = self._prefixes.get(mode.full_spec, "") + flow.request.path

    def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        """The name in the TLS hello is the server's, whatever name a client used that speaks TLS to us."""
        mode = data.client.proxy_mode
        if isinstance(mode, ReverseMode) and data.server.address == mode.address:
            data.server.sni = mode.address[0]


def reverse_mode(listener: ReverseConfig) -> str:
    """As mitmproxy's option `mode` says it."""
    upstream, listen = listener.upstream, listener.listen
    return f"reverse:{upstream.scheme}://{Address(upstream.host, upstream.port)}@{listen.host}:{listen.port}"


def is_own_name(host_header: str) -> bool:
    """Whether a `Host` header names this machine: an address of any kind, `localhost`, or a name of a private zone.

    An address cannot be rebound, and only the listener's own leads here.
    """
    host = host_header.strip().lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(_PRIVATE_ENDINGS):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
