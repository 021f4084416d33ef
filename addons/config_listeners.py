"""The addresses that the suite listens on and those it is told to connect to, as mitm.yaml names them: none may clash."""

from __future__ import annotations

from itertools import combinations
from typing import Protocol

from addons.config_reader import Section, Value
from addons.config_values import Address, parse_listen

_PROXYS = ("proxy.listen", "proxy.reverse[", "clients[")
"""What the keys of the proxy's own listeners begin with."""


class Target(Protocol):
    """An address to connect to: a provider's `connect_to`, or the upstream of a reverse listener."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Listeners:
    """Collects them while the sections are read; `check` then reports every clash."""

    def __init__(self) -> None:
        self._listeners: list[tuple[str, Address, Value | None]] = []
        self._targets: list[tuple[Target, Value]] = []

    def read(
        self, section: Section, name: str, key: str, default: Address | None, *, optional: bool = False
    ) -> Address | None:
        """The address at `name`, the default where there is none; with `optional`, `null` means none at all."""
        value = section.get(name)
        if value is None:
            address = default
        elif optional and value.is_null:
            address = None
        else:
            mend = f"write `{default}`" + (", or `null` for none" if optional else "")
            address = value.parsed(parse_listen, "an address", mend)
        if address is not None:
            self.add(key, address, value)
        return address

    def add(self, key: str, address: Address, value: Value | None) -> None:
        self._listeners.append((key, address, value))

    def is_the_proxys(self, address: Address) -> bool:
        """Whether clients reach the proxy there already."""
        return any(address == other and key.startswith(_PROXYS) for key, other, _ in self._listeners)

    def connects_to(self, target: Target, value: Value) -> None:
        self._targets.append((target, value))

    def check(self) -> None:
        for (first_key, first, first_value), (key, address, value) in combinations(self._listeners, 2):
            if first.port == address.port != 0:
                at, other = (value, first_key) if value else (first_value, key)
                if at:  # the defaults are no two alike
                    at.fault(f"port {address.port} is that of `{other}` too", "give each a port of its own")
        for target, value in self._targets:
            for key, address, _ in self._listeners:
                if target.port == address.port and target.host in {address.host, "localhost"}:
                    value.fault(f"it leads back to `{key}`", "name the address of the server that answers")
