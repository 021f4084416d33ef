"""A program that has loaded what the suite loads, and becomes `mitmemory` for each test that asks: a start is hardly more
than loading, which takes seconds of a core.

What is forked has its own streams, environment, folder and signals, and ends as every program of Python's ends. Tests of
starting itself start `mitmemory` without this.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

LOADED = ("addons.cli", "addons.greeting", "addons.launcher")
"""What `mitmemory run` imports, which imports the rest."""
PROGRAMS = {"mitmemory": ("addons.cli", "main"), "mitmdump": ("mitmproxy.tools.main", "mitmdump")}
"""The name of a program -> its module and the function there."""
MOST = 2**18
"""Bytes of one message: about what a socket takes at once."""
ROOT = Path(__file__).parent.parent


class Child:
    """What of `subprocess.Popen` the tests use, for a program that another one forked."""

    def __init__(self, arguments: Sequence[str], reports: socket.socket, stdout: IO[str]) -> None:
        self.args = list(arguments)
        self.stdout = stdout
        self.returncode: int | None = None
        self._reports = reports
        self.pid = int(reports.recv(MOST))

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._reports.settimeout(timeout)
            try:
                self.returncode = int(self._reports.recv(MOST))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._reports.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The program that has loaded everything, as a test sees it. It starts when the first child is asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._control.close()
            self._process.wait(timeout=60)

    def start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> Child:
        """One of the programs with these arguments; its output and its errors come in `stdout`."""
        reading, writing = os.pipe()
        try:
            return self._fork(arguments, environ, (writing, writing), os.fdopen(reading, errors="backslashreplace"))
        finally:
            os.close(writing)

    def run(self, arguments: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """The same to its end. It has no input."""
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            child = self._fork(arguments, environ, (stdout.fileno(), stderr.fileno()), stdout)
            try:
                code = child.wait(timeout=120)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess(child.args, code, stdout.read(), stderr.read())

    def _fork(
        self, arguments: Sequence[str], environ: Mapping[str, str], outputs: tuple[int, int], stdout: IO[str]
    ) -> Child:
        if self._process is None:
            self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd=ROOT,
                    start_new_session=True,  # Ctrl-C is for the tests, which end what they started
                )
        reports, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        asked = {"arguments": list(arguments), "environ": dict(environ), "folder": str(Path.cwd())}
        with theirs:
            socket.send_fds(self._control, [json.dumps(asked).encode()], [theirs.fileno(), *outputs])
        return Child(arguments, reports, stdout)


def serve(control: socket.socket) -> Callable[[], object] | None:
    """Fork for each request; the function that a child is to call, or None at the end."""
    while True:
        data, handles, _, _ = socket.recv_fds(control, MOST, 3)
        _reap()
        if not data:
            return None
        if os.fork() == 0:
            control.close()
            reports, *outputs = handles
            return _stand_by(socket.socket(fileno=reports), outputs, json.loads(data))
        for handle in handles:
            os.close(handle)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _stand_by(reports: socket.socket, outputs: Sequence[int], asked: Mapping[str, Any]) -> Callable[[], object]:
    """Fork once more: the parent tells the test how the child ends, which only a parent is told."""
    child = os.fork()
    if child == 0:
        reports.close()
        return lambda: _become(outputs, **asked)
    for output in outputs:
        os.close(output)
    reports.sendall(b"%d" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):  # nobody may be left who wants to know
        reports.sendall(b"%d" % code)
    os._exit(0)


def _become(outputs: Sequence[int], arguments: Sequence[str], environ: Mapping[str, str], folder: str) -> object:
    for number, (output, name, errors) in enumerate(
        zip(outputs, ("stdout", "stderr"), ("strict", "backslashreplace"), strict=True), 1
    ):
        os.dup2(output, number)
        os.close(output)
        raw = io.FileIO(number, "w", closefd=False)
        setattr(sys, name, io.TextIOWrapper(raw, "utf-8", errors, write_through=True))
    faulthandler.enable()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = list(arguments)
    module, function = PROGRAMS[Path(arguments[0]).name]
    main: Callable[[], object] = getattr(importlib.import_module(module), function)
    return main()


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as for the program itself
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # no child looks it over for garbage, and copies it by that
    become = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(become() if become else 0)
