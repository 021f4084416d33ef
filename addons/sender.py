"""Sender: who sends? Keeps the proxy user of each client connection, strips it, and names the client of a flow.

`HTTPS_PROXY=http://claude-code:x@127.0.0.1:8080` names a client; nobody has to, so nothing is ever refused for it. The
header goes no further: plain HTTP would carry it on to the server.
"""

from __future__ import annotations

from mitmproxy import connection, ctx, http
from mitmproxy.addons.proxyauth import parse_http_basic_auth
from mitmproxy.proxy.mode_specs import UpstreamMode

from addons.clients import ClientTable, Sender
from addons.config_values import Address
from addons.headers import has, plain

HEADER = "Proxy-Authorization"
KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
"""Headers that hold an API key and nothing else: Anthropic's, Google's, Azure's."""


class Senders:
    """Tells the client of each flow by `table`, which may be exchanged while running."""

    name = "mitmemory_sender"

    def __init__(self, table: ClientTable) -> None:
        self.table = table
        self._users: dict[str, str] = {}

    def http_connect(self, flow: http.HTTPFlow) -> None:
        self._take_user(flow)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        # What stands there then is mitmproxy's own, for the proxy behind it.
        is_ours = isinstance(flow.client_conn.proxy_mode, UpstreamMode) and bool(ctx.options.upstream_auth)
        self._take_user(flow, keep_header=is_ours)

    def client_disconnected(self, client: connection.Client) -> None:
        self._users.pop(client.id, None)

    def client_of(self, flow: http.HTTPFlow) -> str:
        """The slug of the client that sent this flow."""
        return self.table.find(self.sender_of(flow))

    def sender_of(self, flow: http.HTTPFlow) -> Sender:
        headers = plain(flow.request.headers)
        sockname = flow.client_conn.sockname
        keys = [headers[name].strip() for name in KEY_HEADERS if name in headers]
        scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() == "bearer":
            keys.append(credentials.strip())
        return Sender(
            listen=str(Address(sockname[0], sockname[1])) if sockname else None,
            proxy_user=self._users.get(flow.client_conn.id),
            api_keys=tuple(dict.fromkeys(key for key in keys if key)),
            user_agent=headers.get("user-agent", ""),
        )

    def _take_user(self, flow: http.HTTPFlow, *, keep_header: bool = False) -> None:
        user = None
        if has(flow.request.headers, HEADER) and not keep_header:
            user = _user_of(flow.request.headers[HEADER])
            del flow.request.headers[HEADER]
        # With mitmproxy's option `proxyauth` it was there first; its note holds the password and is saved with the flow.
        if checked := flow.metadata.pop("proxyauth", None):
            user = checked[0]
        if user:
            self._users[flow.client_conn.id] = user


def _user_of(header: str) -> str | None:
    try:
        return parse_http_basic_auth(header)[1]
    except ValueError:
        return None
