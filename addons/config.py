"""The configuration: `load_config` gives a `Config`, or a `ConfigError` that lists everything that is wrong.

This is the door. Behind it, `config_model` says what there is, `config_sections` and its parts read it,
`config_reader` and `config_document` know YAML and lines, `config_values` knows sizes, durations, addresses, paths.
"""

from __future__ import annotations

import os
from pathlib import Path

from addons.clients import ClientConfig, MatchConfig
from addons.config_document import ConfigError, Fault, parse_document, read_text
from addons.config_model import (
    SHIPPED_STATE,
    ActivityConfig,
    Config,
    DashboardConfig,
    MemoryConfig,
    ProxyConfig,
    ReverseConfig,
    SourceConfig,
    TokensConfig,
    default_state,
)
from addons.config_reader import Section, Value
from addons.config_sections import SectionReader
from addons.config_values import Address, ConnectTo, Upstream
from addons.providers import ProviderConfig
from addons.targets import TargetConfig
from memory.rules import Rule

__all__ = [
    "ActivityConfig",
    "Address",
    "ClientConfig",
    "Config",
    "ConfigError",
    "ConnectTo",
    "DashboardConfig",
    "Fault",
    "MatchConfig",
    "MemoryConfig",
    "ProviderConfig",
    "ProxyConfig",
    "ReverseConfig",
    "Rule",
    "SourceConfig",
    "TargetConfig",
    "TokensConfig",
    "Upstream",
    "default_state",
    "find_config",
    "load_config",
]


def find_config() -> Path:
    """The file that is used where none is named: here, in the state directory, or the one that is shipped."""
    for candidate in (Path("mitm.yaml"), default_state() / "mitm.yaml", Path(__file__).with_name("mitm.yaml")):
        if candidate.is_file():
            return candidate
    return Path(__file__).parent.with_name("mitm.yaml")


def load_config(path: Path | None = None) -> Config:
    """Read and check a configuration file; None: the one that `find_config` finds. Raises ConfigError."""
    try:
        file = path or find_config()
        state = default_state()
    except ValueError as error:
        message = f"`{os.environ.get('MITMEMORY_HOME', SHIPPED_STATE)}` {error}"
        raise ConfigError([Fault("MITMEMORY_HOME", None, "", message, "set it to a folder, or unset it")]) from None
    document, top = parse_document(read_text(file), str(file))
    if top is None:
        return Config(state=state, file=file)
    config = SectionReader(file, state).config(Section(Value(document, "", top)))
    document.finish()
    return config
