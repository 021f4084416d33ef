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
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from mitmproxy import options
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.exceptions import OptionsError
from mitmproxy.tools import cmdline
from mitmproxy.tools import main as mitmproxy_main
from mitmproxy.tools.dump import DumpMaster
from mitmproxy.tools.web.master import WebMaster

from addons.certificates import Certificates, certificates_of, check_authority, write_bundle
from addons.config import Config, ReverseConfig
from addons.config_values import Address
from addons.loop_faults import report_fault
from addons.makers import StartError
from addons.presence import Announcement, Presence, config_name
from addons.program import with_program
from addons.reverse import reverse_mode
from addons.state_folder import unusable
from addons.suite import MitMemory, Suite

logger = logging.getLogger(__name__)

WEB_COLUMNS = ("tls", "icon", "path", "method", "status", "size", "time", "comment")
ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 - it is looked for, not bound
CLOSING_SECONDS = 1.0


class FlagError(Exception):
    """A flag after `--` that mitmproxy's command line does not take. The message says which."""


@dataclass(frozen=True, slots=True)
class Running:
    """A suite that is up, for whoever greets the person or plays the demo."""

    suite: Suite
    confdir: Path
    inspector_url: str | None
    announcement: Announcement | None = None
    """None: without a state directory no other program can find this suite."""

    @property
    def proxy_url(self) -> str:
        return f"http://{self.suite.proxy}"

    @property
    def ca_certificate(self) -> Path:
        """The certificate of this installation's own authority."""
        return Certificates(self.confdir).certificate

    @property
    def ca_bundle(self) -> Path:
        """The public roots and that certificate, for programs whose setting replaces the roots."""
        return Certificates(self.confdir).bundle


type WhenRunning = Callable[[Running, Callable[[], None]], None]
"""Called once everything is up, in the event loop, with a function that ends the suite."""


def launch(config: Config, when_running: WhenRunning, *, flags: Sequence[str] = (), for_programs: bool = False) -> None:
    """Run the suite until it is told to end (Ctrl-C, SIGTERM). `flags` are mitmproxy's own, as on its command line.

    `for_programs`: `when_running` ends it once no program that `mitmemory with` started uses it.

    Raises:
        StartError: a port is taken, the state directory cannot be used, or mitmproxy has no such option.
        FlagError: mitmproxy's command line has no such flag.

    """
    os.umask(0o077)  # CA key, tokens and whatever mitmproxy saves are nobody else's
    config, dashboard = claim_ports(config)
    with tempfile.TemporaryDirectory(prefix="mitmemory-") as nothing_kept:
        confdir = certificates_of(config.state or Path(nothing_kept)).folder
        try:
            confdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            dashboard.close()
            raise StartError(unusable(error, config.state)) from error
        if not os.access(confdir, os.R_OK | os.W_OK | os.X_OK):  # mitmproxy would end in a traceback
            dashboard.close()
            raise StartError(f"{confdir} may not be written: set state to another directory")
        try:
            _check_authority(confdir)
            mitmproxy_main.run(
                _master(config, dashboard, confdir, when_running, for_programs=for_programs),
                _parser(cmdline.mitmweb if config.proxy.inspector else cmdline.mitmdump),
                list(flags),
            )
        finally:
            dashboard.close()


def _check_authority(confdir: Path) -> None:
    """Raises StartError, where mitmproxy would end in a traceback."""
    try:
        check_authority(Certificates(confdir))
    except OSError as error:
        raise StartError(unusable(error, confdir)) from error
    except ValueError as error:
        raise StartError(f"the authority in {confdir} is damaged: remove that folder for a new one") from error


def claim_ports(config: Config) -> tuple[Config, socket.socket]:
    """Make sure of every port before anything starts: the configuration with real ports for `0`, and the dashboard's
    socket, bound. mitmproxy binds the others itself a moment later.
    """
    with ExitStack() as probes:  # held until the last is bound, so that no two of them get the same free port

        def free(address: Address, key: str) -> Address:
            return _bound(address, probes.enter_context(_bind(address, key)))

        proxy = free(config.proxy.listen, "proxy.listen")
        reverse: list[ReverseConfig] = []
        for number, listener in enumerate(config.proxy.reverse):
            key = f"proxy.reverse[{number}].listen"
            listen = free(listener.listen, key)
            if listener.upstream.scheme == "https":  # there mitmproxy speaks HTTP/3 as well
                probes.enter_context(_bind(listen, key, socket.SOCK_DGRAM))
            reverse.append(replace(listener, listen=listen))
        for listen in config.client_listeners:
            free(listen, "match.listen of its client")
        inspector = free(config.proxy.inspector, "proxy.inspector") if config.proxy.inspector else None
        dashboard = _bind(config.dashboard.listen, "dashboard.listen")
    claimed = replace(
        config,
        proxy=replace(config.proxy, listen=proxy, reverse=tuple(reverse), inspector=inspector),
        dashboard=replace(config.dashboard, listen=_bound(config.dashboard.listen, dashboard)),
    )
    return claimed, dashboard


