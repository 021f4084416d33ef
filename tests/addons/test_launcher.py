"""The start: options, files. Pins the parts of mitmproxy that are no public API. Nothing here runs the proxy."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import logging
import re
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from mitmproxy import options
from mitmproxy.addonmanager import Loader
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.master import Master
from mitmproxy.test import taddons
from mitmproxy.tools import cmdline
from mitmproxy.tools import main as mitmproxy_main
from mitmproxy.tools.dump import DumpMaster
from mitmproxy.tools.web.master import WebMaster
from mitmproxy.utils.asyncio_utils import install_exception_handler

from addons.certificates import BUNDLE, CA, CA_CERTIFICATE, write_bundle
from addons.config import Address, Config, DashboardConfig, TokensConfig
from addons.demo.authority import AuthorityPaths
from addons.launcher import (
    WEB_COLUMNS,
    FlagError,
    Running,
    _master,
    _parser,
    launch,
    start_options,
)
from addons.loop_faults import report_fault
from addons.makers import StartError
from addons.mitmproxy_options import proxy_options
from addons.program import with_program
from addons.providers import ProviderTable
from addons.suite import MitMemory, Suite
from tests.addons.launching import FREE, config_of
from web.access import load_or_make_tokens


@pytest.fixture(autouse=True)
def _log_handlers() -> Iterator[None]:
    """A master listens to the log until it is done, and those here never run."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.handlers[:] = before


# ---- what mitmproxy offers


def parameters(function: Any) -> dict[str, Any]:
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def test_mitmproxys_start_takes_what_the_launcher_gives() -> None:
    empty = inspect.Parameter.empty
    assert parameters(mitmproxy_main.run) == {
        "master_cls": empty,
        "make_parser": empty,
        "arguments": empty,
        "extra": None,
    }
    assert parameters(WebMaster) == {"opts": empty, "with_termlog": True}
    assert parameters(DumpMaster) == {"options": empty, "loop": None, "with_termlog": True, "with_dumper": True}
    for method in (WebMaster.running, DumpMaster.running, WebMaster.done, DumpMaster.done):
        assert inspect.iscoroutinefunction(method)
    assert isinstance(inspect.getattr_static(WebMaster, "web_url"), property)
    assert not inspect.iscoroutinefunction(WebMaster.shutdown)


@pytest.mark.parametrize("make_parser", [cmdline.mitmweb, cmdline.mitmdump])
def test_mitmproxys_command_lines_are_still_made_from_options(make_parser: Any) -> None:
    assert parameters(make_parser) == {"opts": inspect.Parameter.empty}


async def test_every_option_that_is_set_exists_and_takes_its_value(tmp_path: Path) -> None:
    for inspector in (FREE, None):
        config = config_of(inspector=inspector)
        opts = options.Options()
        (WebMaster if inspector else DumpMaster)(opts)
        chosen = start_options(config, tmp_path) | proxy_options(config, ProviderTable())
        assert set(chosen) <= set(opts.keys())
        opts.update(**chosen)
        assert {name: getattr(opts, name) for name in chosen} == chosen
        if inspector:
            assert set(WEB_COLUMNS) <= set(opts._options["web_columns"].default) | {"comment"}


def test_the_options_of_a_start(tmp_path: Path) -> None:
    config = config_of(listen=Address("::1", 8080), inspector=Address("127.0.0.1", 8081), max_body=1000)
    plain = {
        "confdir": str(tmp_path),
        "listen_host": "::1",
        "listen_port": 8080,
        "mode": ["regular"],
        "termlog_verbosity": "warn",
    }
    assert start_options(replace(config, proxy=replace(config.proxy, inspector=None)), tmp_path) == plain
    assert start_options(config, tmp_path) == plain | {
        "web_host": "127.0.0.1",
        "web_port": 8081,
        "web_open_browser": False,
        "web_columns": ["tls", "icon", "path", "method", "status", "size", "time", "comment"],
    }


