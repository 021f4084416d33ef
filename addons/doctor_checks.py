"""What `mitmemory doctor` looks at, one function for each thing. None changes anything, none leaves this machine."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import ssl
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from cryptography import x509
from packaging.requirements import InvalidRequirement, Requirement

from addons.certificates import CA, Certificates, certificates_in
from addons.config import Address, Config
from addons.env import COMMANDS
from addons.launcher import claim_ports
from addons.makers import StartError
from addons.presence import Presence
from addons.providers import ProviderTable
from memory import native
from memory.note_library import Snapshot

type State = Literal["fine", "note", "wrong"]

PROBE_SECONDS = 10.0
PROBED_HOST = "api.anthropic.com"
"""A name that the proxy decrypts. It is only asked for a certificate: nothing is sent on before there is a request."""


_MENDS = {
    "markdown": "correct its `path` in mitm.yaml, or make it readable",
    "knowledge_graph": "correct its `path` in mitm.yaml, or make it readable",
    "claude_code": "use Claude Code once, or set `path` of this source in mitm.yaml",
    "conversations": "make it readable, or restore it",
}
_OWN_MEND = "mend its class, or its `type` and `path` in mitm.yaml"
"""For a class of the user's own."""
_EMPTY_MENDS = {
    "markdown": "look at its `path`, `exclude` and `extensions`",
    "conversations": "switch on the memory of a client, or take this source out of mitm.yaml",
}
"""For sources without a note."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `wrong` makes the exit code 1; `mend` says what to do, or is empty."""

    name: str
    state: State
    found: str
    mend: str = ""


def packages() -> Iterator[Check]:
    """Whether what mitmemory needs is installed, in versions that it was made for."""
    wanted = metadata.requires("mitmemory") or []
    wrong: list[str] = []
    for line in wanted:
        try:
            need = Requirement(line)
        except InvalidRequirement:
            continue
        if need.marker and not need.marker.evaluate():
            continue
        try:
            have = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{need.name} is missing")
            continue
        if have not in need.specifier:
            wrong.append(f"{need.name} is {have}, not {need.specifier}")
    if wrong:
        yield Check("Packages", "wrong", "; ".join(wrong), "install mitmemory anew: `make run`, or `pip install`")
    else:
        versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("mitmemory", "mitmproxy"))
        yield Check("Packages", "fine", versions)


def scanning() -> Check:
    """Whether the innermost loops are in C."""
    if native.BUILT:
        return Check("Scanning", "fine", "in C")
    mend = "install a C compiler (Debian: `apt-get install gcc python3-dev`), then mitmemory anew"
    return Check("Scanning", "note", "without C, which takes longer", mend)


def ports(config: Config, suite: Presence | None) -> Check:
    """Whether the suite runs, or could."""
    if suite is not None:
        return Check("Ports", "fine", f"a suite runs: proxy {suite.proxy}, dashboard {suite.dashboard}")
    try:
        claim_ports(config)[1].close()
    except StartError as error:
        found, _, mend = str(error).partition(": ")
        return Check("Ports", "wrong", f"{found}; it is no suite of ours", mend)
    return Check("Ports", "note", "free; no suite runs", "start one with `mitmemory run`")


def state(folder: Path) -> Check:
    """Whether the state directory can be used, or made."""
    # lexists says no, and raises nothing, where a file lies in the way or a folder may not be looked into.
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    mend = "set `state` to another directory"
    if not there.is_dir():
        return Check("State", "wrong", f"{there} is no directory", mend)
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return Check("State", "wrong", f"{there} may not be written", mend)
    return Check("State", "fine", str(folder))


