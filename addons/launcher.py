"""Starts proxy, inspector and dashboard in one process, on top of mitmproxy's own start.

`mitmproxy.tools.main.run` and the masters' constructors are no public API: tests/addons/test_launcher.py pins them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import certifi
from mitmproxy import options
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.exceptions import OptionsError
from mitmproxy.tools import cmdline
from mitmproxy.tools import main as mitmproxy_main
from mitmproxy.tools.dump import DumpMaster
from mitmproxy.tools.web.master import WebMaster

from addons.config import Config
from addons.config_values import Address
from addons.suite import MitMemory, StartError, Suite

logger = logging.getLogger(__name__)

WEB_COLUMNS = ("tls", "icon", "path", "method", "status", "size", "time", "comment")
CA_CERTIFICATE = "mitmproxy-ca-cert.pem"
BUNDLE = "ca-bundle.pem"
CLOSING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """A suite that is up, for whoever greets the person or plays the demo."""

    suite: Suite
    confdir: Path
    inspector_url: str | None

    @property
    def proxy_url(self) -> str:
        return f"http://{self.suite.proxy}"

    @property
    def ca_certificate(self) -> Path:
        """The certificate of this installation's own authority."""
        return self.confdir / CA_CERTIFICATE

    @property
    def ca_bundle(self) -> Path:
        """The public roots and that certificate, for programs whose setting replaces the roots."""
        return self.confdir / BUNDLE


type WhenRunning = Callable[[Running, Callable[[], None]], None]
"""Called once everything is up, in the event loop, with a function that ends the suite."""


def launch(config: Config, when_running: WhenRunning, *, flags: Sequence[str] = ()) -> None:
    """Run the suite until it is told to end (Ctrl-C, SIGTERM). `flags` are mitmproxy's own, as on its command line.

    Raises:
        StartError: a port is taken, the state directory cannot be used, or mitmproxy has no such option.

    """
    os.umask(0o077)  # CA key, tokens and whatever mitmproxy saves are nobody else's
    config, dashboard = claim_ports(config)
    with tempfile.TemporaryDirectory(prefix="mitmemory-") as nothing_kept:
        confdir = (config.state or Path(nothing_kept)) / "mitmproxy"
        try:
            confdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            dashboard.close()
            raise StartError(
                f"{error.filename} cannot be made ({error.strerror}): set state to another directory"
            ) from error
        if not os.access(confdir, os.R_OK | os.W_OK | os.X_OK):  # mitmproxy would end in a traceback
            dashboard.close()
            raise StartError(f"{confdir} may not be written: set state to another directory")
        try:
            mitmproxy_main.run(
                _master(config, dashboard, confdir, when_running),
                cmdline.mitmweb if config.proxy.inspector else cmdline.mitmdump,
                list(flags),
            )
        finally:
            dashboard.close()


def claim_ports(config: Config) -> tuple[Config, socket.socket]:
    """Make sure of every port before anything starts: the configuration with real ports for `0`, and the dashboard's
    socket, bound. mitmproxy binds the others itself a moment later.
    """
    with ExitStack() as probes:  # held until the last is bound, so that no two of them get the same free port

        def free(address: Address, key: str) -> Address:
            return _bound(address, probes.enter_context(_bind(address, key)))

        proxy = free(config.proxy.listen, "proxy.listen")
        inspector = free(config.proxy.inspector, "proxy.inspector") if config.proxy.inspector else None
        dashboard = _bind(config.dashboard.listen, "dashboard.listen")
    claimed = replace(
        config,
        proxy=replace(config.proxy, listen=proxy, inspector=inspector),
        dashboard=replace(config.dashboard, listen=_bound(config.dashboard.listen, dashboard)),
    )
    return claimed, dashboard


def _bound(address: Address, sock: socket.socket) -> Address:
    return Address(address.host, sock.getsockname()[1])


def _bind(address: Address, key: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would let two programs share the port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen()
    except OSError as error:
        sock.close()
        raise StartError(
            f"{address} cannot be used ({error.strerror}): end the program that has it, or set {key} to another port"
        ) from error
    return sock


def _master(
    config: Config, dashboard: socket.socket, confdir: Path, when_running: WhenRunning
) -> type[WebMaster | DumpMaster]:
    base: Any = WebMaster if config.proxy.inspector else DumpMaster
    quiet: dict[str, Any] = {} if config.proxy.inspector else {"with_dumper": False}

    class SuiteMaster(base):  # type: ignore[misc] # which of the two is the configuration's choice
        """mitmproxy's master with the suite in it, told of start and end by the suite's own pace."""

        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts, **quiet)
            self.mitmemory = Suite(config, dashboard)
            self.addons.add(MitMemory(self.mitmemory))
            opts.update(**start_options(config, confdir))
            unknown = [name for name in config.proxy.mitmproxy if name not in opts]
            if unknown:
                raise StartError(f"proxy.mitmproxy: mitmproxy has no option {', '.join(unknown)}")
            try:
                opts.update(**config.proxy.mitmproxy)
            except (OptionsError, TypeError) as error:  # TypeError: a value of another type
                raise StartError(f"proxy.mitmproxy: {error}") from error

        async def running(self) -> None:
            await super().running()
            for name in self.options.deferred:
                logger.warning("mitmproxy has no option %s", name)
            serving = self.mitmemory.serving
            if serving.started is not None:
                await serving.started
            self.greet()

        def greet(self) -> None:
            # A flag on the command line may have chosen another.
            used = Path(self.options.confdir).expanduser()
            try:
                write_bundle(used)
            except OSError as error:
                raise StartError(
                    f"{error.filename} cannot be written ({error.strerror}): set state to another directory"
                ) from error
            when_running(Running(self.mitmemory, used, getattr(self, "web_url", None)), self.shutdown)

        async def done(self) -> None:
            # While the addons still listen: what was under way is recorded as ended.
            await close_clients(self.addons.get("proxyserver"))
            await super().done()
            if self.mitmemory.serving.stopped is not None:
                await self.mitmemory.serving.stopped

    return SuiteMaster


async def close_clients(proxyserver: Proxyserver) -> None:
    """End every client's connection, as if the client had left; mitmproxy itself would leave them to the interpreter."""
    for connection in list(proxyserver.connections.values()):
        if (client := connection.transports.get(connection.client)) is not None and client.handler is not None:
            client.handler.cancel()
    give_up = time.monotonic() + CLOSING_SECONDS
    while proxyserver.connections and time.monotonic() < give_up:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.01)


def start_options(config: Config, confdir: Path) -> dict[str, Any]:
    """The mitmproxy options of a start of our own; flags on the command line come later and win."""
    chosen: dict[str, Any] = {
        "confdir": str(confdir),
        "listen_host": config.proxy.listen.host,
        "listen_port": config.proxy.listen.port,
        "termlog_verbosity": "warn",
    }
    if config.proxy.inspector:
        chosen |= {
            "web_host": config.proxy.inspector.host,
            "web_port": config.proxy.inspector.port,
            "web_open_browser": False,
            "web_columns": list(WEB_COLUMNS),
        }
    return chosen


def write_bundle(confdir: Path) -> None:
    """`SSL_CERT_FILE` and its kin replace the public roots, so they need a file that holds both."""
    certificate = confdir / CA_CERTIFICATE
    if certificate.exists():
        (confdir / BUNDLE).write_bytes(Path(certifi.where()).read_bytes() + certificate.read_bytes())
