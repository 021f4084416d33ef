"""mitm.yaml: what is said about each thing that it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from addons.config import (
    ConfigError,
    Fault,
    load_config,
)
from tests.addons.config_files import at_home, faults, load


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(tmp_path, monkeypatch)


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
"""Text, line, key, message, mend."""


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


@pytest.mark.parametrize(("text", "key", "message", "mend"), LATER)
def test_what_comes_later_is_refused_and_never_ignored(text: str, key: str, message: str, mend: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert raised.value.faults == (Fault("mitm.yaml", 1, key, message, mend),)


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
        (Path("none.yaml"), "none.yaml: there is no such file; mend: check the path, or leave it out"),
        (Path(), ".: it cannot be read (Is a directory); mend: name a file that you may read"),
    ):
        with pytest.raises(ConfigError) as raised:
            load_config(path)
        assert str(raised.value) == message
