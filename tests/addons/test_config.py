"""mitm.yaml: what it may say, and what is said about each thing it may not say."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest
import yaml

from addons.config import (
    ActivityConfig,
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
    find_config,
    load_config,
)
from addons.config_values import expand_path, parse_connect_to, parse_duration, parse_listen, parse_size, parse_upstream

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "mitm.yaml"
DOCUMENTATION = ROOT / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.delenv("MITMEMORY_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def load(text: str | bytes, folder: Path = Path()) -> Config:
    file = folder / "mitm.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file)


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == "\n".join(str(fault) for fault in raised.value.faults)
    return [str(fault) for fault in raised.value.faults]


# The shipped default, and its description


def test_the_shipped_file_says_what_the_classes_default_to() -> None:
    assert load_config(SHIPPED) == Config()


def test_the_defaults() -> None:
    assert Config() == Config(
        mode="dispatch",
        proxy=ProxyConfig(
            listen=Address("127.0.0.1", 8080),
            inspector=Address("127.0.0.1", 8081),
            keep_flows=200,
            keep_bytes=104_857_600,
            max_body=67_108_864,
            mitmproxy={},
        ),
        memory=MemoryConfig(
            sources=(),
            track_sharing=True,
            quotes=True,
            mentions="careful",
            minimum_line_length=24,
            refresh_interval=60.0,
            max_notes_per_source=5000,
            max_note_bytes=1_048_576,
        ),
        providers=(),
        activity=ActivityConfig(keep=7_776_000.0, max_entries=1_000_000),
        dashboard=DashboardConfig(
            listen=Address("127.0.0.1", 8090), prefix="/", allow_process_settings=False, tokens=TokensConfig(None, None)
        ),
        state=Path.home() / ".mitmemory",
    )


def keys_of(cls: type, prefix: str = "") -> set[str]:
    """Every key path that the class mirrors: `memory.sources[].name`."""
    hints = typing.get_type_hints(cls)
    found: set[str] = set()
    for field in dataclasses.fields(cls):
        if cls is Config and field.name == "file":
            continue
        key = prefix + {"kind": "type"}.get(field.name, field.name)
        found.add(key)
        inner = typing.get_args(hints[field.name])[:1] or (hints[field.name],)
        if dataclasses.is_dataclass(inner[0]) and isinstance(inner[0], type):
            found |= keys_of(inner[0], key + ("[]." if typing.get_origin(hints[field.name]) is tuple else "."))
    return found


def shipped_values(node: yaml.Node, prefix: str = "") -> dict[str, str]:
    """Every key of the shipped file, with its value as it is written there ("" for a group of keys)."""
    text = SHIPPED.read_text()
    found: dict[str, str] = {}
    for key_node, value in node.value:
        key = prefix + key_node.value
        grouped = isinstance(value, yaml.MappingNode) and value.value
        found[key] = "" if grouped else text[value.start_mark.index : value.end_mark.index]
        if grouped:
            found |= shipped_values(value, f"{key}.")
    return found


def documented() -> dict[str, str]:
    """Every key of docs/configuration.md, with its default."""
    rows = [line.split("|") for line in DOCUMENTATION.read_text().splitlines() if line.startswith("| `")]
    return {key.strip(" `"): default.strip(" `") for _, key, _, default, *_ in rows}


def test_every_key_is_in_the_shipped_file() -> None:
    shipped = shipped_values(yaml.compose(SHIPPED.read_text(), Loader=yaml.SafeLoader))
    not_by_default = {key for key in keys_of(Config) if "[]" in key or key.startswith("conversations.milvus.")}
    assert set(shipped) == keys_of(Config) - not_by_default


def test_every_key_is_documented_with_its_default_and_each_documented_key_exists() -> None:
    shipped = shipped_values(yaml.compose(SHIPPED.read_text(), Loader=yaml.SafeLoader))
    described = documented()
    assert set(described) == set(shipped) | keys_of(Config)
    assert {key: described[key] for key in shipped} == shipped


def test_every_documented_option_of_mitmproxy_that_the_suite_owns_is_refused() -> None:
    row = next(line for line in DOCUMENTATION.read_text().splitlines() if line.startswith("| `proxy.mitmproxy`"))
    names = re.findall(r"`(\w+)`", row.partition("refused:")[2])
    assert len(names) == 11
    found = faults("proxy: {mitmproxy: {" + ", ".join(f"{name}: 1" for name in names) + "}}")
    assert [line.split(": ")[1] for line in found] == [f"proxy.mitmproxy.{name}" for name in names]


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


# What it may not say: text, line, key, message, mend

TYPES = [
    ("mode: dispach", 1, "mode", "`dispach` is not one of annotate, dispatch", "did you mean `dispatch`?"),
    ("mode: x", 1, "mode", "`x` is not one of annotate, dispatch", "write one of them"),
    ("mode: [a]", 1, "mode", "a list stands where `annotate` or `dispatch` belongs", "write `annotate` or `dispatch`"),
    ("mode:", 1, "mode", "nothing stands where `annotate` or `dispatch` belongs", "write `annotate` or `dispatch`"),
    ("a\n", 1, "", "text stands where keys and values belong", "write `key: value` lines"),
    ("- a\n- b\n", 1, "", "a list stands where keys and values belong", "write `key: value` lines"),
    ("12", 1, "", "a number (`12`) stands where keys and values belong", "write `key: value` lines"),
    ("\nproxy: 8080", 2, "proxy", "a number (`8080`) stands where keys and values belong", "write `key: value` lines"),
    ("memory: []", 1, "memory", "a list stands where keys and values belong", "write `key: value` lines"),
    ("proxy: {keep_flows: 0}", 1, "proxy.keep_flows", "0 is too small", "write at least 1"),
    ("proxy: {keep_flows: -5}", 1, "proxy.keep_flows", "-5 is too small", "write at least 1"),
    ("proxy: {keep_flows: 1.5}", 1, "proxy.keep_flows", "`1.5` is no whole number", "write a whole number, at least 1"),
    ("proxy: {keep_flows: many}", 1, "proxy.keep_flows", "`many` is no whole number", "write a whole number, at least 1"),
    ("proxy: {keep_flows: '5'}", 1, "proxy.keep_flows", "`5` is no whole number", "write a whole number, at least 1"),
    ("proxy: {keep_flows: 1:30}", 1, "proxy.keep_flows", "`1:30` is no whole number", "write a whole number, at least 1"),
    ("proxy:\n  keep_flows:\n", 2, "proxy.keep_flows", "nothing stands where a whole number belongs", "write a whole number"),
    (
        "memory: {minimum_line_length: 7}", 1, "memory.minimum_line_length", "7 is too small", "write at least 8",
    ),
    ("memory: {quotes: 1}", 1, "memory.quotes", "a number (`1`) stands where true or false belongs", "write `true` or `false`"),
    ("memory: {quotes: 'true'}", 1, "memory.quotes", "text stands where true or false belongs", "write `true` or `false`"),
    ("memory: {mentions: Seed}", 1, "memory.mentions", "`Seed` is not one of careful, seed", "did you mean `seed`?"),
    (
        "memory: {refresh_interval: soon}", 1, "memory.refresh_interval", "`soon` is no duration",
        "write `1m`, `00:01:00`, or a number of seconds",
    ),
    (
        "memory: {max_note_bytes: 1MX}", 1, "memory.max_note_bytes", "`1MX` is no size",
        "write a size from 1 byte, like `64MiB`, or a number of bytes",
    ),
    (
        "proxy: {max_body: 0}", 1, "proxy.max_body", "`0` is less than a byte",
        "write a size from 1 byte, like `64MiB`, or a number of bytes",
    ),
    ("state: 3", 1, "state", "a number (`3`) stands where a path belongs", "put it in quotes"),
    ("state: []", 1, "state", "a list stands where a path belongs", "write a path"),
    (
        'state: ""', 1, "state", "`` is empty", "write a path like `~/Documents/Notes`, and set the variables in it",
    ),
]  # fmt: skip

TOP_KEYS = (
    "the keys here are mode, proxy, memory, providers, targets, rules, unscanned, activity, clients, conversations, "
    "dashboard, state"
)

KEYS = [
    ("bogus: 1", 1, "bogus", "no such key", TOP_KEYS),
    ("\n\nmemori: {}", 3, "memori", "no such key", "did you mean `memory`?"),
    ("Memory: {}", 1, "Memory", "no such key", "did you mean `memory`?"),
    ("memory:\n  refresh_intervall: 1m", 2, "memory.refresh_intervall", "no such key", "did you mean `refresh_interval`?"),
    ("memory:\n  RefreshInterval: 1m", 2, "memory.RefreshInterval", "no such key", "did you mean `refresh_interval`?"),
    ("activity: {days: 3}", 1, "activity.days", "no such key", "the keys here are keep, max_entries"),
    ("1: 2", 1, "1", "no such key", TOP_KEYS),
    ("mode: dispatch\nproxy: {}\nmode: annotate", 3, "mode", "given twice, first on line 1", "keep one of them"),
    ("proxy:\n  listen: 127.0.0.1:1\n  listen: x", 3, "proxy.listen", "given twice, first on line 2", "keep one of them"),
    ("? [a]\n: b", 1, "", "a list stands where a key belongs", "write a word"),
    ('"a\\nb": 1', 1, "a\\nb", "no such key", TOP_KEYS),
]  # fmt: skip

LISTENERS = [
    ("proxy: {listen: 0.0.0.0:8080}", 1, "proxy.listen", "`0.0.0.0:8080` would be reachable from other machines", "write `127.0.0.1:8080`"),
    ("proxy: {listen: '*:8080'}", 1, "proxy.listen", "`*:8080` would be reachable from other machines", "write `127.0.0.1:8080`"),
    ("proxy: {listen: ':8080'}", 1, "proxy.listen", "`:8080` would be reachable from other machines", "write `127.0.0.1:8080`"),
    ("proxy: {listen: 192.168.1.5:8080}", 1, "proxy.listen", "`192.168.1.5:8080` would be reachable from other machines", "write `127.0.0.1:8080`"),
    ("proxy: {listen: '[::]:8080'}", 1, "proxy.listen", "`[::]:8080` would be reachable from other machines", "write `127.0.0.1:8080`"),
    ("proxy: {listen: 8080}", 1, "proxy.listen", "`8080` is no address with a port", "write `127.0.0.1:8080`"),
    ("proxy: {listen: 127.0.0.1}", 1, "proxy.listen", "`127.0.0.1` is no address with a port", "write `127.0.0.1:8080`"),
    ("proxy: {listen: null}", 1, "proxy.listen", "nothing stands where an address belongs", "write an address"),
    ("proxy: {inspector: my-host:8081}", 1, "proxy.inspector", "`my-host:8081` has no IP address before the port", "write `127.0.0.1:8081`, or `null` for none"),
    ("dashboard: {listen: 127.0.0.1:70000}", 1, "dashboard.listen", "`127.0.0.1:70000` has a port above 65535", "write `127.0.0.1:8090`"),
    ("dashboard: {listen: '::1:8090'}", 1, "dashboard.listen", "`::1:8090` is not written right: an IPv6 address, and only that, stands in brackets", "write `127.0.0.1:8090`"),
    ("proxy: {listen: 127.0.0.1:8090}", 1, "proxy.listen", "port 8090 is that of `dashboard.listen` too", "give each a port of its own"),
    ("proxy:\n  listen: 127.0.0.1:9\n  inspector: 127.0.0.1:9", 3, "proxy.inspector", "port 9 is that of `proxy.listen` too", "give each a port of its own"),
    ("dashboard: {listen: '[::1]:8080'}", 1, "dashboard.listen", "port 8080 is that of `proxy.listen` too", "give each a port of its own"),
    ("dashboard: {prefix: notes}", 1, "dashboard.prefix", "`notes` is no path for a page", "write `/`, or a path like `/memory/`"),
    ("dashboard: {prefix: 5}", 1, "dashboard.prefix", "a number (`5`) stands where a path belongs", "put it in quotes"),
    ("dashboard: {prefix: /a/../b}", 1, "dashboard.prefix", "`/a/../b` is no path for a page", "write `/`, or a path like `/memory/`"),
    ('dashboard: {tokens: {admin: "same-token-for-both", read_only: "same-token-for-both"}}', 1, "dashboard.tokens.read_only", "it is the admin token too", "give the two different tokens, or write `null` to have one made"),
]  # fmt: skip

SOURCES = [
    ("{name: a, type: markdwon, path: x}", ".type", "`markdwon` is no type of source", "did you mean `markdown`?"),
    ("{name: a, type: database, path: x}", ".type", "`database` is no type of source", "write `markdown`, `claude_code`, `knowledge_graph`, `conversations`, or `package.module:ClassName` for your own"),
    ("{name: a, type: 5, path: x}", ".type", "a number (`5`) stands where a type belongs", "put it in quotes"),
    ("{name: a, type: claude-code}", ".type", "`claude-code` is no type of source", "did you mean `claude_code`?"),
    ("{name: a, type: 'mine.notes:', path: x}", ".type", "`mine.notes:` names no class", "write it like `package.module:ClassName`"),
    ("{name: a, type: 'C:notes', path: x, extensions: [.txt]}", ".extensions", "only sources of type `markdown` read files of further types", "leave it out"),
    ("{name: a, type: claude_code, extensions: [.txt]}", ".extensions", "only sources of type `markdown` read files of further types", "leave it out"),
    ("{name: a, type: claude_code, exclude: ['!']}", ".exclude[0]", "`!` is no pattern", "write it as in a .gitignore file, like `Templates/*`"),
    ("{name: a, type: claude_code, path: $NOT_SET}", ".path", "`$NOT_SET` names the variable NOT_SET, which is not set", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ("{name: a, type: knowledge_graph}", "", "`path` is missing", "say where the notes are"),
    ("{name: a, type: 'mine.notes:Source'}", "", "`path` is missing", "say where the notes are"),
    ("{path: x}", "", "`name` is missing", "give it a name of its own"),
    ("{name: , path: x}", "", "`name` is missing", "give it a name of its own"),
    ("{name: 7, path: x}", ".name", "a number (`7`) stands where a name belongs", "put it in quotes"),
    ("{name: no, path: x}", ".name", "true or false (`no`) stands where a name belongs", "put it in quotes"),
    ("{name: ' a', path: x}", ".name", "' a' is no name", "write a word or two, like `vault`"),
    ("{name: a/b, path: x}", ".name", "`a/b` holds a slash, which parts the folders in a note's id", "write it without"),
    ("{name: a}", "", "`path` is missing", "say where the notes are"),
    ("{name: a, path: null}", "", "`path` is missing", "say where the notes are"),
    ("{name: a, path: $NOT_SET/x}", ".path", "`$NOT_SET/x` names the variable NOT_SET, which is not set", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ("{name: a, path: '%NOT_SET%/x'}", ".path", "`%NOT_SET%/x` names the variable NOT_SET, which is not set", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ("{name: a, path: ~nobody-of-that-name/x}", ".path", "`~nobody-of-that-name/x` names a home folder that there is not: ~nobody-of-that-name", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ('{name: a, path: "x\\0y"}', ".path", "`x\\x00y` holds a NUL character", "write a path like `~/Documents/Notes`, and set the variables in it"),
    ("{name: a, path: [x]}", ".path", "a list stands where a path belongs", "write a path"),
    ("{name: a, path: x, exclude: 'Templates/*'}", ".exclude", "text stands where a list belongs", 'write `["Templates/*"]`'),
    ("{name: a, path: x, exclude: {a: b}}", ".exclude", "a group of keys stands where a list belongs", "write `[…]`, or one line for each that starts with `- `"),
    ("{name: a, path: x, exclude: [b, '!']}", ".exclude[1]", "`!` is no pattern", "write it as in a .gitignore file, like `Templates/*`"),
    ("{name: a, path: x, exclude: [1]}", ".exclude[0]", "a number (`1`) stands where a pattern belongs", "put it in quotes"),
    ("{name: a, path: x, extensions: [md, txt]}", ".extensions[0]", "`md` is no extension", "write `.md`"),
    ("{name: a, path: x, extensions: ['*.org']}", ".extensions[0]", "`*.org` is no extension", "write `.org`"),
    ("{name: a, path: x, extensions: [1]}", ".extensions[0]", "a number (`1`) stands where an extension belongs", "put it in quotes"),
    ("{name: a, path: x, enabled: maybe}", ".enabled", "text stands where true or false belongs", "write `true` or `false`"),
    ("{name: a, path: x, paths: y}", ".paths", "no such key", "did you mean `path`?"),
    ("just text", "", "text stands where keys and values belong", "write `key: value` lines"),
    ("null", "", "nothing stands where keys and values belong", "remove the `-`"),
]  # fmt: skip

PROVIDERS = [
    ("{name: lab}", "", "`lab` is no built-in provider, and it has no hosts", 'name its hosts, like `hosts: ["llm.example.com"]`'),
    ("{name: antropic}", "", "`antropic` is no built-in provider, and it has no hosts", "did you mean `anthropic`?"),
    ("{name: lab, hosts: []}", "", "`lab` is no built-in provider, and it has no hosts", 'name its hosts, like `hosts: ["llm.example.com"]`'),
    ("{hosts: [a.example]}", "", "`name` is missing", "give it a name of its own"),
    ("{name: openai, hosts: api.example.com}", ".hosts", "text stands where a list belongs", 'write `["api.example.com"]`'),
    ("{name: lab, hosts: ['https://a.example/v1']}", ".hosts[0]", "`https://a.example/v1` is more than a host: no scheme and no path belong here", "write it like `llm.example.com`, `*.example.com` or `127.0.0.1:8000`"),
    ("{name: lab, hosts: [ok.example, '*']}", ".hosts[1]", "`*` would match every host", "write it like `llm.example.com`, `*.example.com` or `127.0.0.1:8000`"),
    ("{name: lab, hosts: ['a.example:0']}", ".hosts[0]", "`a.example:0` has no port from 1 to 65535 after the host", "write it like `llm.example.com`, `*.example.com` or `127.0.0.1:8000`"),
    ("{name: lab, hosts: [8000]}", ".hosts[0]", "a number (`8000`) stands where a host belongs", "put it in quotes"),
    ("{name: openai, local: here}", ".local", "text stands where true or false belongs", "write `true` or `false`"),
    ("{name: openai, connect_to: '127.0.0.1:9911'}", ".connect_to", "`127.0.0.1:9911` is no http:// or https:// URL", "write it like `http://127.0.0.1:9911`"),
    ("{name: openai, connect_to: 'http://127.0.0.1:8080'}", ".connect_to", "it leads back to `proxy.listen`", "name the address of the server that answers"),
    ("{name: openai, connect_to: 'http://localhost:8090/'}", ".connect_to", "it leads back to `dashboard.listen`", "name the address of the server that answers"),
    ("{name: openai, protocol: openai}", ".protocol", "`openai` is not one of anthropic, openai-chat, openai-responses, gemini, ollama, bedrock", "did you mean `openai-chat`?"),
    ("{name: openai, host: [a.example]}", ".host", "no such key", "did you mean `hosts`?"),
]  # fmt: skip

CLIENTS = [
    ("{name: a}", "", "`match` is missing", "say how it is told, like `match: {proxy_user: claude-code}`"),
    ("{name: a, match: {}}", "", "`match` is missing", "say how it is told, like `match: {proxy_user: claude-code}`"),
    ("{name: a, match: null}", "", "`match` is missing", "say how it is told, like `match: {proxy_user: claude-code}`"),
    ("{name: a, match: codex}", ".match", "text stands where keys and values belong", "write `key: value` lines"),
    ("{name: a, match: {user: x}}", ".match.user", "no such key", "the keys here are listen, proxy_user, api_key, user_agent"),
    ("{match: {proxy_user: a}}", "", "`name` is missing", "give it a name of its own"),
    ("{name: 編集, match: {proxy_user: a}}", ".name", "`編集` has no letter from a to z and no digit", "write a name like `claude-code`"),
    ("{name: a, match: {proxy_user: 'a:b'}}", ".match.proxy_user", "`a:b` holds a colon, which ends a user's name", "write it without"),
    ("{name: a, match: {proxy_user: ''}}", ".match.proxy_user", "'' is no name", "write a word or two, like `vault`"),
    ("{name: a, match: {user_agent: ' '}}", ".match.user_agent", "the pattern is empty", "write the start of a User-Agent and a `*`, like `claude-cli/*`"),
    ("{name: a, match: {user_agent: 7}}", ".match.user_agent", "a number (`7`) stands where a pattern belongs", "put it in quotes"),
    ("{name: a, match: {listen: 127.0.0.1:0}}", ".match.listen", "port 0 is another one with each start, and tells no client", "write an address that only this client uses, like `127.0.0.1:8082`"),
    ("{name: a, match: {listen: 0.0.0.0:8082}}", ".match.listen", "`0.0.0.0:8082` would be reachable from other machines", "write an address that only this client uses, like `127.0.0.1:8082`"),
    ("{name: a, match: {listen: 127.0.0.1:8081}}", ".match.listen", "port 8081 is that of `proxy.inspector` too", "give each a port of its own"),
    ("{name: a, match: {listen: 127.0.0.1:8090}}", ".match.listen", "port 8090 is that of `dashboard.listen` too", "give each a port of its own"),
    ("{name: a, match: {listen: 127.0.0.2:8080}}", ".match.listen", "port 8080 is that of `proxy.listen` too", "give each a port of its own"),
    ("{name: a, match: {api_key: sk-secret}}", ".match.api_key", "it is no HMAC of an API key, and the key itself does not belong here", "write what `mitmemory hmac` prints for it"),
    ("{name: a, match: {api_key: 'hmac:12'}}", ".match.api_key", "it is no HMAC of an API key, and the key itself does not belong here", "write what `mitmemory hmac` prints for it"),
    ("{name: a, match: {api_key: 12345678901234567890}}", ".match.api_key", "it is no HMAC of an API key, and the key itself does not belong here", "write what `mitmemory hmac` prints for it"),
    ("{name: a, match: {proxy_user: a}, mode: most}", ".mode", "`most` is not one of both, mcp_via_llm, llm_only, mcp_only", "write one of them"),
    ("{name: a, match: {proxy_user: a}, token: x}", ".token", "no such key", "the keys here are name, match, mode, memory_enabled"),
]  # fmt: skip

REVERSE = [
    ("{listen: 127.0.0.1:8001}", "", "`upstream` is missing", "write the provider's URL, like `https://api.anthropic.com`"),
    ("{upstream: 'https://api.anthropic.com'}", "", "`listen` is missing", "write an address of this machine, like `127.0.0.1:8001`"),
    ("{listen: 8001, upstream: 'https://api.anthropic.com'}", ".listen", "`8001` is no address with a port", "write an address of this machine, like `127.0.0.1:8001`"),
    ("{listen: 127.0.0.1:8080, upstream: 'https://api.anthropic.com'}", ".listen", "port 8080 is that of `proxy.listen` too", "give each a port of its own"),
    ("{listen: 127.0.0.1:8001, upstream: api.anthropic.com}", ".upstream", "`api.anthropic.com` is no http:// or https:// URL", "write the provider's URL, like `https://api.anthropic.com`"),
    ("{listen: 127.0.0.1:8001, upstream: 'https://llm.example.com'}", ".upstream", "`llm.example.com:443` is the host of no provider, so nothing would be recognised there", 'add it under `providers`, like `{name: lab, hosts: ["llm.example.com:443"]}`'),
    ("{listen: 127.0.0.1:8001, upstream: 'http://api.anthropic.com'}", ".upstream", "`api.anthropic.com:80` is the host of no provider, so nothing would be recognised there", 'add it under `providers`, like `{name: lab, hosts: ["api.anthropic.com:80"]}`'),
    ("{listen: 127.0.0.1:8001, upstream: 'https://api.anthropic.com/a b'}", ".upstream", "`https://api.anthropic.com/a b` has a path that is not written as in a URL", "write the provider's URL, like `https://api.anthropic.com`"),
    ("{listen: 127.0.0.1:8001, upstream: 'https://api.anthropic.com', to: a}", ".to", "no such key", "the keys here are listen, upstream"),
    ("null", "", "nothing stands where keys and values belong", "remove the `-`"),
]  # fmt: skip

LATER = [
    ("proxy: {mitmproxy: {mode: [regular]}}", "proxy.mitmproxy.mode", "the suite sets this option itself", "use `proxy.listen` and `proxy.reverse`"),
    ("proxy: {mitmproxy: {listen_port: 1}}", "proxy.mitmproxy.listen_port", "the suite sets this option itself", "use `proxy.listen`"),
    ("proxy: {mitmproxy: {stream_large_bodies: 1m}}", "proxy.mitmproxy.stream_large_bodies", "the suite sets this option itself", "leave it out: a streamed request could not be scanned"),
    ("proxy: {mitmproxy: {a: {b: c}}}", "proxy.mitmproxy.a", "no option of mitmproxy holds groups or lists of lists", "write one value, or a list"),
    ("proxy: {mitmproxy: {a: [[b]]}}", "proxy.mitmproxy.a", "no option of mitmproxy holds groups or lists of lists", "write one value, or a list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "key", "message", "mend"), [*TYPES, *KEYS, *LISTENERS])
def test_one_fault(text: str, line: int, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert raised.value.faults == (Fault("mitm.yaml", line, key, message, mend),)


@pytest.mark.parametrize(("entry", "key", "message", "mend"), SOURCES)
def test_one_fault_in_a_source(entry: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(f"memory:\n  sources:\n    - {{name: first, path: x}}\n    - {entry}\n")
    assert raised.value.faults[0] == Fault("mitm.yaml", 4, f"memory.sources[1]{key}", message, mend)


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


@pytest.mark.parametrize(("entry", "key", "message", "mend"), PROVIDERS)
def test_one_fault_in_a_provider(entry: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(f"providers:\n  - {entry}\n")
    assert raised.value.faults == (Fault("mitm.yaml", 2, f"providers[0]{key}", message, mend),)


@pytest.mark.parametrize(("text", "key", "message", "mend"), LATER)
def test_what_comes_later_is_refused_and_never_ignored(text: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert raised.value.faults == (Fault("mitm.yaml", 1, key, message, mend),)


def test_names_are_unique() -> None:
    assert faults("memory: {sources: [{name: a, path: x}, {name: b, path: x}, {name: A, path: y}]}") == [
        "mitm.yaml:1: memory.sources[2]: `A` is the name of `memory.sources[0]` too; mend: give each a name of its own"
    ]
    assert faults("providers: [{name: openai}, {name: OpenAI}]") == [
        "mitm.yaml:1: providers[1]: `OpenAI` is the name of `providers[0]` too; mend: give each a name of its own"
    ]


def test_all_faults_are_reported_in_the_order_of_the_file() -> None:
    text = """\