def _bound(address: Address, sock: socket.socket) -> Address:
    return Address(address.host, sock.getsockname()[1])


def _bind(address: Address, key: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, kind)
    if kind is socket.SOCK_STREAM and sys.platform != "win32":  # there it would let two programs share the port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        if kind is socket.SOCK_STREAM:
            sock.listen()
    except OSError as error:
        sock.close()
        raise StartError(
            f"{address} cannot be used ({error.strerror}): end the program that has it, or set {key} to another port"
        ) from error
    return sock


def _parser(make_parser: Callable[[options.Options], ArgumentParser]) -> Callable[[options.Options], ArgumentParser]:
    """The same, but a wrong flag is raised: mitmproxy would end with exit code 1, as if it had failed while running."""

    def error(message: str) -> NoReturn:
        raise FlagError(message)

    def made(opts: options.Options) -> ArgumentParser:
        parser = make_parser(opts)
        parser.error = error  # type: ignore[method-assign]
        return parser

    return made


def _master(
    config: Config, dashboard: socket.socket, confdir: Path, when_running: WhenRunning, *, for_programs: bool = False
) -> type[WebMaster | DumpMaster]:
    base: Any = WebMaster if config.proxy.inspector else DumpMaster
    quiet: dict[str, Any] = {} if config.proxy.inspector else {"with_dumper": False}

    class SuiteMaster(base):  # type: ignore[misc] # which of the two is the configuration's choice
        """mitmproxy's master with the suite in it, told of start and end by the suite's own pace."""

        def __init__(self, opts: options.Options) -> None:
            super().__init__(opts, **quiet)
            self.mitmemory = Suite(config, dashboard)
            self.announcement: Announcement | None = None
            self.addons.add(MitMemory(self.mitmemory))
            opts.update(**start_options(config, confdir))
            unknown = [name for name in config.proxy.mitmproxy if name not in opts]
            if unknown:
                raise StartError(f"proxy.mitmproxy: mitmproxy has no option {', '.join(unknown)}")
            try:
                opts.update(**config.proxy.mitmproxy)
            except (OptionsError, TypeError) as error:  # TypeError: a value of another type
                raise StartError(f"proxy.mitmproxy: {error}") from error

        async def run(self) -> None:
            self.event_loop.set_exception_handler(report_fault)  # mitmproxy's own stands in for it until the suite ends
            await super().run()

        async def running(self) -> None:
            await super().running()
            for name in self.options.deferred:
                logger.warning("mitmproxy has no option %s", name)
            for server in (self.mitmemory.stages.reroute, self.mitmemory.serving):
                if server.started is not None:
                    await server.started
            self.greet()

        def greet(self) -> None:
            # A flag on the command line may have chosen another.
            used = Path(self.options.confdir).expanduser()
            try:
                write_bundle(used)
            except OSError as error:
                raise StartError(unusable(error, used)) from error
            self.announcement = announcement_of(config, self.options, self.mitmemory, used, for_programs=for_programs)
            running = Running(self.mitmemory, used, getattr(self, "web_url", None), self.announcement)
            when_running(running, self.shutdown)

        async def done(self) -> None:
            if self.announcement is not None:
                self.announcement.withdraw()
            # While the addons still listen: what was under way is recorded as ended.
            await close_clients(self.addons.get("proxyserver"))
            await super().done()
            for server in (self.mitmemory.stages.reroute, self.mitmemory.serving, self.mitmemory.conversations):
                if server.stopped is not None:
                    await server.stopped

    return SuiteMaster


def announcement_of(
    config: Config, opts: options.Options, suite: Suite, confdir: Path, *, for_programs: bool
) -> Announcement | None:
    """Says to `mitmemory env`, `with` and `doctor` that this suite runs; None where nothing is kept."""
    if config.state is None:
        return None
    host = "127.0.0.1" if (opts.listen_host or "") in ANY_ADDRESS else opts.listen_host
    announcement = Announcement(
        config.state,
        Presence(
            pid=os.getpid(),
            config=config_name(config.file),
            proxy=str(Address(host, opts.listen_port or 8080)),
            dashboard=str(suite.config.dashboard.listen),
            certificates=str(confdir.absolute()),
            for_programs=for_programs,
        ),
    )
    try:
        announcement.announce()
    except OSError as error:
        if for_programs:
            raise StartError(unusable(error, config.state)) from error
        what = with_program("`mitmemory with` will not find this suite")
        logger.warning("%s cannot be used (%s): %s", config.state, error.strerror, what)
    return announcement


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
        "mode": proxy_modes(config),
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


def proxy_modes(config: Config) -> list[str]:
    """The option `mode` of mitmproxy: the proxy itself, a reverse listener for each base URL, one more proxy for each client
    that has an address of its own.
    """
    reverse = [reverse_mode(listener) for listener in config.proxy.reverse]
    return ["regular", *reverse, *(f"regular@{one.host}:{one.port}" for one in config.client_listeners)]
