"""A configuration to start with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from addons.config import Address, Config, DashboardConfig, ProxyConfig

FREE = Address("127.0.0.1", 0)


def config_of(tmp_path: Path | None = None, **proxy: Any) -> Config:
    return Config(
        proxy=ProxyConfig(**({"listen": FREE, "inspector": FREE} | proxy)),
        dashboard=DashboardConfig(listen=FREE),
        state=tmp_path,
    )
