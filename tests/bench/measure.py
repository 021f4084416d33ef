"""What a figure is, and how time is taken on a machine that others use too."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from statistics import median
from typing import Any, Literal, Protocol

type Unit = Literal["µs", "ms", "s", "MB/s", "rows/s", "%", "% right", "bytes"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. `reach` and `aim` are in `unit`, None where the specification names none."""

    what: str
    value: float
    unit: Unit
    reach: float | None = None
    aim: float | None = None
    baseline: str = ""
    """What was measured beside it, with its own value."""
    ratio: float | None = None
    """How many times as fast as the baseline."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether `reach` is met; None: there is no goal."""
        return None if self.reach is None else self._is_met(self.reach)

    @property
    def aim_met(self) -> bool:
        return self.aim is not None and self._is_met(self.aim)

    def _is_met(self, goal: float) -> bool:
        return self.value >= goal if self.unit in {"MB/s", "rows/s", "% right"} else self.value <= goal


class Area(Protocol):
    """What each module offers: its figures, one by one as they are measured. `large` asks for the slow ones too."""

    def __call__(self, seed: int, *, large: bool) -> Iterator[Figure]: ...


def thread_seconds(*calls: Callable[[], Any], rounds: int) -> list[float]:
    """The median CPU time of this thread for each call, taken in turns so that a busy spell falls on all of them."""
    taken: list[list[float]] = [[] for _ in calls]
    with settled_memory():
        for _ in range(rounds):
            for times, call in zip(taken, calls, strict=True):
                start = time.thread_time()
                call()
                times.append(time.thread_time() - start)
    return [median(times) for times in taken]


@contextmanager
def settled_memory() -> Iterator[None]:
    """What exists already (the generator's texts, a baseline's tables) burdens no collection while time is taken."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def process_seconds(pid: int) -> float:
    """CPU time that a process has used so far, all its threads; not a number where only Linux can tell."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process id
    except OSError:
        return nan


def megabytes_per_second(size: int, seconds: float) -> float:
    """Of a body of `size` bytes; a megabyte is 10⁶ bytes."""
    return size / seconds / 1e6


def milliseconds(seconds: Sequence[float]) -> float:
    """Their median, in milliseconds."""
    return median(seconds) * 1e3