def test_the_options_that_the_suite_depends_on() -> None:
    table = ProviderTable()
    assert proxy_options(config_of(max_body=1000), table) == {
        "allow_hosts": table.allow_hosts(),
        "body_size_limit": "1000",
        "connection_strategy": "lazy",
        "keep_host_header": True,
    }
    hosts = table.allow_hosts()
    assert all(host.startswith("^") and host.endswith("$") for host in hosts)
    assert any(re.search(host, "api.anthropic.com:443") for host in hosts)
    assert not any(re.search(host, "api.anthropic.com.attacker.example:443") for host in hosts)


# ---- files


def test_the_bundle_holds_the_public_roots_and_ours(tmp_path: Path, authority: AuthorityPaths) -> None:
    ours = authority.authority.read_text("ascii")
    (tmp_path / CA_CERTIFICATE).write_text(ours)
    write_bundle(tmp_path)
    bundle = (tmp_path / BUNDLE).read_text("ascii")
    assert bundle == Path(certifi.where()).read_text("ascii") + ours

    def roots(pem: str) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pem)
        return len(context.get_ca_certs())

    assert roots(bundle) == roots(Path(certifi.where()).read_text("ascii")) + 1


def test_without_a_certificate_there_is_no_bundle(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_a_running_suite_is() -> None:
    suite: Any = SimpleNamespace(proxy="[::1]:8080")
    running = Running(suite, Path("conf"), None)
    assert running.proxy_url == "http://[::1]:8080"
    assert running.ca_certificate == Path("conf/mitmproxy-ca-cert.pem")
    assert running.ca_bundle == Path("conf/ca-bundle.pem")


# ---- the master


@pytest.fixture
async def dashboard() -> AsyncIterator[socket.socket]:
    with socket.create_server(FREE) as sock:
        yield sock


def master_of(config: Config, dashboard: socket.socket, confdir: Path) -> tuple[Any, options.Options]:
    opts = options.Options()
    made: Any = _master(config, dashboard, confdir, lambda _running, _end: None)
    return made(opts), opts


@pytest.mark.parametrize(("inspector", "base"), [(FREE, WebMaster), (None, DumpMaster)])
async def test_the_suite_is_in_the_master_in_its_order(
    tmp_path: Path, dashboard: socket.socket, inspector: Address | None, base: Any
) -> None:
    config = config_of(tmp_path, inspector=inspector, mitmproxy={"http2": False, "upstream_cert": False})
    master, opts = master_of(config, dashboard, tmp_path)
    assert base in type(master).__mro__
    assert master.addons.get("mitmemory").addons == master.mitmemory.addons
    assert [type(addon).__name__ for addon in master.mitmemory.addons] == [
        "Lean",
        "Mends",
        "Limits",
        "Senders",
        "Reverse",
        "Reroute",
        "Guard",
        "Identify",
        "Offer",
        "ScanRequests",
        "Decide",
        "Hold",
        "Remember",
        "LeadOffered",
        "Send",
        "Released",
        "Tap",
        "Record",
        "Annotate",
        "Inspector",
        "Hints",
        "Commands",
        "Conversations",
        "Reload",
        "SidecarAddon",
    ]
    assert (opts.http2, opts.upstream_cert, opts.connection_strategy) == (False, False, "lazy")
    assert (master.addons.get("dumper") is None) is True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sl_insecure": True}, "mitmproxy has no option sl_insecure"),
        ({"a": 1, "b": 2}, "mitmproxy has no option a, b"),
        ({"ssl_insecure": "yes"}, "Expected <class 'bool'> for ssl_insecure, but got <class 'str'>."),
        ({"block_list": ["x"]}, "Cannot parse block_list option x: Invalid number of parameters (2 are expected)"),
    ],
)
async def test_a_wrong_mitmproxy_option_is_the_persons_and_said(
    tmp_path: Path, dashboard: socket.socket, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(StartError) as caught:
        master_of(config_of(tmp_path, mitmproxy=given), dashboard, tmp_path)
    assert str(caught.value) == f"proxy.mitmproxy: {message}"


@pytest.mark.parametrize("broken", ["tokens.json", "client-key", "mitmproxy/ca-bundle.pem"])
async def test_a_state_directory_that_cannot_be_used_is_said(
    tmp_path: Path, dashboard: socket.socket, authority: AuthorityPaths, broken: str
) -> None:
    (tmp_path / broken).mkdir(parents=True)
    (tmp_path / "mitmproxy").mkdir(exist_ok=True)
    (tmp_path / "mitmproxy" / CA_CERTIFICATE).write_bytes(authority.authority.read_bytes())

    def start() -> None:
        master_of(config_of(tmp_path), dashboard, tmp_path / "mitmproxy")[0].greet()

    with pytest.raises(StartError, match=rf"{broken} cannot be .* \(Is a directory\): .*set state to another"):
        start()


async def test_a_damaged_key_of_the_clients_is_said(tmp_path: Path, dashboard: socket.socket) -> None:
    (tmp_path / "client-key").write_bytes(b"short")
    with pytest.raises(StartError, match="client-key is damaged: delete it"):
        master_of(config_of(tmp_path), dashboard, tmp_path)


async def test_a_token_that_is_the_other_kept_one_is_said(tmp_path: Path, dashboard: socket.socket) -> None:
    load_or_make_tokens(tmp_path, read_only="the-token-that-only-reads")
    kept = json.loads((tmp_path / "tokens.json").read_text())["read_only"]
    config = replace(config_of(tmp_path), dashboard=DashboardConfig(listen=FREE, tokens=TokensConfig(admin=kept)))
    with pytest.raises(StartError, match="admin and read_only must differ"):
        master_of(config, dashboard, tmp_path)


@pytest.mark.parametrize(("host", "written"), [("::1", "[::1]"), ("127.0.0.2", "127.0.0.2")])
async def test_every_address_of_loopback_makes_links_that_open(tmp_path: Path, host: str, written: str) -> None:
    config = replace(config_of(tmp_path), dashboard=DashboardConfig(listen=Address(host, 18090)))
    suite = Suite(config)
    assert suite.sidecar.link().startswith(f"http://{written}:18090/?code=")
    with taddons.context(options=options.Options(listen_host=host, listen_port=18080)):
        MitMemory(suite).running()
    assert suite.proxy == f"{written}:18080"


def test_without_a_socket_the_dashboard_needs_a_port(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=re.escape(with_program("port 0 is for `mitmemory run`"))):
        Suite(config_of(tmp_path))


async def test_a_script_that_has_no_suite_leaves_mitmproxys_options_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with taddons.context(Proxyserver()) as context:
        context.options.set(f"mitmemory_config={tmp_path / 'none.yaml'}", defer=True)
        addon = MitMemory()
        addon.load(Loader(context.master))
        addon.configure({"connection_strategy"})  # raises nothing that would hide what is wrong
    assert "there is no such file" in caplog.text


async def test_after_the_suite_a_cancelled_connection_is_no_fault(
    tmp_path: Path, dashboard: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    during: list[Any] = []

    async def ended(master: Any) -> None:
        with install_exception_handler(master._asyncio_exception_handler):  # as mitmproxy's own `run`
            during.append(loop.get_exception_handler())

    monkeypatch.setattr(Master, "run", ended)
    master, _ = master_of(config_of(tmp_path), dashboard, tmp_path)
    await master.run()
    assert (during, loop.get_exception_handler()) == ([master._asyncio_exception_handler], report_fault)


# ---- launch


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """What mitmproxy's own start was called with; it ends at once."""
    calls: list[tuple[Any, ...]] = []
    masks: list[int] = []
    monkeypatch.setattr("addons.launcher.os.umask", masks.append)
    monkeypatch.setattr("addons.launcher.mitmproxy_main.run", lambda *given: calls.append(given))
    yield calls
    assert masks == [0o077]


@pytest.mark.parametrize(("inspector", "parser"), [(FREE, cmdline.mitmweb), (None, cmdline.mitmdump)])
def test_launch_hands_over_to_mitmproxy(
    tmp_path: Path, started: list[tuple[Any, ...]], inspector: Address | None, parser: Any
) -> None:
    launch(config_of(tmp_path, inspector=inspector), lambda _running, _end: None, flags=("--set", "http2=false"))
    [(master, make_parser, arguments)] = started
    assert issubclass(master, WebMaster if inspector else DumpMaster)
    assert arguments == ["--set", "http2=false"]
    assert make_parser(options.Options()).usage == parser(options.Options()).usage
    assert stat.S_IMODE((tmp_path / "mitmproxy").stat().st_mode) == 0o700


def test_without_a_state_directory_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: list[tuple[Any, ...]]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    launch(config_of(None), lambda _running, _end: None)
    assert (len(started), list(tmp_path.iterdir())) == (1, [])


def test_the_dashboards_port_is_free_again_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: list[tuple[Any, ...]]
) -> None:
    def fail(*_: Any) -> None:
        raise StartError("as mitmproxy says")

    with socket.create_server(FREE) as holder:
        port = holder.getsockname()[1]
    config = replace(config_of(tmp_path), dashboard=DashboardConfig(listen=Address("127.0.0.1", port)))
    monkeypatch.setattr("addons.launcher.mitmproxy_main.run", fail)
    with pytest.raises(StartError, match="as mitmproxy says"):
        launch(config, lambda _running, _end: None)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_state_directory_that_cannot_be_made_is_said(tmp_path: Path, started: list[tuple[Any, ...]]) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StartError) as caught:
        launch(config_of(tmp_path / "state"), lambda _running, _end: None)
    assert str(caught.value).endswith("set state to another directory")
    assert started == []


