"""mitm.yaml: what it may say, and where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.config import (
    Address,
    ClientConfig,
    Config,
    ConfigError,
    ConnectTo,
    DashboardConfig,
    Fault,
    MatchConfig,
    MemoryConfig,
    ProviderConfig,
    ProxyConfig,
    ReverseConfig,
    SourceConfig,
    TokensConfig,
    Upstream,
    config_to_name,
    find_config,
    load_config,
)
from tests.addons.config_files import SHIPPED, at_home, faults, load


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


# What a file may say


def test_a_file_that_says_everything(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES", "/srv/notes")
    monkeypatch.setenv("Team", "blue")
    config = load(
        """
mode: annotate
proxy:
  listen: "[::1]:9000"
  reverse:
    - {listen: 127.0.0.1:9001, upstream: "https://api.anthropic.com"}
    - {listen: 127.0.0.1:0, upstream: "http://[::1]:11434/"}
    - {listen: localhost:9003, upstream: "https://LLM.example.com/api/v1/"}
  inspector: null
  keep_flows: 5
  keep_bytes: 1.5MiB
  max_body: 1000
  mitmproxy: {ssl_insecure: true, anticache: no, termlog_verbosity: warn, proxy_debug: null, tls_version_x: 1.5,
              server_replay_ignore_params: [a, 12], flow_detail: 2, upstream_auth: 12:30, http_connect_send_host_header: .inf, web_columns: []}