def authority(certificates: Certificates, now: datetime) -> Iterator[Check]:
    """The authority's files: there, whole, valid at this moment, and nobody else's."""
    ca, certificate = certificates.folder / CA, certificates.certificate
    if not ca.exists():
        yield Check("Authority", "note", f"there is none yet in {certificates.folder}", "`mitmemory env` makes it")
        return
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        own = x509.load_pem_x509_certificates(ca.read_bytes())[0]
        mode = ca.stat().st_mode
    except OSError as error:
        yield Check("Authority", "wrong", f"{error.filename} cannot be read ({error.strerror})", "make it yours")
        return
    except ValueError:
        yield Check("Authority", "wrong", f"the files in {certificates.folder} are damaged", _anew(certificates))
        return
    if found != own:
        yield Check("Authority", "wrong", f"{certificate} is not the one of {ca}", _anew(certificates))
    elif mode & 0o077:
        yield Check("Authority", "wrong", f"others may read the key in {ca}", f"chmod 600 {ca}")
    else:
        yield Check("Authority", "fine", str(certificate))
    yield _clock(found, certificates, now)
    yield _bundle(certificates)


def _clock(certificate: x509.Certificate, certificates: Certificates, now: datetime) -> Check:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        found = f"it is {now:%Y-%m-%d}, and the authority is valid from {start:%Y-%m-%d} on"
        return Check("Clock", "wrong", found, "set the clock of this machine right")
    if now > end:
        found = f"it is {now:%Y-%m-%d}, and the authority was valid until {end:%Y-%m-%d}"
        return Check("Clock", "wrong", found, f"set the clock right, or {_anew(certificates)}")
    return Check("Clock", "fine", f"the authority is valid until {end:%Y-%m-%d}")


def _bundle(certificates: Certificates) -> Check:
    if not certificates.bundle.exists():
        return Check("Bundle", "wrong", f"{certificates.bundle} is missing", "`mitmemory env` makes it")
    if not _holds(certificates.bundle, certificates.certificate):
        return Check("Bundle", "wrong", f"{certificates.bundle} lacks the authority", "`mitmemory env` makes it anew")
    return Check("Bundle", "fine", str(certificates.bundle))


def sources(snapshot: Snapshot) -> Iterator[Check]:
    """Whether each source can be read and holds notes."""
    if not snapshot.sources:
        yield Check("Notes", "note", "no source yet", "add one under `memory.sources` in mitm.yaml")
    for source in snapshot.sources:
        name = f"Notes: {source.name}"
        if not source.enabled:
            yield Check(name, "note", "switched off")
        elif source.error:
            yield Check(name, "wrong", source.error, _MENDS.get(source.kind, _OWN_MEND))
        elif not source.notes:
            mend = _EMPTY_MENDS.get(source.kind, "look at its `path` and `exclude`")
            yield Check(name, "note" if source.kind == "conversations" else "wrong", "it holds no note", mend)
        else:
            yield Check(name, "fine", f"{source.notes:,} note{'' if source.notes == 1 else 's'}")


def environment(proxy: str, certificates: Certificates, environ: Mapping[str, str]) -> Iterator[Check]:
    """Whether programs started from this shell go through the proxy at `proxy` (`host:port`), and trust it."""
    use = 'set it with: eval "$(mitmemory env)"'
    given = environ.get("https_proxy") or environ.get("HTTPS_PROXY") or ""
    if not given:
        mend = "`mitmemory with -- COMMAND` starts a program that does"
        yield Check("This shell", "note", "programs from here do not go through the proxy", mend)
        return
    if not _same_address(given, proxy):
        yield Check("HTTPS_PROXY", "note", f"it leads to {_without_user(given)}, not to {proxy}", use)
        return
    yield Check("HTTPS_PROXY", "fine", _without_user(given))
    yield _no_proxy(environ.get("no_proxy") or environ.get("NO_PROXY") or "", use)
    for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        value = environ.get(name)
        adds = name == "NODE_EXTRA_CA_CERTS"
        program = {"NODE_EXTRA_CA_CERTS": "Claude Code", "SSL_CERT_FILE": "a Python SDK"}.get(name, "a program")
        if not value:
            yield Check(name, "note", f"not set: {program} may refuse the proxy's certificate", use)
        elif not Path(value).is_file():
            yield Check(name, "wrong", f"there is no file {value}", use)
        elif not _holds(Path(value), certificates.certificate):
            yield Check(name, "wrong", f"{value} lacks this installation's authority", use)
        elif not adds and len(certificates_in(Path(value))) == 1:
            yield Check(name, "wrong", f"{value} holds no public roots, and the variable replaces these", use)
        else:
            yield Check(name, "fine", value)


