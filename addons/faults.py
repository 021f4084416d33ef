"""How a fault of our own is logged: where it happened, and never its message, which may quote what a person wrote."""

from __future__ import annotations

import traceback


def traced(error: BaseException) -> str:
    """The type of the error and the lines of our code that led to it."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}".rstrip()
