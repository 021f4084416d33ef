"""The options of mitmproxy that the suite depends on, whichever way it is started (interception.md, "Which flows")."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from mitmproxy.exceptions import OptionsError
from mitmproxy.options import Options

from addons.config import Config
from addons.providers import ProviderTable


def proxy_options(config: Config, providers: ProviderTable) -> dict[str, Any]:
    """What they are set to."""
    return {
        "allow_hosts": providers.allow_hosts(),
        "body_size_limit": str(config.proxy.max_body),
        # With `eager`, a request that must stay home would already have contacted the cloud.
        "connection_strategy": "lazy",
        # `Reverse` looks at the name that was asked for, before it writes the server's own.
        "keep_host_header": True,
    }


def check_options(options: Options, updated: AbstractSet[str], providers: ProviderTable) -> None:
    """Look at those that were `updated`. Raises OptionsError where the suite could not do its work any more."""
    if "stream_large_bodies" in updated and options.stream_large_bodies:
        raise OptionsError("stream_large_bodies would let bodies pass before they are looked at: leave it unset")
    if "connection_strategy" in updated and options.connection_strategy != "lazy":
        raise OptionsError("connection_strategy must be lazy: eager contacts a model before the request was looked at")
    if "allow_hosts" in updated and list(options.allow_hosts) != providers.allow_hosts():
        raise OptionsError("allow_hosts is the suite's: name the hosts under providers in mitm.yaml")
    if "keep_host_header" in updated and not options.keep_host_header:
        raise OptionsError(
            "keep_host_header must be on: the name that a request was sent to is looked at, then replaced"
        )
    if "ignore_hosts" in updated and options.ignore_hosts:
        raise OptionsError("ignore_hosts would hide providers: change their hosts in mitm.yaml instead")