memory:
  sources:
    - {name: vault, path: "~/My Notes", exclude: ["Templates/*", "!Templates/keep.md"], extensions: [.txt, .org]}
    - {name: two, type: Markdown, path: $NOTES/a, enabled: false}
    - {name: three, type: markdown, path: "%%NOTES%%/${Team}/../b"}
    - {name: four, path: sub/folder}
    - {name: five, type: ClaudeCode, exclude: [projects/old/*]}
    - {name: six, type: claude_code, path: ~/other}
    - {name: seven, type: KnowledgeGraph, path: ~/.mcp/memory.jsonl}
    - {name: eight, type: "my.notes:Facts", path: facts.db}
    - {name: nine, type: conversations}
    - {name: ten, type: Conversations, path: "."}
  track_sharing: false
  quotes: false
  mentions: seed
  minimum_line_length: 8
  refresh_interval: 00:01:30
  max_notes_per_source: 1
  max_note_bytes: 2 kB
providers:
  - {name: lab, hosts: ["llm.example.com"], local: false, connect_to: "http://127.0.0.1:9911", protocol: openai-chat}
  - {name: Anthropic, local: true, connect_to: null}
  - {name: openai, hosts: []}
targets: []
rules:
unscanned: null
activity: {keep: 90d, max_entries: 1000000}
clients:
  - {name: Claude Code, match: {proxy_user: claude-code}, mode: both, memory_enabled: false}
  - name: all
    match: {listen: 127.0.0.1:9004, proxy_user: me, user_agent: "tool/*", api_key: "hmac:%s"}
  - {name: base, match: {listen: 127.0.0.1:9001, user_agent: null}}
  - {name: main, match: {listen: "[::1]:9000"}}
  - {name: shared, match: {listen: 127.0.0.1:9004}}
conversations: {}
dashboard:
  listen: localhost:0
  prefix: /notes
  allow_process_settings: true
  tokens: {admin: "admin-token-for-tests", read_only: "reader-token-for-tests"}
state: state
"""
        % ("0a" * 32),
        tmp_path,
    )
    assert config == Config(
        mode="annotate",
        proxy=ProxyConfig(
            listen=Address("::1", 9000),
            reverse=(
                ReverseConfig(Address("127.0.0.1", 9001), Upstream("https", "api.anthropic.com", 443)),
                ReverseConfig(Address("127.0.0.1", 0), Upstream("http", "::1", 11434)),
                ReverseConfig(Address("127.0.0.1", 9003), Upstream("https", "llm.example.com", 443, "/api/v1")),
            ),
            inspector=None,
            keep_flows=5,
            keep_bytes=1_572_864,
            max_body=1000,
            mitmproxy={
                "ssl_insecure": True,
                "anticache": False,
                "termlog_verbosity": "warn",
                "proxy_debug": None,
                "tls_version_x": 1.5,
                "server_replay_ignore_params": ["a", 12],
                "flow_detail": 2,
                "upstream_auth": "12:30",
                "http_connect_send_host_header": ".inf",
                "web_columns": [],
            },
        ),
        memory=MemoryConfig(
            sources=(
                SourceConfig(
                    name="vault",
                    kind="markdown",
                    path=home / "My Notes",
                    exclude=("Templates/*", "!Templates/keep.md"),
                    extensions=(".txt", ".org"),
                ),
                SourceConfig("two", "markdown", Path("/srv/notes/a"), enabled=False),
                SourceConfig("three", "markdown", Path("/srv/notes/b")),
                SourceConfig("four", "markdown", tmp_path / "sub" / "folder"),
                SourceConfig("five", "claude_code", home / ".claude", exclude=("projects/old/*",)),
                SourceConfig("six", "claude_code", home / "other"),
                SourceConfig("seven", "knowledge_graph", home / ".mcp" / "memory.jsonl"),
                SourceConfig("eight", "my.notes:Facts", tmp_path / "facts.db"),
                SourceConfig("nine", "conversations", tmp_path / "state" / "memory"),
                SourceConfig("ten", "conversations", tmp_path),
            ),
            track_sharing=False,
            quotes=False,
            mentions="seed",
            minimum_line_length=8,
            refresh_interval=90.0,
            max_notes_per_source=1,
            max_note_bytes=2000,
        ),
        providers=(
            ProviderConfig("lab", ("llm.example.com",), False, ConnectTo("http", "127.0.0.1", 9911), "openai-chat"),
            ProviderConfig("Anthropic", local=True),
            ProviderConfig("openai", hosts=()),
        ),
        clients=(
            ClientConfig("Claude Code", MatchConfig(proxy_user="claude-code")),
            ClientConfig("all", MatchConfig(Address("127.0.0.1", 9004), "me", "hmac:" + "0a" * 32, "tool/*")),
            ClientConfig("base", MatchConfig(Address("127.0.0.1", 9001))),
            ClientConfig("main", MatchConfig(Address("::1", 9000))),
            ClientConfig("shared", MatchConfig(Address("127.0.0.1", 9004))),
        ),
        dashboard=DashboardConfig(
            listen=Address("127.0.0.1", 0),
            prefix="/notes/",
            allow_process_settings=True,
            tokens=TokensConfig("admin-token-for-tests", "reader-token-for-tests"),
        ),
        state=tmp_path / "state",
    )
    assert config.file == tmp_path / "mitm.yaml"
    assert config.client_listeners == (Address("127.0.0.1", 9004),)
    assert [client.slug for client in config.clients] == ["claude-code", "all", "base", "main", "shared"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# only a comment\n",
        b"---\n",
        b"\xef\xbb\xbfmode: dispatch\r\n",
        b"memory:\nproxy:\n  mitmproxy:\ndashboard:\n  tokens:\nactivity:\nproviders:\n",
        b"memory:\n  sources:\n    # - {name: vault}\n",
        b"state: ~/.mitmemory\n",
        b"dashboard: {tokens: {admin: ~, read_only: null}}\n",
    ],
)
def test_what_says_nothing_is_the_default(text: bytes) -> None:
    assert load(text) == Config()


def test_ports_of_zero_never_clash() -> None:
    config = load("proxy: {listen: 127.0.0.1:0, inspector: 127.0.0.1:0}\ndashboard: {listen: 127.0.0.1:0}")
    assert config.proxy.listen == config.proxy.inspector == config.dashboard.listen == Address("127.0.0.1", 0)


def test_tokens_are_never_shown() -> None:
    config = load('dashboard: {tokens: {admin: "admin-token-for-tests"}}')
    assert config.dashboard.tokens.admin == "admin-token-for-tests"
    assert "admin-token" not in repr(config)
    found = faults('dashboard: {tokens: {admin: "short secret", read_only: 1234567890123456789}}')
    assert found == [
        (
            "mitm.yaml:1: dashboard.tokens.admin: a token has at least 16 letters, digits or signs, and no space; "
            "mend: write `null` to have one made"
        ),
        (
            "mitm.yaml:1: dashboard.tokens.read_only: a token is text; "
            "mend: put it in quotes, or write `null` to have one made"
        ),
    ]


def test_conversations_are_where_they_are_kept(tmp_path: Path) -> None:
    source = "memory: {sources: [{name: a, type: conversations}]}"
    kept = "conversations: {directory: talk}"
    for more in (kept, f"{kept}\nstate: null"):
        [found] = load(f"{source}\n{more}\n", tmp_path).memory.sources
        assert found == SourceConfig("a", "conversations", tmp_path / "talk")
    with pytest.raises(ConfigError) as raised:
        load(f"{source}\nstate: null\n")
    mend = "say where the conversations are, or set `state`"
    assert raised.value.faults == (Fault("mitm.yaml", 1, "memory.sources[0]", "`path` is missing", mend),)


# Where it is looked for, and where state is kept


def test_without_a_path_the_nearest_file_is_read(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_config() == SHIPPED
    assert load_config() == Config()
    in_state = home / ".mitmemory"
    in_state.mkdir()
    (in_state / "mitm.yaml").write_text("mode: annotate")
    assert find_config() == in_state / "mitm.yaml"
    assert load_config().mode == "annotate"
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "mitm.yaml").write_text("memory: {quotes: false}")
    monkeypatch.setenv("MITMEMORY_HOME", str(moved))
    assert load_config() == Config(memory=MemoryConfig(quotes=False), state=moved)
    (tmp_path / "mitm.yaml").write_text("proxy: {keep_flows: 3}")
    assert find_config() == Path("mitm.yaml")
    assert load_config().proxy.keep_flows == 3


def test_which_configuration_a_command_has_to_name(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, in_state = tmp_path / "mitm.yaml", home / ".mitmemory" / "mitm.yaml"
    here.write_text("")
    assert [config_to_name(one) for one in (None, SHIPPED, Path("mitm.yaml"), in_state)] == [None, None, here, in_state]
    in_state.parent.mkdir()
    in_state.write_text("")
    assert [config_to_name(one) for one in (SHIPPED, in_state)] == [SHIPPED, None]
    (tmp_path / "link.yaml").symlink_to(in_state)
    assert config_to_name(Path("link.yaml")) is None
    monkeypatch.setenv("MITMEMORY_HOME", "$NOT_SET/x")
    assert config_to_name(in_state) == in_state


@pytest.mark.parametrize(
    ("home_variable", "text", "state"),
    [
        (None, "", "home/.mitmemory"),
        (None, "state: ~/elsewhere", "home/elsewhere"),
        (None, "state: null", None),
        ("", "", "home/.mitmemory"),
        ("moved", "", "moved"),
        ("~/moved", "", "home/moved"),
        ("moved", "state: ~/.mitmemory", "moved"),
        ("moved", "state: ~/elsewhere", "home/elsewhere"),
        ("moved", "state: null", None),
    ],
)
def test_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home_variable: str | None, text: str, state: str | None
) -> None:
    if home_variable is not None:
        monkeypatch.setenv("MITMEMORY_HOME", home_variable)
    assert load(text).state == (None if state is None else tmp_path / state)


def test_a_home_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MITMEMORY_HOME", "$NOT_SET/x")
    with pytest.raises(ConfigError) as raised:
        load_config()
    assert str(raised.value) == (
        "MITMEMORY_HOME: `$NOT_SET/x` names the variable NOT_SET, which is not set; mend: set it to a folder, or unset it"
    )
