"""`mitmemory with -- COMMAND…`: runs a program whose requests go through the proxy, and starts the suite where none runs.

What the program prints, reads, is told by signals and ends with is as without us.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from addons.certificates import Certificates
from addons.config import Config
from addons.env import ClientError, variables, way_for
from addons.env_command import suite_of
from addons.exits import FAILED, NOT_FOUND, NOT_RUNNABLE, WRONG_INPUT
from addons.presence import Presence, hold_start, in_use, is_used, running_suites
from addons.state_folder import unusable

LOG = "with.log"
"""In the state directory: what a suite says that was started for a program."""
LARGEST_LOG = 1024 * 1024
START_SECONDS = 60.0
END_SECONDS = 5.0
_PASSED_ON = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_FROM_THE_KEYBOARD = ("SIGINT", "SIGQUIT")


class NoSuiteError(Exception):
    """The suite could not be started. The message says why."""


def run_with(config: Config, command: Sequence[str], *, client: str | None) -> int:
    """The exit code of the command; 128 and the signal's number where one ended it; 127: there is no such command."""
    program = shutil.which(command[0])
    if program is None:
        return _no_program(command[0])
    if config.state is None:
        _say("state is null, and `with` finds the suite and its authority there: set state to a folder")
        return WRONG_INPUT
    try:
        way_for(config, "", client, command[0])  # before anything is started
        with _suite(config, config.state) as suite:
            way = way_for(config, suite.proxy, client, command[0])
            added = variables(way, Certificates(Path(suite.certificates)), os.environ)
            return _run(program, command, added)
    except ClientError as error:
        _say(str(error))
        return WRONG_INPUT
    except NoSuiteError as error:
        _say(str(error))
        return FAILED
    except OSError as error:
        _say(unusable(error, config.state))
        return FAILED


def _no_program(name: str) -> int:
    if os.path.dirname(name) and os.path.lexists(name):  # noqa: PTH120 - `./x` and `x` are not the same here
        what = "a folder" if Path(name).is_dir() else "a file that may not be run: make it executable"
        _say(f"{name}: cannot be run: it is {what}")
        return NOT_RUNNABLE
    _say(f"{name}: command not found: is it installed, and on the PATH?")
    return NOT_FOUND


@contextmanager
def _suite(config: Config, state: Path) -> Generator[Presence]:
    """A suite of this configuration, which goes on at least for as long as this lasts."""
    with ExitStack() as used:
        suite = _join(config, state, used)
        if suite is None:
            with hold_start(state, START_SECONDS):
                suite = _join(config, state, used) or _start(config, state, used)
        yield suite


def _join(config: Config, state: Path, used: ExitStack) -> Presence | None:
    """A suite that runs. One that ends with its last program is told of this one, unless it is about to end."""
    suite = suite_of(config, state)
    if suite is None or not suite.for_programs:
        return suite
    with ExitStack() as trying:
        trying.enter_context(in_use(state, suite.pid))
        if suite_of(config, state) == suite:
            used.enter_context(trying.pop_all())
            return suite
    return None


def _start(config: Config, state: Path, used: ExitStack) -> Presence:
    log = state / LOG
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.unlink()
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as stream:
        before = stream.tell()
        # -P: a folder `addons` of the person's own must not stand in for ours.
        process = subprocess.Popen(  # noqa: S603 - it is ours
            [sys.executable, "-P", "-m", "addons.with_suite", str(config.file)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    used.callback(_leave, process, state)
    used.enter_context(in_use(state, process.pid))
    try:
        return _wait_for(process, state, log, before)
    except (NoSuiteError, KeyboardInterrupt):
        process.terminate()
        raise


def _leave(process: subprocess.Popen[bytes], state: Path) -> None:
    """The suite that was started here ends by itself, unless other programs have come to use it."""
    with suppress(subprocess.TimeoutExpired):
        if not is_used(state, process.pid):
            process.wait(END_SECONDS)


def _wait_for(process: subprocess.Popen[bytes], state: Path, log: Path, before: int) -> Presence:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        for suite in running_suites(state):
            if suite.pid == process.pid:
                return suite
        if process.poll() is not None:
            with log.open("rb") as stream:
                stream.seek(before)
                said = stream.read().decode("utf-8", "replace").strip()
            why = said.removeprefix("mitmemory: ") or f"it left no word in {log}: is there room on the disk?"
            raise NoSuiteError(f"the suite did not start: {why}")
        time.sleep(0.05)
    raise NoSuiteError(f"the suite did not start within {START_SECONDS:.0f} s: see {log}")


def _run(program: str, command: Sequence[str], added: Mapping[str, str]) -> int:
    # On Windows upper and lower case are the same variable.
    environment = os.environ | {name: value for name, value in added.items() if os.name != "nt" or name.isupper()}
    received: list[int] = []
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for process in running:
            _send(process, number)

    names = [name for name in _PASSED_ON if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), pass_on) for name in names}
    try:
        process = subprocess.Popen([program, *command[1:]], env=environment)  # noqa: S603 - the person's own
        running.append(process)
        for number in received:  # while it was being started
            _send(process, number)
        code = process.wait()
    except OSError as error:
        _say(f"{command[0]}: cannot be run ({error.strerror})")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
    return code if code >= 0 else 128 - code


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    if signal.Signals(number).name in _FROM_THE_KEYBOARD and _in_the_foreground():
        return  # the terminal has told the program itself
    process.send_signal(number)


def _in_the_foreground() -> bool:
    """Whether keys that send signals do so to us, and to the program beside us."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _say(message: str) -> None:
    print(f"mitmemory: {message}", file=sys.stderr)
