"""Reads `conversations`: where the memory of conversations is kept, how it is searched, who summarises it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from addons import config_checks as checks
from addons.config_listeners import Listeners
from addons.config_model import (
    CompactionConfig,
    Compactor,
    ConversationsConfig,
    Embedding,
    EmbeddingConfig,
    Language,
    MilvusConfig,
)
from addons.config_reader import Section, Value
from addons.config_values import parse_upstream
from memory.conversations.recall import MOST_RESULTS

LEAST_INACTIVITY = 600.0
LEAST_SESSION = 1800.0

EMBEDDINGS: Mapping[Embedding, tuple[str, ...]] = {
    "builtin": (),
    "onnx": ("model",),
    "local": ("model",),
    "ollama": ("model",),
    "openai": ("model", "base_url", "api_key_env"),
    "google": ("model",),
    "voyage": ("model",),
    "jina": ("model", "api_key_env"),
    "mistral": ("model", "api_key_env"),
}
"""What memsearch (0.4.23, `embeddings.get_provider`) hands on to each provider; the rest it drops without a word."""

COMPACTORS: Mapping[Compactor, tuple[str, ...]] = {
    "openai": ("model", "base_url", "api_key_env"),
    "anthropic": ("model",),
    "gemini": ("model",),
}
"""The same of those that summarise (`memsearch.compact.compact_chunks`)."""

ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("ollama", "base_url"): "OLLAMA_HOST",
    ("google", "api_key_env"): "GOOGLE_API_KEY",
    ("gemini", "api_key_env"): "GOOGLE_API_KEY",
    ("voyage", "api_key_env"): "VOYAGE_API_KEY",
    ("anthropic", "api_key_env"): "ANTHROPIC_API_KEY",
}
"""The variables that they read themselves."""

LANGUAGES: tuple[Language, ...] = get_args(Language.__value__)

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ConversationsReader:
    """Reads the section. `path` reads a path as the other sections do."""

    def __init__(self, listeners: Listeners, path: Callable[[Value], Path | None]) -> None:
        self._listeners = listeners
        self._path = path

    def read(self, section: Section) -> ConversationsConfig:
        default = ConversationsConfig()
        config = ConversationsConfig(
            directory=section.read_optional("directory", self._path),
            embedding=self._embedding(section.section("embedding")),
            milvus=self._milvus(section.get("milvus")),
            recall_tool_name=section.read("recall_tool_name", _tool_name, default.recall_tool_name),
            search_top_k=section.read("search_top_k", _results, default.search_top_k),
            redact_secrets=section.read("redact_secrets", Value.flag, default.redact_secrets),
            language=section.read("language", lambda value: value.choice(LANGUAGES), default.language),
            session_inactivity=section.read(
                "session_inactivity", _at_least(LEAST_INACTIVITY, "10m"), default.session_inactivity
            ),
            max_session=section.read("max_session", _at_least(LEAST_SESSION, "30m"), default.max_session),
            compaction=self._compaction(section.section("compaction")),
        )
        section.close()
        return config

    def _embedding(self, section: Section) -> EmbeddingConfig:
        provider: Embedding = section.read("provider", lambda value: value.choice(tuple(EMBEDDINGS)), "builtin")
        given = _given(section, EMBEDDINGS["openai"])
        config = EmbeddingConfig(
            provider=provider,
            model=section.read_optional("model", checks.name),
            base_url=section.read_optional("base_url", self._url),
            api_key_env=section.read_optional("api_key_env", checks.variable),
        )
        section.close()
        _check_taken(config.provider, given, EMBEDDINGS[config.provider])
        return config

    def _milvus(self, value: Value | None) -> MilvusConfig | None:
        if value is None or value.is_empty:
            return None
        section = Section(value)
        config = MilvusConfig(
            uri=section.read_optional("uri", self._server) or "",
            token_env=section.read_optional("token_env", checks.variable),
        )
        section.close()
        if section.lacks("uri"):
            value.fault("`uri` is missing", "say where the server is, like `http://127.0.0.1:19530`")
        return config

    def _compaction(self, section: Section) -> CompactionConfig:
        enabled, provider = section.get("enabled"), section.get("provider")
        given = _given(section, COMPACTORS["openai"])
        config = CompactionConfig(
            enabled=section.read("enabled", Value.flag, default=False),
            provider=section.read_optional("provider", lambda value: value.choice(tuple(COMPACTORS))),
            base_url=section.read_optional("base_url", self._url),
            model=section.read_optional("model", checks.name),
            api_key_env=section.read_optional("api_key_env", checks.variable),
        )
        section.close()
        if config.provider is not None:
            _check_taken(config.provider, given, COMPACTORS[config.provider])
        elif config.enabled and enabled and (provider is None or provider.is_null):
            enabled.fault(
                "nobody is named who summarises, and none is chosen for you",
                "name a `provider`: openai (also for a model of your own, with `base_url`), anthropic or gemini",
            )
        if config.base_url and not config.model and not section.get("model"):
            given["base_url"].fault(
                "a server of your own has no model by default", "name one with `model`, like `qwen3:8b`"
            )
        return config

    def _url(self, value: Value) -> str | None:
        return self._server(value, "write it like `http://127.0.0.1:11434/v1`")

    def _server(self, value: Value, mend: str = "write it like `http://127.0.0.1:19530`") -> str | None:
        if "@" in str(value.node.value):  # the fault would show the password
            value.fault("it holds a user name or a password", "name the variable that holds it instead")
            return None
        found = value.parsed(parse_upstream, "a URL", mend)
        if found is None:
            return None
        self._listeners.connects_to(found, value)
        return str(value.node.value).strip()


def _given(section: Section, keys: tuple[str, ...]) -> dict[str, Value]:
    return {key: value for key in keys if (value := section.get(key)) and not value.is_null}


def _check_taken(provider: str, given: Mapping[str, Value], taken: tuple[str, ...]) -> None:
    """Find fault with keys that this provider would ignore."""
    for key, value in given.items():
        if key not in taken:
            variable = ELSEWHERE.get((provider, key))
            mend = f"leave it out, and set the variable `{variable}`" if variable else "leave it out"
            value.fault(f"`{provider}` takes no `{key}`", mend)


def _tool_name(value: Value) -> str | None:
    """What all providers accept as the name of a tool."""
    written = value.text("a name")
    if written is not None and not _TOOL_NAME.fullmatch(written):
        value.fault(
            f"`{written}` is no name of a tool", "write a letter, then letters, digits, `_` and `-`, 64 at most"
        )
        return None
    return written


def _results(value: Value) -> int | None:
    count = value.integer(1)
    if count is not None and count > MOST_RESULTS:
        value.fault(f"{count} is too large", f"write at most {MOST_RESULTS}")
        return None
    return count


def _at_least(seconds: float, written: str) -> Callable[[Value], float | None]:
    def read(value: Value) -> float | None:
        found = checks.duration(value)
        if found is not None and found < seconds:
            value.fault(f"`{value.node.value}` is too short", f"write at least `{written}`")
            return None
        return found

    return read
