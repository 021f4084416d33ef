"""Who sends: the proxy user is read, kept for the connection, and goes no further."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.addons.upstream_auth import UpstreamAuth
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons

from addons.clients import ClientConfig, ClientTable, MatchConfig, Sender
from addons.sender import Senders
from tests.addons.parts import flow_to


def basic(credentials: str | bytes) -> str:
    return "Basic " + b64encode(credentials.encode() if isinstance(credentials, str) else credentials).decode()


def sent(headers: Mapping[str, str] | None = None) -> http.HTTPFlow:
    flow = flow_to(headers=headers)
    flow.client_conn.sockname = ("127.0.0.1", 8080)
    return flow


def senders() -> Senders:
    return Senders(ClientTable([ClientConfig("mine", MatchConfig(proxy_user="me"))], b""))


@pytest.mark.parametrize(
    ("header", "user"),
    [
        (basic("me:x"), "me"),
        (basic("me:"), "me"),
        (basic("me:a:b"), "me"),
        ("basic " + b64encode(b"me:x").decode(), "me"),
        (basic("mé:x"), "mé"),
        (basic(":x"), None),
        (basic("me"), None),
        (basic(b"\xff:x"), "\ufffd"),
        ("Basic !!!", None),
        ("Bearer abc", None),
        ("Basic", None),
        ("", None),
    ],
)
def test_the_user_is_read_and_the_header_stripped(header: str, user: str | None) -> None:
    who, flow = senders(), sent({"Proxy-Authorization": header, "Authorization": "Bearer k"})
    who.requestheaders(flow)
    assert who.sender_of(flow).proxy_user == user
    assert "proxy-authorization" not in flow.request.headers
    assert flow.request.headers["authorization"] == "Bearer k"


def test_the_user_of_a_tunnel_is_that_of_every_request_in_it() -> None:
    who, connect, inner, other = senders(), sent({"Proxy-Authorization": basic("me:x")}), sent(), sent()
    inner.client_conn = connect.client_conn
    who.http_connect(connect)
    who.requestheaders(inner)
    assert "proxy-authorization" not in connect.request.headers
    assert (who.client_of(inner), who.client_of(other)) == ("mine", "unknown")
    who.client_disconnected(connect.client_conn)
    assert who.client_of(inner) == "unknown"


def test_what_mitmproxy_has_checked_is_taken_over_without_the_password() -> None:
    who, flow = senders(), sent()
    flow.metadata["proxyauth"] = ("me", "secret")
    who.requestheaders(flow)
    assert who.client_of(flow) == "mine"
    assert flow.metadata == {}


def test_credentials_for_the_proxy_behind_stay() -> None:
    who, flow = senders(), sent({"Proxy-Authorization": basic("company:x")})
    flow.client_conn.proxy_mode = ProxyMode.parse("upstream:http://proxy.example:3128")
    with taddons.context(Proxyserver(), UpstreamAuth()) as context:
        context.options.upstream_auth = "company:x"
        who.requestheaders(flow)
        assert flow.request.headers["proxy-authorization"] == basic("company:x")
        assert who.sender_of(flow).proxy_user is None
        flow.metadata["proxyauth"] = ("me", "secret")  # with mitmproxy's `proxyauth` as well
        who.requestheaders(flow)
    assert flow.request.headers["proxy-authorization"] == basic("company:x")
    assert (who.client_of(flow), flow.metadata) == ("mine", {})


@pytest.mark.parametrize(
    ("headers", "keys"),
    [
        ({}, ()),
        ({"x-api-key": "sk-1"}, ("sk-1",)),
        ({"Authorization": "Bearer sk-1"}, ("sk-1",)),
        ({"authorization": "bearer  sk-1 "}, ("sk-1",)),
        ({"Authorization": "Basic abc"}, ()),
        ({"Authorization": "Bearer"}, ()),
        ({"x-api-key": "sk-1", "Authorization": "Bearer sk-2"}, ("sk-1", "sk-2")),
        ({"x-api-key": "sk-1", "Authorization": "Bearer sk-1"}, ("sk-1",)),
        ({"x-goog-api-key": "g"}, ("g",)),
        ({"api-key": "a"}, ("a",)),
        ({"x-api-key": ""}, ()),
    ],
)
def test_the_api_keys_of_a_request(headers: Mapping[str, str], keys: tuple[str, ...]) -> None:
    assert senders().sender_of(sent(headers)).api_keys == keys


def test_a_sender() -> None:
    flow = sent({"User-Agent": "tool/1", "x-api-key": "k"})
    assert senders().sender_of(flow) == Sender("127.0.0.1:8080", None, ("k",), "tool/1")
    flow.client_conn.sockname = ("::1", 8080, 0, 0)  # type: ignore[assignment] # as the system gives it
    assert senders().sender_of(flow).listen == "[::1]:8080"
