"""Which ports a start claims, how a taken one is told, and the modes that mitmproxy is given for them."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from mitmproxy.proxy.mode_specs import ProxyMode, ReverseMode

from addons.clients import ClientConfig, MatchConfig
from addons.config import Address, ReverseConfig, Upstream
from addons.launcher import claim_ports, proxy_modes
from addons.makers import StartError
from tests.addons.launching import FREE, config_of

ANTHROPIC = Upstream("https", "api.anthropic.com", 443)


def test_port_0_becomes_a_real_port_and_the_dashboards_is_held() -> None:
    claimed, dashboard = claim_ports(config_of())
    with dashboard:
        assert claimed.proxy.inspector
        ports = [claimed.proxy.listen.port, claimed.proxy.inspector.port, claimed.dashboard.listen.port]
        assert len(set(ports)) == 3
        assert all(1024 <= port <= 65535 for port in ports)
        assert dashboard.getsockname() == ("127.0.0.1", ports[2])
        for port in ports[:2]:
            socket.create_server(("127.0.0.1", port)).close()
        socket.create_connection(("127.0.0.1", ports[2])).close()


def test_what_is_not_a_port_stays_as_it_is() -> None:
    config = replace(config_of(inspector=None), mode="annotate")
    claimed, dashboard = claim_ports(config)
    dashboard.close()
    assert claimed.proxy.inspector is None
    assert replace(claimed, proxy=config.proxy, dashboard=config.dashboard) == config


@pytest.mark.parametrize("key", ["proxy.listen", "proxy.inspector", "dashboard.listen"])
def test_a_taken_port_is_named_with_its_mend(key: str) -> None:
    section, name = key.split(".")
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = Address("127.0.0.1", holder.getsockname()[1])
        config = config_of()
        config = replace(config, **{section: replace(getattr(config, section), **{name: taken})})
        with pytest.raises(StartError) as caught:
            claim_ports(config)
    assert str(caught.value) == (
        f"127.0.0.1:{taken.port} cannot be used (Address already in use): "
        f"end the program that has it, or set {key} to another port"
    )


def test_every_listener_is_claimed_and_its_port_made_real() -> None:
    with socket.create_server(FREE) as probe:
        own = Address("127.0.0.1", probe.getsockname()[1])
    config = config_of(reverse=(ReverseConfig(FREE, ANTHROPIC), ReverseConfig(FREE, Upstream("http", "127.0.0.1", 1))))
    config = replace(config, clients=(ClientConfig("a", MatchConfig(own)), ClientConfig("b", MatchConfig(own, "b"))))
    claimed, dashboard = claim_ports(config)
    dashboard.close()
    ports = [one.listen.port for one in claimed.proxy.reverse]
    assert [one.upstream for one in claimed.proxy.reverse] == [one.upstream for one in config.proxy.reverse]
    assert len({0, claimed.proxy.listen.port, own.port, *ports}) == 5
    assert proxy_modes(claimed) == [
        "regular",
        f"reverse:https://api.anthropic.com:443@127.0.0.1:{ports[0]}",
        f"reverse:http://127.0.0.1:1@127.0.0.1:{ports[1]}",
        f"regular@127.0.0.1:{own.port}",
    ]


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("whose", ["reverse", "client"])
def test_a_taken_port_of_a_further_listener_is_named(kind: socket.SocketKind, whose: str) -> None:
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(FREE)
        taken = Address("127.0.0.1", holder.getsockname()[1])
        config = config_of(reverse=(ReverseConfig(taken, ANTHROPIC),) if whose == "reverse" else ())
        if whose == "client":
            config = replace(config, clients=(ClientConfig("a", MatchConfig(taken)),))
            if kind is socket.SOCK_DGRAM:  # there nothing listens for datagrams
                claim_ports(config)[1].close()
                return
        with pytest.raises(StartError) as caught:
            claim_ports(config)
    key = {"reverse": "proxy.reverse[0].listen", "client": "match.listen of its client"}[whose]
    assert str(caught.value).startswith(f"{taken} cannot be used (Address already in use): ")
    assert str(caught.value).endswith(f"or set {key} to another port")


def test_mitmproxy_understands_every_mode() -> None:
    upstreams = (ANTHROPIC, Upstream("http", "::1", 11434), Upstream("http", "localhost", 80, "/v1"))
    listens = (Address("127.0.0.1", 1), Address("::1", 2), Address("127.0.0.2", 3))
    config = config_of(reverse=tuple(map(ReverseConfig, listens, upstreams)))
    config = replace(config, clients=(ClientConfig("a", MatchConfig(Address("::1", 4))),))
    modes = [ProxyMode.parse(mode) for mode in proxy_modes(config)]
    assert [(mode.type_name, mode.custom_listen_host, mode.custom_listen_port) for mode in modes] == [
        ("regular", None, None),
        ("reverse", "127.0.0.1", 1),
        ("reverse", "::1", 2),
        ("reverse", "127.0.0.2", 3),
        ("regular", "::1", 4),
    ]
    assert [(mode.scheme, mode.address) for mode in modes if isinstance(mode, ReverseMode)] == [
        ("https", ("api.anthropic.com", 443)),
        ("http", ("::1", 11434)),
        ("http", ("localhost", 80)),
    ]