def _no_proxy(value: str, use: str) -> Check:
    hosts = [host.strip().lower().lstrip(".") for host in value.split(",") if host.strip()]
    around = [host for host in hosts if host == "*" or f".{PROBED_HOST}".endswith(f".{host}")]
    if around:
        return Check("NO_PROXY", "wrong", f"`{around[0]}` leads requests to models around the proxy", "take it out")
    if "localhost" not in hosts or "127.0.0.1" not in hosts:
        return Check("NO_PROXY", "wrong", "it lacks localhost and 127.0.0.1: local servers are asked for there", use)
    return Check("NO_PROXY", "fine", value)


def through_the_proxy(suite: Presence, providers: ProviderTable) -> Iterator[Check]:
    """Whether a request goes through the running suite, and whether its certificates are signed by the authority."""
    proxy = urlsplit(f"//{suite.proxy}")
    mend = "end it, and start it again"
    with _echo() as port:
        try:
            connection = HTTPConnection(proxy.hostname or "", proxy.port, timeout=PROBE_SECONDS)
            connection.request("GET", f"http://127.0.0.1:{port}/")
            answer = connection.getresponse().read()
            connection.close()
            sound = answer == b"mitmemory"
            found = f"a request through {suite.proxy} " + ("arrives" if sound else "is answered by something else")
            yield Check("Proxy", "fine" if sound else "wrong", found, "" if sound else mend)
        except (OSError, HTTPException) as error:
            yield Check("Proxy", "wrong", f"no request goes through {suite.proxy} ({error})", mend)
            return
    if providers.find(PROBED_HOST, 443) is None:
        return  # its traffic is left alone: the question would go out to the real one
    try:
        context = ssl.create_default_context(cafile=str(Certificates(Path(suite.certificates)).certificate))
        tunnel = HTTPConnection(proxy.hostname or "", proxy.port, timeout=PROBE_SECONDS)
        tunnel.set_tunnel(PROBED_HOST, 443)
        tunnel.connect()
        assert tunnel.sock
        context.wrap_socket(tunnel.sock, server_hostname=PROBED_HOST).close()
    except (OSError, HTTPException) as error:
        yield Check("Trust", "wrong", f"its certificate for {PROBED_HOST} does not hold ({error})", mend)
    else:
        yield Check("Trust", "fine", f"its certificate for {PROBED_HOST} is signed by the authority")


def programs() -> Iterator[Check]:
    """The clients that are known by name, where they are installed."""
    for command in COMMANDS:
        if path := shutil.which(command):
            yield Check(command, "fine", path, f"start it with `mitmemory with -- {command}`")
        else:
            yield Check(command, "note", "not on the PATH")


@contextmanager
def _echo() -> Generator[int]:
    """A server on loopback; gives its port."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "9")
            self.end_headers()
            self.wfile.write(b"mitmemory")

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _same_address(url: str, proxy: str) -> bool:
    try:
        given = urlsplit(url if "://" in url else f"//{url}")
        host, port = given.hostname or "", given.port
    except ValueError:
        return False
    return port is not None and str(Address("127.0.0.1" if host == "localhost" else host, port)) == proxy


def _without_user(url: str) -> str:
    """Without a user's name and password, however it is written: all up to the last `@`, since a password may hold any."""
    return re.sub(r"^(\w+://)?.*@", r"\1", url, flags=re.DOTALL)


def _holds(bundle: Path, certificate: Path) -> bool:
    try:
        return certificates_in(certificate) <= certificates_in(bundle)
    except (OSError, ValueError):
        return False


def _anew(certificates: Certificates) -> str:
    return f"remove {certificates.folder}, then `mitmemory env` makes a new one"
