"""Nothing leads through the proxy to the suite's own pages, however the address is spelled."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
from typing import Any

import pytest

from addons.guard import Guard, is_this_machine, resolve
from tests.addons.parts import connection_to, flow_to

DASHBOARD, INSPECTOR = 8090, 8081
SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "127.0.0.2",
    "0177.0.0.1",
    "0x7f000001",
    "2130706433",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "0.0.0.0",
    "0",
    "::",
    "localhost",
    "LocalHost",
]


@pytest.fixture
def guard() -> Guard:
    return Guard({DASHBOARD, INSPECTOR})


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


@pytest.mark.parametrize("host", SPELLINGS)
async def test_a_request_to_an_own_port_is_refused(guard: Guard, host: str, caplog: pytest.LogCaptureFixture) -> None:
    flow = flow_to(url(host, DASHBOARD), method="GET")
    await guard.requestheaders(flow)
    assert flow.response
    assert flow.response.status_code == 403
    assert flow.response.headers["Content-Type"] == "application/json"
    assert json.loads(flow.response.get_text() or "") == {
        "error": {
            "code": "own_pages",
            "message": "mitmemory does not lead to its own pages: open the dashboard directly, without the proxy",
        }
    }
    assert caplog.record_tuples == [
        ("addons.guard", logging.WARNING, "Refused: 127.0.0.1 asked for the suite's own port 8090")
    ]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_a_connection_to_an_own_port_is_refused(guard: Guard, host: str) -> None:
    data = connection_to(host, INSPECTOR)
    await guard.server_connect(data)
    assert data.server.error == (
        "mitmemory does not lead to its own pages: open the dashboard directly, without the proxy"
    )


@pytest.mark.parametrize("host", SPELLINGS)
async def test_another_port_of_this_machine_is_none_of_its_business(guard: Guard, host: str) -> None:
    flow, data = flow_to(url(host, 11434)), connection_to(host, 11434)
    await guard.requestheaders(flow)
    await guard.server_connect(data)
    assert (flow.response, data.server.error) == (None, None)


@pytest.mark.parametrize("host", ["203.0.113.7", "192.168.7.7", "2001:db8::7"])
async def test_the_same_port_of_another_machine_is_none_either(guard: Guard, host: str) -> None:
    data = connection_to(host, DASHBOARD)
    await guard.server_connect(data)
    assert (data.server.error, data.server.address) == (None, (host, DASHBOARD))


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a..b", "\0"])
async def test_a_name_that_does_not_resolve_might_do_so_later(guard: Guard, host: str) -> None:
    data = connection_to(host, DASHBOARD)
    await guard.server_connect(data)
    assert data.server.error


async def test_the_address_that_was_judged_is_dialled(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.7", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    data = connection_to("rebound.example", DASHBOARD)
    await guard.server_connect(data)
    assert (data.server.error, data.server.address) == (None, ("203.0.113.7", DASHBOARD))


async def test_a_name_that_means_this_machine_too_is_refused(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        assert host in {"rebound.example", "LOCALHOST.", "localhost."}  # mitmproxy writes names in lower case
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.7", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    for host in ("rebound.example", "LOCALHOST."):
        flow, data = flow_to(f"http://{host}:{DASHBOARD}/"), connection_to(host, DASHBOARD)
        await guard.requestheaders(flow)
        await guard.server_connect(data)
        assert flow.response
        assert data.server.error


async def test_ports_that_become_known_later_are_guarded_too() -> None:
    ports: set[int] = set()
    guard = Guard(ports)
    early, late = connection_to("127.0.0.1", 9000), connection_to("127.0.0.1", 9000)
    await guard.server_connect(early)
    ports.add(9000)
    await guard.server_connect(late)
    assert (early.server.error, bool(late.server.error)) == (None, True)


async def test_what_was_answered_or_refused_before_is_left_alone(guard: Guard) -> None:
    flow = flow_to(url("127.0.0.1", DASHBOARD), status=418)
    await guard.requestheaders(flow)
    assert flow.response
    assert flow.response.status_code == 418
    data = connection_to("127.0.0.1", DASHBOARD)
    data.server.error = "another reason"
    await guard.server_connect(data)
    assert data.server.error == "another reason"
    data.server.error, data.server.address = None, None
    await guard.server_connect(data)
    assert data.server.error is None


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.255.255.254", True),
        ("0.0.0.0", True),
        ("::1", True),
        ("::", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:0.0.0.0", True),
        ("10.0.0.1", False),
        ("169.254.1.1", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("203.0.113.7", False),
    ],
)
def test_is_this_machine(address: str, own: bool) -> None:
    assert is_this_machine(ipaddress.ip_address(address)) is own


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a..b", "x" * 300, "\0", "::1%nowhere", "[::1]"])
async def test_what_does_not_resolve_has_no_address(host: str) -> None:
    assert await resolve(host, 80) == []


async def test_addresses_keep_the_resolvers_order_and_lose_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, port: int, **asked: Any) -> list[Any]:
        assert (host, port, asked) == ("lab.example", 80, {"type": socket.SOCK_STREAM})
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 80, 0, 2)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80)),
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert await resolve("lab.example", 80) == [ipaddress.ip_address("fe80::1"), ipaddress.ip_address("10.0.0.1")]
