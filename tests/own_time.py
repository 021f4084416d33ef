"""How long programs took, as if they had the machine for themselves: what is promised in seconds is held to that, because
other tests run beside each one, and a browser.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
NANOSECONDS = 1e9


class OwnTime:
    """Counts from when it is made. Programs that stood in line for a core, each thread of them, were not at work, nor were
    they while the machine itself was held up by its host. Where the system does not tell, it is the time on the wall.
    """

    def __init__(self, *processes: int) -> None:
        self._processes = processes or (os.getpid(),)
        self._before = self._in_line()
        self._latest = dict(self._before)
        self._stolen = stolen()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Ask again and again while the programs run: of threads that have ended the last look counts."""
        self._latest |= self._in_line()
        in_line = sum(waited - self._before.get(thread, 0) for thread, waited in self._latest.items())
        return time.monotonic() - self._began - in_line / NANOSECONDS - (stolen() - self._stolen)

    def _in_line(self) -> dict[str, int]:
        """Thread -> nanoseconds that it could have run and did not."""
        found: dict[str, int] = {}
        for process in self._processes:
            with suppress(OSError):  # it has ended
                for thread in (PROC / str(process) / "task").iterdir():
                    with suppress(OSError, IndexError):
                        found[thread.name] = int((thread / "schedstat").read_text().split()[1])
        return found


def stolen() -> float:
    """Seconds that the host of this virtual machine gave to others, all cores together."""
    with suppress(OSError, IndexError, ValueError):
        return int((PROC / "stat").read_text().split("\n", 1)[0].split()[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def patience() -> float:
    """A factor for time limits: how many programs want each core of this machine, just now or of late; at least 1."""
    now = 0
    with suppress(OSError, IndexError, ValueError):
        now = int((PROC / "loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, now / (os.cpu_count() or 1), os.getloadavg()[0] / (os.cpu_count() or 1))
