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
    CompactionConfig,
    Config,
    ConversationsConfig,
    DashboardConfig,
    EmbeddingConfig,
    MemoryConfig,
    MilvusConfig,
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
    "CompactionConfig",
    "Config",
    "ConfigError",
    "ConnectTo",
    "ConversationsConfig",
    "DashboardConfig",
    "EmbeddingConfig",
    "Fault",
    "MatchConfig",
    "MemoryConfig",
    "MilvusConfig",
    "ProviderConfig",
    "ProxyConfig",
    "ReverseConfig",
    "Rule",
    "SourceConfig",
    "TargetConfig",
    "TokensConfig",
    "Upstream",
    "config_to_name",
    "default_state",
    "find_config",
    "load_config",
    "parse_config",
    "shipped_config",
]


def find_config() -> Path:
    """The file that is used where none is named: here, in the state directory, or the one that is shipped."""
    for candidate in (Path("mitm.yaml"), default_state() / "mitm.yaml"):
        if candidate.is_file():
            return candidate
    return shipped_config()


def shipped_config() -> Path:
    """The default that is shipped: in an installed package beside this module, else the one of the repository."""
    packaged = Path(__file__).with_name("mitm.yaml")
    return packaged if packaged.is_file() else Path(__file__).parent.with_name("mitm.yaml")


def config_to_name(file: Path | None) -> Path | None:
    """The file, where commands use it only if they name it; None: they find it in whatever folder they are started."""
    if file is None:
        return None
    try:
        kept = default_state() / "mitm.yaml"
    except ValueError:
        return file.absolute()
    found = kept if kept.is_file() else shipped_config()
    return None if os.path.realpath(file) == os.path.realpath(found) else file.absolute()


def load_config(path: Path | None = None) -> Config:
    """Read and check a configuration file; None: the one that `find_config` finds. Raises ConfigError."""
    try:
        file = path or find_config()
    except ValueError as error:
        raise _wrong_home(error) from None
    return parse_config(read_text(file), file)


def parse_config(text: str, file: Path) -> Config:
    """Check the text of a configuration file, in whose folder relative paths start. Raises ConfigError."""
    try:
        state = default_state()
    except ValueError as error:
        raise _wrong_home(error) from None
    document, top = parse_document(text, str(file))
    if top is None:
        return Config(state=state, file=file)
    config = SectionReader(file, state).config(Section(Value(document, "", top)))
    document.finish()
    return config


def _wrong_home(error: ValueError) -> ConfigError:
    message = f"`{os.environ.get('MITMEMORY_HOME', SHIPPED_STATE)}` {error}"
    return ConfigError([Fault("MITMEMORY_HOME", None, "", message, "set it to a folder, or unset it")])
