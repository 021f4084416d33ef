"""A client of a memory that answers as fast as it can: `kill_program.py DIRECTORY`. Its answers are numbered.

Before each request it says on standard output which one it is, and after it was recorded it says so, as a proxy would
pass on the end of the answer: what was said there must not be lost, whenever the process is killed.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from memory.conversations.recorder import Recorder
from memory.conversations.said import Message, Said
from memory.conversations.store import Store

SIZES = (10, 20_000, 300, 5_000, 10, 300, 250_000)
"""Characters of an answer, in turn: large ones are written in many steps by the system."""


def said(number: int) -> Said:
    """The request, which goes on with one of two conversations that take turns, and its answer."""
    now = datetime.now(UTC)
    answer = Message("assistant", f"answer {number} " + "x" * SIZES[number % len(SIZES)])
    return Said(
        str(number % 2), (Message("user", f"question {number}"),), answer, "model", now, now, True, continues=True
    )


def main(directory: Path, first: int) -> None:
    store = Store(directory)
    store.open()
    recorder = Recorder(store)
    number = first
    while True:
        sys.stdout.write(f"asked {number}\n")
        sys.stdout.flush()
        recorder.record("work", said(number))
        sys.stdout.write(f"answered {number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
