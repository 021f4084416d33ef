"""Whose certificates are accepted from a target: those that mitmproxy accepts from a provider."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import certifi


class Trust:
    """The public roots, and those of mitmproxy's option `ssl_verify_upstream_trusted_ca` where it is set.

    `more` gives that option's value; None and empty: it is not set.
    """

    def __init__(self, more: Callable[[], str | None]) -> None:
        self._more = more
        self._made: tuple[str | None, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """Made when it is first asked for, and again when the option changes. Raises OSError for a file that is none."""
        more = self._more() or None
        if self._made is None or self._made[0] != more:
            context = ssl.create_default_context(cafile=certifi.where())
            if more is not None:
                context.load_verify_locations(cafile=Path(more).expanduser())
            self._made = more, context
        return self._made[1]
