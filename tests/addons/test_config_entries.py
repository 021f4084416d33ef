"""mitm.yaml: what is said about each thing that may not stand in an entry of its lists, or not beside another."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.config import (
    ConfigError,
    Fault,
)
from addons.program import with_program
from tests.addons.config_files import at_home, faults, load


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


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


@pytest.mark.parametrize(("entry", "key", "message", "mend"), SOURCES)
def test_one_fault_in_a_source(entry: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(f"memory:\n  sources:\n    - {{name: first, path: x}}\n    - {entry}\n")
    assert raised.value.faults[0] == Fault("mitm.yaml", 4, f"memory.sources[1]{key}", message, mend)


@pytest.mark.parametrize(("entry", "key", "message", "mend"), PROVIDERS)
def test_one_fault_in_a_provider(entry: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(f"providers:\n  - {entry}\n")
    assert raised.value.faults == (Fault("mitm.yaml", 2, f"providers[0]{key}", message, mend),)


@pytest.mark.parametrize(("entry", "key", "message", "mend"), CLIENTS)
def test_one_fault_of_a_client(entry: str, key: str, message: str, mend: str) -> None:
    expected = f"mitm.yaml:2: clients[0]{key}: {message}; mend: {with_program(mend)}"
    assert faults(f"clients:\n  - {entry}") == [expected]


@pytest.mark.parametrize(("entry", "key", "message", "mend"), REVERSE)
def test_one_fault_of_a_reverse_listener(entry: str, key: str, message: str, mend: str) -> None:
    assert faults(f"proxy:\n  reverse:\n    - {entry}") == [
        f"mitm.yaml:3: proxy.reverse[0]{key}: {message}; mend: {mend}"
    ]


def test_names_are_unique() -> None:
    assert faults("memory: {sources: [{name: a, path: x}, {name: b, path: x}, {name: A, path: y}]}") == [
        "mitm.yaml:1: memory.sources[2]: `A` is the name of `memory.sources[0]` too; mend: give each a name of its own"
    ]
    assert faults("providers: [{name: openai}, {name: OpenAI}]") == [
        "mitm.yaml:1: providers[1]: `OpenAI` is the name of `providers[0]` too; mend: give each a name of its own"
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
