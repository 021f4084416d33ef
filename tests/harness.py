"""The suite as a real process, and a byte-exact upstream, for the tests that go all the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.error import HTTPError

import yaml

from tests.forked import Child, Nursery
from tests.own_time import OwnTime, patience

MITMEMORY = Path(sys.executable).with_name("mitmemory")
START_SECONDS = 180
"""How long a start may take on a loaded machine before a test gives up; no figure is measured by it."""
NAMED_PORTS = 10_000, 32_768
"""The systems that we know give higher ones."""
FAULTS = ("Addon error", "has crashed", "Traceback", "Unhandled error", "never awaited", "Task exception")


@dataclass
class Answer:
    """What the API answered. `body` is decoded JSON where there is any."""

    status: int
    body: Any
    headers: Mapping[str, str]


class SuiteProcess:
    """`mitmemory run` with a configuration written to `folder`; its log is searched for faults when it ends.

    `fresh`: it loads everything itself, as on a person's machine, and is not forked from the nursery.
    """

    nursery: ClassVar[Nursery | None] = None
    """Set for tests of the running suite; None: each start is fresh."""
    process: subprocess.Popen[str] | Child

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        *,
        flags: Sequence[str] = (),
        trust: Path | None = None,
        inspector: bool = False,
        command: Sequence[str] = (),
        ready: str = "Point a client at it",
        fresh: bool = False,
    ) -> None:
        self.folder = folder
        self.state = folder / "state"
        proxy = {"listen": f"127.0.0.1:{free_port()}", **config.get("proxy", {})}
        proxy.setdefault("inspector", f"127.0.0.1:{free_port()}" if inspector else None)
        if trust is not None:
            proxy.setdefault("mitmproxy", {"ssl_verify_upstream_trusted_ca": str(trust)})
        written = {**config, "proxy": proxy, "state": str(self.state)}
        written.setdefault("dashboard", {"listen": "127.0.0.1:0"})
        self.config = folder / "mitm.yaml"
        if config:
            self.config.write_text(yaml.safe_dump(written), "utf-8")
        self._ready = ready
        self._nursery = None if fresh or command else self.nursery
        self._command = list(command) or [str(MITMEMORY), "run", "--config", str(self.config)]
        self._command += ["--", *flags] if flags else []
        self._lines: list[str] = []
        # Once: it reads all the roots of the system, though the dashboard speaks plain HTTP.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.proxy = ""
        self.dashboard = ""
        self.link = ""
        self.inspector = ""

    def __enter__(self) -> Self:
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "MITMEMORY_HOME": str(self.state)}
        environ["PYTHONFAULTHANDLER"] = "1"
        self.process = started(self._command, environ, self._nursery)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait_for_line(self._ready)
        except AssertionError:
            self.stop()
            raise
        self.link = self._find(r"Dashboard\s+(\S+)")
        self.dashboard = self.link.partition("?")[0]
        self.proxy = self._find(r"Proxy\s+(\S+)")
        self.inspector = self._find(r"Inspector\s+(\S+)")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        log = self.log.partition("Point a client at it")[2] or self.log
        assert not any(fault in log for fault in FAULTS), log

    def stop(self) -> int:
        """SIGTERM, and the exit code. Ends within the promised 3 seconds of its own or fails."""
        if self.process.poll() is None:
            time_since = OwnTime(self.process.pid)
            self.process.send_signal(signal.SIGTERM)
            while True:
                spent = time_since.seconds()  # looked at before: this program may wait for a core as well
                if self.process.poll() is not None:
                    break
                if spent > 3 * patience():
                    self.process.send_signal(signal.SIGABRT)  # it says what each of its threads is at
                    self._close()
                    raise AssertionError(f"still running {spent:.1f} s after SIGTERM\n{self.log}")
                time.sleep(0.02)
        self._close()
        return self.process.returncode

    def _close(self) -> None:
        self.process.wait()
        self._reader.join(timeout=START_SECONDS)
        if self.process.stdout:
            self.process.stdout.close()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    @property
    def ca(self) -> Path:
        return self.state / "mitmproxy" / "mitmproxy-ca-cert.pem"

    @property
    def tokens(self) -> dict[str, str]:
        loaded: dict[str, str] = json.loads((self.state / "tokens.json").read_text())
        return loaded

    def wait_for_line(self, text: str) -> None:
        self.wait_for(lambda: text in self.log, repr(text))

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            if self.process.poll() is not None:
                self._reader.join(timeout=START_SECONDS)
                if condition():
                    return
                raise AssertionError(f"ended with {self.process.returncode} before {what}\n{self.log}")
            assert time.monotonic() < deadline, f"no {what} in\n{self.log}"
            time.sleep(0.02)

    def api(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Ask the dashboard's API directly; `token` names one of the two, None sends none."""
        request = urllib.request.Request(self.dashboard + path, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {self.tokens[token]}")
        if method != "GET":
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body or {}).encode()
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with self._opener.open(request, timeout=START_SECONDS) as response:
                status, data, got = response.status, response.read(), response.headers
        except HTTPError as error:
            with error:
                status, data, got = error.code, error.read(), error.headers
        try:
            answered = json.loads(data)
        except ValueError:
            answered = data.decode("utf-8", "replace")
        return Answer(status, answered, dict(got))

    def activity(self, count: int = 1, *, finished: bool = True) -> list[dict[str, Any]]:
        """The entries of the activity, newest first, once there are `count` and each has its outcome."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            entries: list[dict[str, Any]] = self.api("api/activity?limit=1000").body["entries"]
            if len(entries) >= count and (not finished or all(entry["outcome"] for entry in entries)):
                return entries
            assert time.monotonic() < deadline, f"{len(entries)} of {count} entries: {entries}\n{self.log}"
            time.sleep(0.05)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.append(line)

    def _find(self, pattern: str) -> str:
        found = re.search(pattern, self.log)
        return found[1] if found else ""


def started(
    command: Sequence[str], environ: Mapping[str, str], nursery: Nursery | None
) -> subprocess.Popen[str] | Child:
    """The program, without input, its errors among its output."""
    if nursery is not None:
        return nursery.start(command, environ)
    nothing, output = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, stdin=nothing, stdout=output, stderr=subprocess.STDOUT, text=True, env=environ)


def mitmemory(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command to its end, forked where there is a nursery."""
    command, environ = [str(MITMEMORY), *arguments], os.environ if environ is None else environ
    if SuiteProcess.nursery is not None:
        return SuiteProcess.nursery.run(command, environ)
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False, env=environ
    )


