"""mitm.yaml on the memory of conversations: what it may say of it, and what is said about each thing it may not say."""

from __future__ import annotations

import os
from pathlib import Path

import bm25s.tokenization
import pytest
import Stemmer
from memsearch.embeddings import DEFAULT_MODELS

from addons.clients import ClientConfig, MatchConfig
from addons.config import (
    CompactionConfig,
    Config,
    ConfigError,
    ConversationsConfig,
    EmbeddingConfig,
    Fault,
    MilvusConfig,
    load_config,
)
from addons.config_conversations import COMPACTORS, EMBEDDINGS, LANGUAGES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MITMEMORY_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def load(text: str) -> Config:
    file = Path("mitm.yaml")
    file.write_text(text, "utf-8")
    return load_config(file)


def faults(text: str) -> tuple[Fault, ...]:
    with pytest.raises(ConfigError) as raised:
        load(text)
    return raised.value.faults


def client(more: str) -> str:
    return f"clients:\n  - {{name: codex, match: {{proxy_user: codex}}, {more}}}\n"


def test_the_defaults() -> None:
    assert Config().conversations == ConversationsConfig(
        directory=None,
        embedding=EmbeddingConfig("builtin", None, None, None),
        milvus=None,
        recall_tool_name="MemoryRecall",
        search_top_k=5,
        redact_secrets=True,
        language="english",
        session_inactivity=10_800.0,
        max_session=28_800.0,
        compaction=CompactionConfig(False, None, None, None, None),
    )


@pytest.mark.parametrize(
    "text", ["conversations:\n", "conversations: {}\n", "conversations: {milvus: {}, embedding: }\n"]
)
def test_what_says_nothing_is_the_default(text: str) -> None:
    assert load(text) == Config()


def test_a_section_that_says_everything(tmp_path: Path) -> None:
    config = load(
        """
conversations:
  directory: ~/talks
  embedding: {provider: openai, model: nomic-embed, base_url: "http://127.0.0.1:1234/v1", api_key_env: EMBED_KEY}
  milvus: {uri: "http://milvus.example:19530", token_env: MILVUS_TOKEN}
  recall_tool_name: _recall-2
  search_top_k: 20
  redact_secrets: false
  language: german
  session_inactivity: 10m
  max_session: 00:30:00
  compaction: {enabled: true, provider: openai, base_url: "http://127.0.0.1:11434/v1", model: "qwen3:8b", api_key_env: KEY}
"""
    )
    assert config.conversations == ConversationsConfig(
        directory=tmp_path / "home" / "talks",
        embedding=EmbeddingConfig("openai", "nomic-embed", "http://127.0.0.1:1234/v1", "EMBED_KEY"),
        milvus=MilvusConfig("http://milvus.example:19530", "MILVUS_TOKEN"),
        recall_tool_name="_recall-2",
        search_top_k=20,
        redact_secrets=False,
        language="german",
        session_inactivity=600.0,
        max_session=1800.0,
        compaction=CompactionConfig(True, "openai", "http://127.0.0.1:11434/v1", "qwen3:8b", "KEY"),
    )


def test_compaction_may_be_described_before_it_is_enabled() -> None:
    config = load("conversations: {compaction: {provider: anthropic, model: claude-test}}")
    assert config.conversations.compaction == CompactionConfig(provider="anthropic", model="claude-test")
    assert load("conversations: {compaction: {enabled: true, provider: gemini}}").conversations.compaction.enabled


def test_where_conversations_are_kept(tmp_path: Path) -> None:
    assert load("state: kept\n").conversations_directory == tmp_path / "kept" / "memory"
    assert load("state: kept\nconversations: {directory: talks}").conversations_directory == tmp_path / "talks"
    assert load("state: null\nconversations: {directory: talks}").conversations_directory == tmp_path / "talks"
    assert load("state: null").conversations_directory is None


def test_each_client_is_opted_in_by_itself() -> None:
    config = load(
        "clients:\n"
        "  - {name: Claude Code, match: {proxy_user: a}, memory_enabled: true}\n"
        "  - {name: codex, match: {proxy_user: b}, mode: mcp_via_llm, memory_enabled: yes}\n"
        "  - {name: quiet, match: {proxy_user: c}, mode: llm_only, memory_enabled: null}\n"
        "  - {name: none, match: {proxy_user: d}, mode: mcp_only}\n"
    )
    assert config.clients == (
        ClientConfig("Claude Code", MatchConfig(proxy_user="a"), "both", memory_enabled=True),
        ClientConfig("codex", MatchConfig(proxy_user="b"), "mcp_via_llm", memory_enabled=True),
        ClientConfig("quiet", MatchConfig(proxy_user="c"), "llm_only", memory_enabled=False),
        ClientConfig("none", MatchConfig(proxy_user="d"), "mcp_only", memory_enabled=False),
    )
    assert config.remembered == {"claude-code", "codex"}
    assert Config().remembered == frozenset()


