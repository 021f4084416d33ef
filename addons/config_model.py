"""mitm.yaml as plain data. The classes mirror the file; their defaults are the file's (design.md, "mitm.yaml").

Sizes are bytes, durations seconds, paths absolute. Every key is described in docs/configuration.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from addons.clients import ClientConfig
from addons.config_values import DAY, HOUR, MIB, Address, Upstream, expand_path
from addons.providers import ProviderConfig
from addons.targets import TargetConfig
from memory.conversations.recall_tool import DEFAULT_NAME
from memory.rules import Rule
from memory.rules.book import Unscanned

type Mode = Literal["annotate", "dispatch"]
type Mentions = Literal["careful", "seed"]
type Embedding = Literal["builtin", "onnx", "local", "ollama", "openai", "google", "voyage", "jina", "mistral"]
type Compactor = Literal["openai", "anthropic", "gemini"]
type Language = Literal[
    "danish",
    "dutch",
    "english",
    "french",
    "german",
    "italian",
    "norwegian",
    "portuguese",
    "russian",
    "spanish",
    "swedish",
    "turkish",
]

SHIPPED_STATE = "~/.mitmemory"


@dataclass(frozen=True, slots=True)
class ReverseConfig:
    """A listener for clients that take a base URL: everything that comes in by it goes to `upstream`."""

    listen: Address
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    listen: Address = field(default=Address("127.0.0.1", 8080))
    reverse: tuple[ReverseConfig, ...] = ()
    inspector: Address | None = field(default=Address("127.0.0.1", 8081))
    keep_flows: int = 200
    keep_bytes: int = 100 * MIB
    max_body: int = 64 * MIB
    mitmproxy: Mapping[str, Any] = field(default_factory=dict)
    """Options of mitmproxy by their own names. Whether there is such an option is for mitmproxy to say."""


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """`kind` is `type` in the file."""

    name: str
    kind: str
    path: Path
    exclude: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    sources: tuple[SourceConfig, ...] = ()
    track_sharing: bool = True
    quotes: bool = True
    mentions: Mentions = "careful"
    minimum_line_length: int = 24
    refresh_interval: float = 60.0
    max_notes_per_source: int = 5000
    max_note_bytes: int = MIB


@dataclass(frozen=True, slots=True)
class ActivityConfig:
    keep: float = 90.0 * DAY
    max_entries: int = 1_000_000


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """What turns text into vectors. All but `builtin` are memsearch's; None: the provider's own default."""

    provider: Embedding = "builtin"
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True)
class MilvusConfig:
    """A Milvus server, for all clients. `token_env` names the variable that holds its token."""

    uri: str
    token_env: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Who summarises sessions that are over. A provider is given whenever it is enabled; None: its own default."""

    enabled: bool = False
    provider: Compactor | None = None
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationsConfig:
    """The memory of the clients that are opted in."""

    directory: Path | None = None
    """None: `memory` in the state directory."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    milvus: MilvusConfig | None = None
    """None: a Milvus Lite database for each client."""
    recall_tool_name: str = DEFAULT_NAME
    search_top_k: int = 5
    redact_secrets: bool = True
    language: Language = "english"
    session_inactivity: float = 3 * HOUR
    max_session: float = 8 * HOUR
    compaction: CompactionConfig = CompactionConfig()


@dataclass(frozen=True, slots=True)
class TokensConfig:
    """None: one is made at start. Never shown, not even by `repr`."""

    admin: str | None = field(default=None, repr=False)
    read_only: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DashboardConfig:
    listen: Address = field(default=Address("127.0.0.1", 8090))
    prefix: str = "/"
    """Starts and ends with `/`."""
    allow_process_settings: bool = False
    tokens: TokensConfig = TokensConfig()


def default_state() -> Path:
    """`MITMEMORY_HOME`, else `~/.mitmemory`."""
    return expand_path(os.environ.get("MITMEMORY_HOME") or SHIPPED_STATE, Path.cwd(), os.environ)


@dataclass(frozen=True, slots=True)
class Config:
    mode: Mode = "dispatch"
    proxy: ProxyConfig = field(default_factory=ProxyConfig)
    memory: MemoryConfig = MemoryConfig()
    providers: tuple[ProviderConfig, ...] = ()
    targets: tuple[TargetConfig, ...] = ()
    rules: tuple[Rule, ...] = ()
    unscanned: Unscanned | None = None
    """None: `block` once anything restricts what goes to the cloud, else `allow`."""
    activity: ActivityConfig = ActivityConfig()
    clients: tuple[ClientConfig, ...] = ()
    conversations: ConversationsConfig = ConversationsConfig()
    dashboard: DashboardConfig = DashboardConfig()
    state: Path | None = field(default_factory=default_state)
    """A directory; None: nothing is kept between runs."""
    file: Path | None = field(default=None, compare=False)
    """Where all this was read."""

    @property
    def remembered(self) -> frozenset[str]:
        """The slugs of the clients whose conversations are recorded."""
        return frozenset(client.slug for client in self.clients if client.memory_enabled)

    @property
    def looped(self) -> frozenset[str]:
        """The slugs of the clients whose models can search the memory inside the conversation."""
        return frozenset(
            client.slug for client in self.clients if client.memory_enabled and client.mode == "mcp_via_llm"
        )

    @property
    def conversations_directory(self) -> Path | None:
        """Where the conversations of all clients are; None: nowhere, so that no client has a memory."""
        return self.conversations.directory or (self.state and self.state / "memory")

    @property
    def client_listeners(self) -> tuple[Address, ...]:
        """The further addresses of the proxy that single clients are told by, each once."""
        taken = {self.proxy.listen, *(one.listen for one in self.proxy.reverse)}
        listens = dict.fromkeys(client.match.listen for client in self.clients)
        return tuple(listen for listen in listens if listen and listen not in taken)
