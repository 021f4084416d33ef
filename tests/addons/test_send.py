"""The address is swapped for the time of dialling. Pins how mitmproxy guards and compares addresses."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.proxy.layers.http import GetHttpConnection
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from addons.config_values import ConnectTo
from addons.destinations import Destinations
from addons.providers import ProviderConfig, ProviderTable
from addons.send import Send
from tests.addons.parts import connection_to, flow_to

ANTHROPIC = ("api.anthropic.com", 443)
GATEWAY = ("127.0.0.1", 9911)


class Pinned(Destinations):
    """Anthropic is dialled at the gateway."""

    def dial(self, host: str, port: int) -> tuple[str, int] | None:
        return GATEWAY if (host, port) == ANTHROPIC else None


def sender(scheme: str = "https") -> Send:
    table = ProviderTable([ProviderConfig("anthropic", connect_to=ConnectTo(scheme, *GATEWAY))])
    return Send(table, Pinned())


def connected(send: Send, data: ServerConnectionHookData) -> None:
    data.server.state = ConnectionState.OPEN
    data.server.peername = data.server.address
    send.server_connected(data)


# ---- what mitmproxy does


def test_mitmproxy_refuses_a_new_address_for_an_open_connection() -> None:
    server = Server(address=GATEWAY)
    server.state = ConnectionState.OPEN
    with pytest.raises(RuntimeError, match=r"Cannot change server\.address on open connection"):
        server.address = ANTHROPIC
    object.__setattr__(server, "address", ANTHROPIC)
    assert server.address == ANTHROPIC


def test_mitmproxy_compares_addresses_to_use_a_connection_again() -> None:
    server = Server(address=ANTHROPIC)
    server.tls = True
    asked = GetHttpConnection(ANTHROPIC, tls=True, via=None, transport_protocol="tcp")
    assert asked.connection_spec_matches(server)
    object.__setattr__(server, "address", GATEWAY)
    assert not asked.connection_spec_matches(server)
    assert "self.address == connection.address" in inspect.getsource(GetHttpConnection)


# ---- dialling


def test_the_address_is_swapped_and_restored() -> None:
    send, data = sender(), connection_to(*ANTHROPIC)
    data.server.sni = "api.anthropic.com"
    send.server_connect(data)
    assert data.server.address == GATEWAY
    connected(send, data)
    assert (data.server.address, data.server.peername, data.server.sni) == (ANTHROPIC, GATEWAY, "api.anthropic.com")


def test_an_error_restores_it_too() -> None:
    send, data = sender(), connection_to(*ANTHROPIC)
    send.server_connect(data)
    data.server.error = "Connection refused"
    send.server_connect_error(data)
    assert data.server.address == ANTHROPIC


def test_nothing_is_left_behind_by_connections_that_are_over() -> None:
    send = sender()
    for end in (send.server_connected, send.server_connect_error):
        data = connection_to(*ANTHROPIC)
        send.server_connect(data)
        end(data)
        end(data)
    assert send._asked == {}


def test_two_connections_at_once_keep_apart() -> None:
    send, first, second = sender(), connection_to(*ANTHROPIC), connection_to(*ANTHROPIC)
    send.server_connect(first)
    send.server_connect(second)
    connected(send, second)
    assert (first.server.address, second.server.address) == (GATEWAY, ANTHROPIC)
    connected(send, first)
    assert first.server.address == ANTHROPIC


@pytest.mark.parametrize(
    ("address", "error"),
    [(("files.example", 443), None), (("api.anthropic.com", 80), None), (ANTHROPIC, "refused before"), (None, None)],
)
def test_other_connections_are_dialled_as_they_stand(address: Any, error: str | None) -> None:
    send, data = sender(), connection_to("unset", 1)
    data.server.address, data.server.error = address, error
    send.server_connect(data)
    assert (data.server.address, data.server.error) == (address, error)
    connected(send, data)
    assert data.server.address == address


def test_an_ipv6_address_with_flow_and_scope_is_dialled_as_it_stands() -> None:
    data = connection_to("unset", 1)
    address: Any = ("fe80::1", 443, 0, 2)
    object.__setattr__(data.server, "address", address)
    sender().server_connect(data)
    assert data.server.address is address


# ---- the scheme


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("tls", [True, False])
def test_a_request_is_sent_with_the_gateways_scheme_and_shown_with_the_clients(scheme: str, tls: bool) -> None:
    asked = "https" if tls else "http"
    for shown in ("responseheaders", "error"):
        send, flow = sender(scheme), flow_to(f"{asked}://api.anthropic.com:443/v1/messages")
        flow.client_conn.tls = tls
        flow.client_conn.timestamp_tls_setup = 1.0 if tls else None
        send.request(flow)
        assert (flow.request.scheme, flow.request.host, flow.request.port) == (scheme, *ANTHROPIC)
        getattr(send, shown)(flow)
        assert flow.request.scheme == asked


def test_a_request_that_is_answered_already_or_goes_elsewhere_keeps_its_scheme() -> None:
    send = sender("http")
    for flow in (
        flow_to(status=403),
        flow_to("https://api.openai.com/v1/responses"),
        flow_to("https://files.example/"),
    ):
        send.request(flow)
        assert flow.request.scheme == "https"
    plain = flow_to("http://files.example/")
    send.responseheaders(plain)
    send.error(plain)
    assert plain.request.scheme == "http"
