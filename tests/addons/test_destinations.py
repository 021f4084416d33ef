"""Where a request ends up, and the address that is dialled for it."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import asynccontextmanager
from typing import Any

import pytest

from addons.config_values import ConnectTo
from addons.destinations import MOST_REMEMBERED, Destinations
from addons.providers import Provider

LAB = Provider("lab", ("lab.example:8000",))
CLOUD = Provider("anthropic", ("api.anthropic.com",), cloud=True)
GATEWAY = ConnectTo("http", "gateway.example", 9911)

type Names = dict[str, list[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """What each name resolves to; an address is itself, what is missing does not resolve."""
    table: Names = {}

    async def resolve(host: str, port: int) -> list[Any]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            return [ipaddress.ip_address(address) for address in table.get(host, [])]

    monkeypatch.setattr("addons.destinations.resolve", resolve)
    return table


@pytest.mark.parametrize(
    ("addresses", "place", "dialled"),
    [
        (["127.0.0.1"], "local", ("127.0.0.1", 8000)),
        (["192.168.7.7"], "local", ("192.168.7.7", 8000)),
        (["fd00::7"], "local", ("fd00::7", 8000)),
        (["203.0.113.7"], "cloud", None),
        (["198.18.0.7"], "cloud", None),
        ([], "cloud", None),
    ],
)
async def test_a_name_is_judged_by_its_addresses_and_pinned(
    names: Names, addresses: list[str], place: str, dialled: tuple[str, int] | None
) -> None:
    names["lab.example"] = addresses
    destinations = Destinations()
    assert await destinations.decide(LAB, "m", "lab.example", 8000) == place
    assert destinations.dial("lab.example", 8000) == dialled
    assert destinations.dial("lab.example", 8001) is None


async def test_an_address_needs_no_pin(names: Names) -> None:
    destinations = Destinations()
    assert await destinations.decide(LAB, "m", "127.0.0.1", 8000) == "local"
    assert await destinations.decide(LAB, "m", "203.0.113.7", 8000) == "cloud"
    assert destinations.dial("127.0.0.1", 8000) is destinations.dial("203.0.113.7", 8000) is None


async def test_a_name_that_moves_is_judged_and_pinned_anew(names: Names) -> None:
    destinations = Destinations()
    names["lab.example"] = ["127.0.0.1"]
    assert await destinations.decide(LAB, "m", "lab.example", 8000) == "local"
    names["lab.example"] = ["203.0.113.7"]
    assert await destinations.decide(LAB, "m", "lab.example", 8000) == "cloud"
    assert destinations.dial("lab.example", 8000) is None


@pytest.mark.parametrize(
    ("provider", "model", "place"),
    [
        (CLOUD, "m", "cloud"),
        (Provider("lab", (), local=True), "m", "local"),
        (Provider("lab", (), local=False), "m", "cloud"),
        (Provider("anthropic", (), cloud=True, local=True), "m", "local"),
        (Provider("ollama", (), local=True), "gpt-oss:120b-cloud", "cloud"),
    ],
)
async def test_what_is_known_beforehand_is_not_resolved(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, model: str, place: str
) -> None:
    monkeypatch.setattr("addons.destinations.resolve", None)
    destinations = Destinations()
    assert await destinations.decide(provider, model, "lab.example", 443) == place
    assert destinations.dial("lab.example", 443) is None


@pytest.mark.parametrize(
    ("provider", "gateway", "place"),
    [
        (Provider("anthropic", (), cloud=True, connect_to=GATEWAY), ["127.0.0.1"], "cloud"),
        (Provider("anthropic", (), cloud=True, local=True, connect_to=GATEWAY), [], "local"),
        (Provider("lab", (), local=False, connect_to=GATEWAY), ["127.0.0.1"], "cloud"),
        (Provider("lab", (), connect_to=GATEWAY), ["127.0.0.1"], "local"),
        (Provider("lab", (), connect_to=GATEWAY), ["203.0.113.7"], "cloud"),
        (Provider("lab", (), connect_to=GATEWAY), [], "cloud"),
    ],
)
async def test_connect_to_is_dialled_and_makes_no_cloud_local(
    names: Names, provider: Provider, gateway: list[str], place: str
) -> None:
    names.update({"gateway.example": gateway, "lab.example": ["203.0.113.99"]})
    destinations = Destinations()
    assert await destinations.decide(provider, "m", "lab.example", 443) == place
    assert destinations.dial("lab.example", 443) == ("gateway.example", 9911)


# ---- a name with two addresses


@asynccontextmanager
async def listening() -> Any:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("addresses", "dialled"),
    [
        (["127.0.0.1", "127.0.0.9"], "127.0.0.1"),
        (["127.0.0.9", "127.0.0.1"], "127.0.0.1"),
        (["127.0.0.8", "127.0.0.9"], "127.0.0.8"),
    ],
)
async def test_of_two_addresses_the_one_that_answers_is_dialled(
    names: Names, addresses: list[str], dialled: str
) -> None:
    names["localhost"] = addresses
    destinations = Destinations()
    async with listening() as port:
        assert await destinations.decide(LAB, "m", "localhost", port) == "local"
        assert destinations.dial("localhost", port) == (dialled, port)


async def test_nobody_is_asked_before_a_request_to_the_cloud_is_decided(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncio.open_connection", None)
    names["lab.example"] = ["127.0.0.1", "203.0.113.7"]
    destinations = Destinations()
    assert await destinations.decide(LAB, "m", "lab.example", 443) == "cloud"
    assert destinations.dial("lab.example", 443) is None


async def test_an_address_that_never_answers_costs_half_a_second(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    open_connection = asyncio.open_connection

    async def connect(host: str, port: int) -> Any:
        if host == "::1":
            await asyncio.sleep(3600)
        return await open_connection(host, port)

    monkeypatch.setattr("asyncio.open_connection", connect)
    names["localhost"] = ["::1", "127.0.0.1"]
    destinations = Destinations()
    async with listening() as port:
        began = asyncio.get_running_loop().time()
        await destinations.decide(LAB, "m", "localhost", port)
        assert asyncio.get_running_loop().time() - began >= 0.5
        assert destinations.dial("localhost", port) == ("127.0.0.1", port)


async def test_the_oldest_destinations_are_forgotten_first(names: Names) -> None:
    names["lab.example"] = ["127.0.0.1"]
    destinations = Destinations()
    for port in range(1, MOST_REMEMBERED + 1):
        await destinations.decide(LAB, "m", "lab.example", port)
    await destinations.decide(LAB, "m", "lab.example", 1)
    await destinations.decide(LAB, "m", "lab.example", MOST_REMEMBERED + 1)
    assert destinations.dial("lab.example", 2) is None
    for port in (1, 3, MOST_REMEMBERED, MOST_REMEMBERED + 1):
        assert destinations.dial("lab.example", port) == ("127.0.0.1", port)