state: [x]
memory:
  sources:
    - name: vault
      type: markdwon
      path: $NOT_SET/notes
    - path: x
  quotes: perhaps
proxy:
  listen: 0.0.0.0:8080
mode: off
"""
    assert faults(text) == [
        "mitm.yaml:1: state: a list stands where a path belongs; mend: write a path",
        "mitm.yaml:5: memory.sources[0].type: `markdwon` is no type of source; mend: did you mean `markdown`?",
        (
            "mitm.yaml:6: memory.sources[0].path: `$NOT_SET/notes` names the variable NOT_SET, which is not set; "
            "mend: write a path like `~/Documents/Notes`, and set the variables in it"
        ),
        "mitm.yaml:7: memory.sources[1]: `name` is missing; mend: give it a name of its own",
        "mitm.yaml:8: memory.quotes: text stands where true or false belongs; mend: write `true` or `false`",
        (
            "mitm.yaml:10: proxy.listen: `0.0.0.0:8080` would be reachable from other machines; "
            "mend: write `127.0.0.1:8080`"
        ),
        "mitm.yaml:11: mode: `off` is not one of annotate, dispatch; mend: write one of them",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"memory:\n\tquotes: true\n", "mitm.yaml:2:1: not valid YAML: a tab stands where spaces belong; mend: indent with spaces"),
        (b"a: b: c\n", "mitm.yaml:1:5: not valid YAML: a second colon, or a wrong indentation; mend: put the value in quotes, or align the line"),
        (b"proxy:\n  listen: [::1]:8080\n", "mitm.yaml:2:12: not valid YAML: expected the node content, but found ':'; mend: check the quotes, brackets and indentation here and on the line above"),
        (b"state: %HOME%/x\n", "mitm.yaml:1:8: not valid YAML: found character '%' that cannot start any token; mend: put the value in quotes"),
        (b'state: "C:\\Users\\me"\n', "mitm.yaml:1:13: not valid YAML: a backslash in double quotes; mend: use single quotes"),
        (b"mode: 'dispatch\n", "mitm.yaml:2:1: not valid YAML: found unexpected end of stream; mend: check the quotes, brackets and indentation here and on the line above"),
        (b"mode: *x\n", "mitm.yaml:1:7: not valid YAML: found undefined alias 'x'; mend: check the quotes, brackets and indentation here and on the line above"),
        (b"mode: dispatch\n---\nmode: dispatch\n", "mitm.yaml:2:1: not valid YAML: a second document starts here; mend: remove the `---`"),
        (b"mode: dispatch\nstate: a\0b\n", "mitm.yaml:2: the character U+0000 is not allowed; mend: remove it"),
        (b"mode: dispatch\n# caf\xe9\n", "mitm.yaml:2: it is not UTF-8; mend: save the file as UTF-8"),
        (b"\xff\xfem\x00", "mitm.yaml:1: it is not UTF-8; mend: save the file as UTF-8"),
        (b"a: " + b"[" * 600, "mitm.yaml: too many levels of brackets; mend: check its brackets"),
        (b"#" * (1024 * 1024 + 1), "mitm.yaml: it is larger than 1 MiB; mend: name a configuration file"),
    ],
)  # fmt: skip
def test_what_is_no_yaml(text: bytes, line: str) -> None:
    assert faults(text) == [line]


def test_a_tag_runs_nothing() -> None:
    assert faults("state: !!python/object/apply:os.getcwd []") == [
        "mitm.yaml:1: state: a list stands where a path belongs; mend: write a path"
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, message in (
        (Path("none.yaml"), "none.yaml: there is no such file; mend: check the path, or leave `--config` out"),
        (Path(), ".: it cannot be read (Is a directory); mend: name a file that you may read"),
    ):
        with pytest.raises(ConfigError) as raised:
            load_config(path)
        assert str(raised.value) == message


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


# Single values


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("0064", 64), ("64MiB", 67_108_864), ("100 mib", 104_857_600), ("1KiB", 1024), ("2GiB", 2_147_483_648),
     ("1kB", 1000), ("5MB", 5_000_000), ("1GB", 10**9), ("12b", 12), ("0.5KiB", 512), ("1.5 MiB", 1_572_864)],
)  # fmt: skip
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "1 M", "1e3", "1,5MB", "0", "0.1", "٣", "9" * 5000, "1MiBs", "1_000"]
)
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is (no size|less than a byte)$"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("90", 90.0), ("1.5", 1.5), ("500ms", 0.5), ("30s", 30.0), ("1m", 60.0), ("3h", 10_800.0),
     ("90d", 7_776_000.0), ("1.5 H", 5400.0), ("00:01:00", 60.0), ("1:02:03", 3723.0), ("23:59:59.5", 86_399.5),
     ("2.01:00:00", 176_400.0)],
)  # fmt: skip
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "-1m", "1 month", "1:30", "24:00:00", "00:60:00", "00:00:60", "1h30m", "inf"]
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is no (duration|time of day)$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), "127.0.0.1:8080"),
        ("127.0.0.9:1", Address("127.0.0.9", 1), "127.0.0.9:1"),
        ("[::1]:8080", Address("::1", 8080), "[::1]:8080"),
        ("[0:0:0:0:0:0:0:1]:0", Address("::1", 0), "[::1]:0"),
        ("LOCALHOST:65535", Address("127.0.0.1", 65535), "127.0.0.1:65535"),
    ],
)
def test_listen(text: str, address: Address, shown: str) -> None:
    assert parse_listen(text) == address
    assert str(address) == shown


@pytest.mark.parametrize(
    "text", ["127.1:80", "2130706433:80", "0x7f.1:80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:٣", "[127.0.0.1]:80",
             "[::1]", "10.0.0.1:80", "[fe80::1]:80", "127.0.0.1.evil.example:80", "localhost.:80"]
)  # fmt: skip
def test_no_listen(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|would) "):
        parse_listen(text)


@pytest.mark.parametrize(
    ("text", "target", "shown"),
    [
        ("http://127.0.0.1:9911", ConnectTo("http", "127.0.0.1", 9911), "http://127.0.0.1:9911"),
        ("https://Gateway.example/", ConnectTo("https", "gateway.example", 443), "https://gateway.example:443"),
        ("http://gateway", ConnectTo("http", "gateway", 80), "http://gateway:80"),
        ("http://[::1]:1", ConnectTo("http", "::1", 1), "http://[::1]:1"),
    ],
)
def test_connect_to(text: str, target: ConnectTo, shown: str) -> None:
    assert parse_connect_to(text) == target
    assert str(target) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no http:// or https:// URL"),
        ("gateway.example", "is no http:// or https:// URL"),
        ("ftp://a.example", "is no http:// or https:// URL"),
        ("http://", "is no http:// or https:// URL"),
        ("http://a.example:x", "is no URL"),
        ("http://a.example:99999", "is no URL"),
        ("http://a.example:0", "has port 0, where nothing can be reached"),
        ("http://[::1", "is no URL"),
        ("http://a b.example", "has no host name or address that could be reached"),
        ("http://me:secret@a.example", "holds a user name or a password"),
        ("http://a.example/v1", "goes on after the port, but the path stays the provider's own"),
        ("http://a.example?x=1", "goes on after the path"),
    ],
)
def test_no_connect_to(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_connect_to(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a/b", "/a/b"),
        ("b/c.md", "/base/b/c.md"),
        ("./x/../y", "/base/y"),
        ("$A/x", "/value/x"),
        ("${A}x", "/valuex"),
        ("%A%/x", "/value/x"),
        ("/100% sure/50%", "/100% sure/50%"),
        ("/price $5", "/price $5"),
        ("/a~b", "/a~b"),
        ("$TILDE", "/base/it's"),
    ],
)
def test_path(text: str, path: str) -> None:
    assert expand_path(text, Path("/base"), {"A": "/value", "TILDE": "it's"}) == Path(path)


@pytest.mark.parametrize(("entry", "key", "message", "mend"), CLIENTS)
def test_one_fault_of_a_client(entry: str, key: str, message: str, mend: str) -> None:
    assert faults(f"clients:\n  - {entry}") == [f"mitm.yaml:2: clients[0]{key}: {message}; mend: {mend}"]


@pytest.mark.parametrize(("entry", "key", "message", "mend"), REVERSE)
def test_one_fault_of_a_reverse_listener(entry: str, key: str, message: str, mend: str) -> None:
    assert faults(f"proxy:\n  reverse:\n    - {entry}") == [
        f"mitm.yaml:3: proxy.reverse[0]{key}: {message}; mend: {mend}"
    ]


def test_clients_have_names_of_their_own() -> None:
    text = (
        "clients:\n  - {name: Claude Code, match: {proxy_user: a}}\n  - {name: claude-code, match: {proxy_user: b}}\n"
    )
    assert faults(text) == [
        "mitm.yaml:3: clients[1]: `claude-code` is the name of `clients[0]` too; mend: give each a name of its own"
    ]


def test_an_upstream_that_leads_back() -> None:
    text = (
        "providers: [{name: lab, hosts: ['127.0.0.1:8002', 'localhost:8090']}]\nproxy:\n  reverse:\n"
        "    - {listen: 127.0.0.1:8001, upstream: 'http://127.0.0.1:8002'}\n"
        "    - {listen: 127.0.0.1:8002, upstream: 'http://localhost:8090'}\n"
    )
    assert faults(text) == [
        f"mitm.yaml:{line}: proxy.reverse[{number}].upstream: it leads back to `{key}`; "
        f"mend: name the address of the server that answers"
        for number, line, key in ((0, 4, "proxy.reverse[1].listen"), (1, 5, "dashboard.listen"))
    ]


def test_an_hmac_needs_the_key_that_it_was_made_with() -> None:
    text = f"state: null\nclients:\n  - {{name: a, match: {{api_key: 'hmac:{'0' * 64}'}}}}\n"
    assert faults(text) == [
        (
            "mitm.yaml:3: clients[0].match.api_key: the key that it is made with is kept in `state`, which is null; "
            "mend: set `state`, or match otherwise"
        )
    ]


@pytest.mark.parametrize(
    ("text", "upstream", "written"),
    [
        ("https://api.anthropic.com", Upstream("https", "api.anthropic.com", 443), "https://api.anthropic.com"),
        ("http://h.example:80/", Upstream("http", "h.example", 80), "http://h.example"),
        ("http://[::1]:11434", Upstream("http", "::1", 11434), "http://[::1]:11434"),
        ("https://[::1]", Upstream("https", "::1", 443), "https://[::1]"),
        ("https://h.example/a/%20/", Upstream("https", "h.example", 443, "/a/%20"), "https://h.example/a/%20"),
    ],
)
def test_an_upstream(text: str, upstream: Upstream, written: str) -> None:
    assert parse_upstream(text) == upstream
    assert str(upstream) == written


# Rules, which test_config_rules.py reads one by one


def test_rules_are_checked_against_all_that_the_file_says() -> None:
    text = (
        "memory: {sources: [{name: vault, path: x}], mentions: seed}\n"
        "providers: [{name: lab, hosts: [llm.example.com], local: true}]\n"
        "rules:\n"
    )
    found = load(text + "  - {name: r, when: {source: vault, provider: lab}, then: block}\n")
    assert [(rule.name, rule.then) for rule in found.rules] == [("r", "block")]
    wrong = text + (
        "  - {name: a, when: {source: mcp-memory}, then: block}\n"
        "  - {name: b, when: {by: listing}, then: block}\n"
        "  - {name: c, when: {provider: lab, to: cloud}, then: block}\n"
    )
    assert [line.split(": ")[:2] for line in faults(wrong)] == [
        ["mitm.yaml:4", "rules[0].when.source"],
        ["mitm.yaml:5", "rules[1].when.by"],
        ["mitm.yaml:6", "rules[2].when.provider"],
    ]


def test_rules_on_notes_need_that_notes_are_looked_for() -> None:
    (fault,) = faults("memory: {track_sharing: false}\nrules: [{name: r, when: {by: any}, then: block}]")
    assert fault.startswith("mitm.yaml:2: rules[0].when: never applies: notes are not looked for")