@pytest.mark.parametrize("damaged", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_a_damaged_authority_is_said(tmp_path: Path, started: list[tuple[Any, ...]], damaged: bytes) -> None:
    folder = tmp_path / "mitmproxy"
    folder.mkdir()
    (folder / CA).write_bytes(damaged)
    with pytest.raises(StartError) as caught:
        launch(config_of(tmp_path), lambda *_: None)
    assert str(caught.value) == f"the authority in {folder} is damaged: remove that folder for a new one"
    assert started == []


def test_an_authority_that_cannot_be_read_is_said(tmp_path: Path, started: list[tuple[Any, ...]]) -> None:
    (tmp_path / "mitmproxy" / CA).mkdir(parents=True)
    with pytest.raises(StartError, match=r"mitmproxy-ca.pem cannot be used \(Is a directory\): mend that, or set"):
        launch(config_of(tmp_path), lambda *_: None)
    assert started == []


def test_an_authority_whose_key_has_a_password_is_mitmproxys_to_open(
    tmp_path: Path, started: list[tuple[Any, ...]], authority: AuthorityPaths
) -> None:
    folder = tmp_path / "mitmproxy"
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password")
    )
    (folder / CA).write_bytes(key + authority.authority.read_bytes())
    launch(config_of(tmp_path), lambda *_: None)
    assert len(started) == 1


def test_a_state_directory_that_may_not_be_written_is_said(
    tmp_path: Path, started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addons.launcher.os.access", lambda *_: False)  # root, as in a container, may write anywhere
    with pytest.raises(StartError, match="mitmproxy may not be written: set state to another directory"):
        launch(config_of(tmp_path), lambda _running, _end: None)
    assert started == []


def test_mitmproxys_flags_are_parsed_by_mitmproxys_own_parser() -> None:
    parser = _parser(cmdline.mitmdump)(options.Options())
    assert isinstance(parser, argparse.ArgumentParser)
    assert parser.parse_args(["--set", "http2=false"]).setoptions == ["http2=false"]
    with pytest.raises(FlagError, match=r"^unrecognized arguments: --bogus$"):
        parser.parse_args(["--bogus"])
