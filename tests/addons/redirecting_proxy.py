"""A script for a bare mitmdump: every request goes through the gateway to the servers whose ports are in the environment."""

from __future__ import annotations

import os

from mitmproxy import http

from addons.config_values import Upstream
from addons.gateway import Gateway
from addons.guard import Guard
from addons.outgoing import ModelRequest, locate
from addons.reroute import Reroute
from addons.targets import TargetConfig
from addons.trust import Trust
from memory.exchange import SentTo


class Redirect:
    """What the stage that decides does, and a log of what the stages after it see."""

    def __init__(self, gateway: Gateway, reroute: Reroute) -> None:
        self.gateway, self.reroute = gateway, reroute
        self.targets = [
            TargetConfig(f"target{port}", Upstream("http", "127.0.0.1", int(port)), ("anthropic",), model="qwen3:8b")
            for port in os.environ["TARGET_PORTS"].split(",")
        ]

    async def request(self, flow: http.HTTPFlow) -> None:
        if flow.response or flow.request.headers.get("x-straight"):
            return
        request = ModelRequest(
            flow.request.method,
            flow.request.path,
            tuple(flow.request.headers.items(multi=True)),
            flow.request.raw_content or b"",
            "anthropic",
            "claude-test",
        )
        located = [await locate(target, request.model) for target in self.targets]
        self.reroute.lead(flow, self.gateway.open(request, located, on_sent=self.sent))

    def sent(self, to: SentTo) -> None:
        print(f"SENT {to.model} {to.to} {to.upstream}", flush=True)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        assert flow.response
        flow.response.stream = True
        proofs = [name for name in flow.request.headers if "mitmemory" in name]
        print(f"SEEN {flow.request.pretty_url} {flow.response.status_code} {proofs}", flush=True)

    def error(self, flow: http.HTTPFlow) -> None:
        print(f"ERROR {flow.request.pretty_url}", flush=True)


own_ports: set[int] = set()
gateway = Gateway(own_ports=own_ports, proxy_ports=tuple, trust=Trust(lambda: None), largest_body=1 << 20, environ={})
reroute = Reroute(gateway)


class Announce:
    async def running(self) -> None:
        assert reroute.started
        await reroute.started
        print(f"GATEWAY {gateway.port}", flush=True)


addons = [Guard(own_ports, reroute.is_led), reroute, Redirect(gateway, reroute), Announce()]