def free_port() -> int:
    """A port that is free, and stays so until somebody names it: none of those that the system gives to whoever wants any.
    Only for programs that cannot be told to take any.
    """
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(*NAMED_PORTS)))
            port: int = probe.getsockname()[1]
            return port


class Loop:
    """An event loop in a thread of its own, for servers that a synchronous test talks to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=60)
        self.loop.close()


@contextmanager
def event_loop() -> Iterator[Loop]:
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


type Respond = Callable[["RawRequest", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawRequest:
    """One HTTP/1.1 request to the byte: `head` up to and with the empty line."""

    head: bytes
    body: bytes

    @property
    def header_lines(self) -> list[bytes]:
        return self.head.split(b"\r\n")[:-2]


@dataclass
class RawUpstream:
    """An HTTP/1.1 server that keeps each request to the byte and writes whatever `respond` writes."""

    respond: Respond
    tls: ssl.SSLContext | None = None
    port: int = 0
    requests: list[RawRequest] = field(default_factory=list)
    connections: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await self._body(head, reader)
                request = RawRequest(head, body)
                self.requests.append(request)
                await self.respond(request, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    @staticmethod
    async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
        if found := re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE):
            return await reader.readexactly(int(found[1]))
        body = b""
        if b"chunked" in head.lower():
            while True:
                line = await reader.readuntil(b"\r\n")
                chunk = await reader.readexactly(int(line, 16) + 2)
                body += line + chunk
                if line.strip() == b"0":
                    break
        return body
