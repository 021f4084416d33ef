"""A bare mitmdump with the options of a suite, for the benchmark: `python -m tests.bench.bare CONFIG CONFDIR UPSTREAM`.

CONFIG is the suite's mitm.yaml, CONFDIR holds its authority, UPSTREAM is the port on loopback to which every
connection goes. The port that it listens on is printed once it does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mitmproxy import http, options
from mitmproxy.proxy import server_hooks
from mitmproxy.tools import cmdline
from mitmproxy.tools import main as mitmproxy_main
from mitmproxy.tools.dump import DumpMaster

from addons.config import load_config
from addons.launcher import claim_ports, start_options
from addons.mitmproxy_options import proxy_options
from addons.providers import ProviderTable


class Through:
    """The least that the comparison needs: dials the upstream, and lets answers stream as the suite does."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response:
            flow.response.stream = True

    def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        self._asked = data.server.address
        data.server.address = ("127.0.0.1", self._upstream)

    def server_connected(self, data: server_hooks.ServerConnectionHookData) -> None:
        # As it was asked for, else mitmproxy would not find the connection for the next request (addons/send.py).
        object.__setattr__(data.server, "address", self._asked)


def main(file: Path, confdir: Path, upstream: int) -> None:
    config, dashboard = claim_ports(load_config(file))
    dashboard.close()

    class BareMaster(DumpMaster):
        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts, with_dumper=False)
            self.addons.add(Through(upstream))
            opts.update(**start_options(config, confdir), **proxy_options(config, ProviderTable(config.providers)))
            opts.update(**config.proxy.mitmproxy)

        async def running(self) -> None:
            await super().running()
            print(config.proxy.listen.port, flush=True)

    mitmproxy_main.run(BareMaster, cmdline.mitmdump, [])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
