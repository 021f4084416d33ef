"""Send: dials the address that was decided on; host, path, headers and TLS name stay the provider's.

The address is swapped only while the connection is made. Afterwards it says again what the request asked for, since
mitmproxy finds a connection to use again by comparing the two (tests/addons/test_send.py).
"""

from __future__ import annotations

from mitmproxy import http
from mitmproxy.proxy import server_hooks
from mitmproxy.proxy.mode_specs import ReverseMode

from addons.destinations import Destinations
from addons.providers import ProviderTable


class Send:
    """Sends each request to where `Destinations` says."""

    def __init__(self, providers: ProviderTable, destinations: Destinations) -> None:
        self._providers = providers
        self._destinations = destinations
        self._asked: dict[str, tuple[str, int]] = {}

    def request(self, flow: http.HTTPFlow) -> None:
        provider = self._providers.find(flow.request.host, flow.request.port)
        if provider and provider.connect_to and not flow.response:
            flow.request.scheme = provider.connect_to.scheme

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        self._show_as_asked(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._show_as_asked(flow)

    def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        if data.server.error or data.server.address is None:
            return
        host, port = data.server.address[:2]
        if (dialled := self._destinations.dial(host, port)) is not None:
            self._asked[data.server.id] = (host, port)
            data.server.address = dialled

    def server_connected(self, data: server_hooks.ServerConnectionHookData) -> None:
        self._restore(data)

    def server_connect_error(self, data: server_hooks.ServerConnectionHookData) -> None:
        self._restore(data)
        if data.server.address is not None:
            self._destinations.forget(*data.server.address[:2])

    def _restore(self, data: server_hooks.ServerConnectionHookData) -> None:
        if (asked := self._asked.pop(data.server.id, None)) is not None:
            # mitmproxy guards the address of an open connection; what is dialled stays in `peername`.
            object.__setattr__(data.server, "address", asked)

    def _show_as_asked(self, flow: http.HTTPFlow) -> None:
        """Once the request is on its way, it is shown with the scheme that the client used."""
        provider = self._providers.find(flow.request.host, flow.request.port)
        if provider and provider.connect_to:
            mode, tls = flow.client_conn.proxy_mode, flow.client_conn.tls_established
            # A client that takes a base URL speaks plain HTTP to us, and means the server behind it.
            flow.request.scheme = mode.scheme if isinstance(mode, ReverseMode) else "https" if tls else "http"
