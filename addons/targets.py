"""Targets: model endpoints of the user's own, to which rules send requests instead (dispatch.md)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from addons.config_values import Upstream
from addons.providers import place_of, runs_in_makers_cloud
from memory.exchange import Place, Protocol

CONNECT_TIMEOUT = 3.0
FIRST_BYTE_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """An entry of `targets`. Timeouts are in seconds.

    `model` None: as the request names it. `api_key_env` names the variable that holds the key; None: it needs none.
    """

    name: str
    url: Upstream
    protocols: tuple[Protocol, ...]
    model: str | None = None
    api_key_env: str | None = None
    local: bool | None = None
    """The user's own word on where it leads; None: its address tells."""
    connect_timeout: float = CONNECT_TIMEOUT
    first_byte_timeout: float = FIRST_BYTE_TIMEOUT

    @property
    def place(self) -> Place | None:
        """Where what is sent there ends up, as far as its entry tells; None: its host must be looked up first.

        Without a `model` of its own it depends on the request's: an Ollama passes some on to its maker's cloud.
        """
        if self.model is not None and runs_in_makers_cloud(self.model):
            return "cloud"
        if self.local is not None:
            return "local" if self.local else "cloud"
        if self.url.host == "localhost":
            return "local"
        try:
            return place_of([ipaddress.ip_address(self.url.host)])
        except ValueError:
            return None


def local_targets(targets: Sequence[TargetConfig]) -> tuple[str, ...]:
    """The names of those that may get what must stay local, in their order."""
    return tuple(target.name for target in targets if target.place == "local")
