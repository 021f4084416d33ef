"""What the command ends with (design.md, "The command"); 126, 127 and 130 are those of a shell."""

from __future__ import annotations

OK, FAILED, WRONG_INPUT = 0, 1, 2
NOT_RUNNABLE, NOT_FOUND, INTERRUPTED = 126, 127, 130