SERVER = "write it like `http://127.0.0.1:19530`"
ENDPOINT = "write it like `http://127.0.0.1:11434/v1`"
NO_KEY = "it is no name of a variable, and the key itself does not belong here"
NAME_IT = "write the variable's name, like `LMSTUDIO_KEY`, and the key into the variable"

FAULTS = [
    ("[]", "", "a list stands where keys and values belong", "write `key: value` lines"),
    ("{search_topk: 3}", ".search_topk", "no such key", "did you mean `search_top_k`?"),
    ("{directory: $NOT_SET/x}", ".directory", "`$NOT_SET/x` names the variable NOT_SET, which is not set", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ("{search_top_k: 0}", ".search_top_k", "0 is too small", "write at least 1"),
    ("{search_top_k: 21}", ".search_top_k", "21 is too large", "write at most 20"),
    ("{search_top_k: few}", ".search_top_k", "`few` is no whole number", "write a whole number, at least 1"),
    ("{redact_secrets: 1}", ".redact_secrets", "a number (`1`) stands where true or false belongs", "write `true` or `false`"),
    ("{language: klingon}", ".language", f"`klingon` is not one of {', '.join(LANGUAGES)}", "write one of them"),
    ("{language: English}", ".language", f"`English` is not one of {', '.join(LANGUAGES)}", "did you mean `english`?"),
    ("{session_inactivity: 599}", ".session_inactivity", "`599` is too short", "write at least `10m`"),
    ("{session_inactivity: long}", ".session_inactivity", "`long` is no duration", "write `1m`, `00:01:00`, or a number of seconds"),
    ("{max_session: 29m}", ".max_session", "`29m` is too short", "write at least `30m`"),
    ("{recall_tool_name: Memory Recall}", ".recall_tool_name", "`Memory Recall` is no name of a tool", "write a letter, then letters, digits, `_` and `-`, 64 at most"),
    ("{recall_tool_name: 7}", ".recall_tool_name", "a number (`7`) stands where a name belongs", "put it in quotes"),
    (f"{{recall_tool_name: {'x' * 65}}}", ".recall_tool_name", f"`{'x' * 65}` is no name of a tool", "write a letter, then letters, digits, `_` and `-`, 64 at most"),
    ("{embedding: {provider: open-ai}}", ".embedding.provider", "`open-ai` is not one of builtin, onnx, local, ollama, openai, google, voyage, jina, mistral", "did you mean `openai`?"),
    ("{embedding: {provider: null}}", ".embedding.provider", "nothing stands where `builtin` or `onnx` or `local` or `ollama` or `openai` or `google` or `voyage` or `jina` or `mistral` belongs", "write `builtin` or `onnx` or `local` or `ollama` or `openai` or `google` or `voyage` or `jina` or `mistral`"),
    ("{embedding: {model: minilm}}", ".embedding.model", "`builtin` takes no `model`", "leave it out"),
    ("{embedding: {provider: onnx, base_url: 'http://127.0.0.1:1'}}", ".embedding.base_url", "`onnx` takes no `base_url`", "leave it out"),
    ("{embedding: {provider: ollama, base_url: 'http://127.0.0.1:11434'}}", ".embedding.base_url", "`ollama` takes no `base_url`", "leave it out, and set the variable `OLLAMA_HOST`"),
    ("{embedding: {provider: google, api_key_env: KEY}}", ".embedding.api_key_env", "`google` takes no `api_key_env`", "leave it out, and set the variable `GOOGLE_API_KEY`"),
    ("{embedding: {provider: openai, api_key_env: sk-secret-1}}", ".embedding.api_key_env", NO_KEY, NAME_IT),
    ("{embedding: {provider: openai, base_url: localhost}}", ".embedding.base_url", "`localhost` is no http:// or https:// URL", ENDPOINT),
    ("{embedding: {provider: openai, base_url: 'http://127.0.0.1:8080/v1'}}", ".embedding.base_url", "it leads back to `proxy.listen`", "name the address of the server that answers"),
    ("{embedding: {dimensions: 3}}", ".embedding.dimensions", "no such key", "the keys here are provider, model, base_url, api_key_env"),
    ("{milvus: on}", ".milvus", "true or false (`on`) stands where keys and values belong", "write `key: value` lines"),
    ("{milvus: {token_env: KEY}}", ".milvus", "`uri` is missing", "say where the server is, like `http://127.0.0.1:19530`"),
    ("{milvus: {uri: 'milvus:19530'}}", ".milvus.uri", "`milvus:19530` is no http:// or https:// URL", SERVER),
    ("{milvus: {uri: 'http://me:secret@milvus:19530'}}", ".milvus.uri", "it holds a user name or a password", "name the variable that holds it instead"),
    ("{milvus: {uri: 'http://milvus:19530', token_env: 12345}}", ".milvus.token_env", NO_KEY, NAME_IT),
    ("{milvus: {uri: 'http://milvus:19530', token: x}}", ".milvus.token", "no such key", "did you mean `token_env`?"),
    ("{compaction: {enabled: true}}", ".compaction.enabled", "nobody is named who summarises, and none is chosen for you", "name a `provider`: openai (also for a model of your own, with `base_url`), anthropic or gemini"),
    ("{compaction: {enabled: true, provider: null, model: x}}", ".compaction.enabled", "nobody is named who summarises, and none is chosen for you", "name a `provider`: openai (also for a model of your own, with `base_url`), anthropic or gemini"),
    ("{compaction: {enabled: true, provider: openia}}", ".compaction.provider", "`openia` is not one of openai, anthropic, gemini", "did you mean `openai`?"),
    ("{compaction: {provider: gemini, api_key_env: KEY}}", ".compaction.api_key_env", "`gemini` takes no `api_key_env`", "leave it out, and set the variable `GOOGLE_API_KEY`"),
    ("{compaction: {provider: openai, base_url: 'http://127.0.0.1:11434/v1'}}", ".compaction.base_url", "a server of your own has no model by default", "name one with `model`, like `qwen3:8b`"),
    ("{compaction: {provider: openai, model: x, base_url: 'http://localhost:8090'}}", ".compaction.base_url", "it leads back to `dashboard.listen`", "name the address of the server that answers"),
    ("{compaction: {every: 1h}}", ".compaction.every", "no such key", "the keys here are enabled, provider, model, base_url, api_key_env"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "key", "message", "mend"), FAULTS)
def test_one_fault(section: str, key: str, message: str, mend: str) -> None:
    assert faults(f"\nconversations: {section}\n") == (Fault("mitm.yaml", 2, f"conversations{key}", message, mend),)


CLIENTS = [
    ("memory_enabled: 1", ".memory_enabled", "a number (`1`) stands where true or false belongs", "write `true` or `false`"),
    ("mode: all, memory_enabled: true", ".mode", "`all` is not one of both, mcp_via_llm, llm_only, mcp_only", "write one of them"),
    ("memory_enabled: true, mode: llm_only", ".memory_enabled", "a client that is `llm_only` has no MCP, so nothing would offer it what is remembered", "write `mode: both` or `mode: mcp_via_llm`, or leave the memory off"),
    ("mode: mcp_only, memory_enabled: true", ".memory_enabled", "of a client that is `mcp_only` no conversation comes by that could be remembered", "write `mode: both` or `mode: mcp_via_llm`, or leave the memory off"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "key", "message", "mend"), CLIENTS)
def test_one_fault_of_a_client(more: str, key: str, message: str, mend: str) -> None:
    assert faults(client(more)) == (Fault("mitm.yaml", 2, f"clients[0]{key}", message, mend),)


def test_without_a_state_a_memory_needs_a_folder_of_its_own() -> None:
    text = f"state: null\n{client('memory_enabled: true')}"
    message = "there is no place for it: `state` is null, and so is `conversations.directory`"
    assert faults(text) == (Fault("mitm.yaml", 3, "clients[0].memory_enabled", message, "set one of them"),)
    assert load(text + "conversations: {directory: talks}\n").remembered == {"codex"}
    assert load(f"state: null\n{client('memory_enabled: false')}").remembered == frozenset()


def test_what_may_be_named_is_what_the_libraries_know() -> None:
    assert set(EMBEDDINGS) == {"builtin", *DEFAULT_MODELS}
    assert set(LANGUAGES) <= set(Stemmer.algorithms())
    for language in LANGUAGES:
        assert bm25s.tokenization._infer_stopwords(language)
    assert set(COMPACTORS) == {"openai", "anthropic", "gemini"}


def test_reading_the_configuration_asks_no_library_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is not set now may be set when it is needed."""
    monkeypatch.setattr(os, "environ", {"HOME": os.environ["HOME"]})
    config = load(
        "conversations: {embedding: {provider: voyage}, milvus: {uri: 'https://milvus.example', token_env: T}}"
    )
    assert config.conversations.milvus == MilvusConfig("https://milvus.example", "T")
