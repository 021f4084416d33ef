"""What `GET api/status` says."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from mitmproxy.version import VERSION as MITMPROXY_VERSION

from addons.authority import Authority
from addons.config import Config, config_to_name
from addons.program import config_flag, program_name
from addons.stages import Stages
from memory.note_library import Snapshot


def status_json(
    config: Config,
    stages: Stages,
    snapshot: Snapshot,
    *,
    proxy: str,
    authority: Authority | None,
    held: int,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """`proxy` is where the suite listens, `held` how many requests wait; the stages say what they have seen."""
    sources = [source.to_json() for source in snapshot.sources]
    return {
        "versions": {
            "mitmemory": metadata.version("mitmemory"),
            "mitmproxy": MITMPROXY_VERSION,
            "python": platform.python_version(),
        },
        "mode": config.mode,
        "proxy": proxy,
        "inspector": str(config.proxy.inspector) if config.proxy.inspector else None,
        "dashboard": str(config.dashboard.listen),
        "sources": sources,
        "notes": sum(source["notes"] for source in sources),
        "configuration": str(config.file.absolute()) if config.file else None,
        "authority": authority.to_json() if authority else None,
        "scannedAt": snapshot.to_json()["loadedAt"],
        "trackSharing": config.memory.track_sharing,
        "requests": dict(stages.scan.states),
        "notSeen": {
            "reasons": dict(stages.scan.reasons),
            "untrustingHosts": stages.hints.untrusting,
            "passedThroughHosts": stages.hints.passed_through,
        },
        "held": held,
        "clients": stages.record.clients.names(),
        "warnings": list(warnings),
        "program": program_name(),
        "configFlag": config_flag(config_to_name(config.file)).strip() or None,
    }
