"""`targets`, `rules` and `unscanned`: what they may say, and what is said about each thing they may not say."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from addons.config import ConfigError, Fault
from addons.config_document import parse_document
from addons.config_listeners import Listeners
from addons.config_reader import Section, Value
from addons.config_rules import RuleReader, targets, unscanned
from addons.config_values import Upstream
from addons.providers import ProviderConfig, ProviderTable
from addons.targets import TargetConfig, local_targets
from memory.exchange import Place
from memory.rules import Rule, RuleBook, When
from memory.rules.conditions import Comparison

SPECIFIED = """
targets:
  - {name: ollama, url: "http://127.0.0.1:11434", protocols: [anthropic, openai-chat, ollama], model: "qwen3:8b"}
  - {name: lmstudio, url: "http://127.0.0.1:1234", protocols: [openai-chat], model: null, api_key_env: LMSTUDIO_KEY}
rules:
  - name: private notes stay home
    when: {tags: [private], to: cloud}
    then: redirect
    targets: [ollama, lmstudio]
    otherwise: block
  - {name: health is never sent, when: {folder: "vault/Health/**", by: content, to: cloud}, then: block}
  - {name: names are fine, when: {source: mcp-memory, by: reference}, then: allow}
  - {name: strip the ledger, when: {note: "vault/Ledger.md"}, then: redact}
  - {name: ask me, when: {notes: ">=5", to: cloud}, then: hold}
  - {name: what I cannot see, when: {scan: unscanned, client: codex}, then: block}
unscanned: block
"""


class Read(NamedTuple):
    targets: tuple[TargetConfig, ...]
    rules: tuple[Rule, ...]
    unscanned: str | None


def read(text: str, **known: Any) -> Read:
    """Raises ConfigError."""
    document, top = parse_document(text, "mitm.yaml")
    assert top is not None
    section, listeners, reader = Section(Value(document, "", top)), Listeners(), RuleReader()
    found = Read(
        targets(section.get("targets"), listeners),
        reader.rules(section.get("rules")),
        section.read_optional("unscanned", unscanned),
    )
    section.close()
    reader.check(
        found.rules,
        targets=found.targets,
        **{
            "sources": ("vault", "mcp-memory"),
            "providers": ProviderTable([ProviderConfig("lab", ("llm.example.com",), local=True)]),
            "track_sharing": True,
            "tells_listings": True,
            **known,
        },
    )
    document.finish()
    return found


def faults(text: str, **known: Any) -> list[Fault]:
    with pytest.raises(ConfigError) as raised:
        read(text, **known)
    return list(raised.value.faults)


def test_the_specified_example() -> None:
    found = read(SPECIFIED)
    assert found.targets == (
        TargetConfig(
            "ollama",
            Upstream("http", "127.0.0.1", 11434),
            ("anthropic", "openai-chat", "ollama"),
            "qwen3:8b",
            connect_timeout=3.0,
            first_byte_timeout=60.0,
        ),
        TargetConfig("lmstudio", Upstream("http", "127.0.0.1", 1234), ("openai-chat",), None, "LMSTUDIO_KEY"),
    )
    assert found.rules == (
        Rule(
            "private notes stay home",
            When(tags=("private",), to="cloud"),
            "redirect",
            targets=("ollama", "lmstudio"),
            otherwise="block",
        ),
        Rule("health is never sent", When(folder=("vault/Health/**",), by=("content",), to="cloud"), "block"),
        Rule("names are fine", When(source=("mcp-memory",), by=("reference",)), "allow"),
        Rule("strip the ledger", When(note=("vault/Ledger.md",)), "redact", placeholder="[withheld]"),
        Rule("ask me", When(notes=Comparison(">=", 5), to="cloud"), "hold", hold_for=120.0),
        Rule("what I cannot see", When(scan=("unscanned",), client=("codex",)), "block"),
    )
    assert found.unscanned == "block"
    assert local_targets(found.targets) == ("ollama", "lmstudio")
    RuleBook(found.rules, local_targets=local_targets(found.targets))


def test_every_key_of_a_rule() -> None:
    found = read(
        "targets: [{name: t, url: 'https://llm.example.com/v1', protocols: gemini, local: true, connect_timeout: 500ms, first_byte_timeout: 00:02:00}]\n"
        "rules:\n"
        "  - {name: a, when: {source: [vault, m*], folder: vault/x, note: '**/A*', tags: '#t', by: [listing, content], "
        "coverage: '< 12.5 %', client: c*, provider: [anthropic, lab], model: '*sonnet*', scan: [partial, complete]}, "
        "then: redact, otherwise: allow, placeholder: '[kept: {title}]'}\n"
        "  - {name: b, when: {by: any}, then: hold, hold_for: 90, otherwise: allow}\n"
        "  - {name: c, when: {}, then: redirect, targets: t}\n"
    )
    assert found.targets[0] == TargetConfig(
        "t", Upstream("https", "llm.example.com", 443, "/v1"), ("gemini",), None, None, True, 0.5, 120.0
    )
    assert found.rules == (
        Rule(
            "a",
            When(
                source=("vault", "m*"),
                folder=("vault/x",),
                note=("**/A*",),
                tags=("#t",),
                by=("content", "listing"),
                coverage=Comparison("<", 12.5),
                client=("c*",),
                provider=("anthropic", "lab"),
                model=("*sonnet*",),
                scan=("partial", "complete"),
            ),
            "redact",
            otherwise="allow",
            placeholder="[kept: {title}]",
        ),
        Rule("b", When(by=("content", "reference", "listing")), "hold", otherwise="allow", hold_for=90.0),
        Rule("c", When(), "redirect", ("t",)),
    )


def test_nothing_is_configured() -> None:
    assert read("targets: []\nrules:\nunscanned: null\n") == Read((), (), None)


@pytest.mark.parametrize(
    ("url", "model", "place"),
    [
        ("http://127.0.0.1:11434", None, "local"),
        ("http://localhost:11434", None, "local"),
        ("http://[::1]:11434", None, "local"),
        ("http://192.168.1.20:8000", "qwen3:8b", "local"),
        ("http://127.0.0.1:11434", "gpt-oss:120b-cloud", "cloud"),
        ("http://203.0.113.5:8000", None, "cloud"),
        ("http://nas.lan:11434", None, None),
        ("https://llm.example.com", None, None),
    ],
)
def test_where_a_target_is_by_its_address(url: str, model: str | None, place: Place | None) -> None:
    said = f"{{name: t, url: '{url}', protocols: ollama, model: {f'{model!r}' if model else 'null'}}}"
    found = read(f"targets: [{said}]").targets
    assert found[0].place == place
    assert local_targets(found) == (("t",) if place == "local" else ())


def test_where_a_target_is_by_its_entry() -> None:
    target = "{{name: t, url: 'http://{}', protocols: ollama, local: {}, model: {}}}"
    text = [
        target.format("nas.lan", "true", "null"),
        target.format("127.0.0.1", "false", "null"),
        target.format("127.0.0.1", "true", "'gpt-oss:cloud'"),
    ]
    assert [read(f"targets: [{one}]").targets[0].place for one in text] == ["local", "cloud", "cloud"]


TARGETS = [
    ("{url: 'http://127.0.0.1:1', protocols: [ollama]}", "", "`name` is missing", "give it a name of its own"),
    ("{name: t, protocols: [ollama]}", "", "`url` is missing", "say where it is, like `http://127.0.0.1:11434`"),
    ("{name: t, url: 'http://127.0.0.1:1'}", "", "`protocols` is missing", "say what it speaks, like `[anthropic, openai-chat]`"),
    ("{name: t, url: 127.0.0.1:1, protocols: [ollama]}", ".url", "`127.0.0.1:1` is no http:// or https:// URL", "write it like `http://127.0.0.1:11434`"),
    ("{name: t, url: 'http://127.0.0.1:1', protocols: [olama]}", ".protocols[0]", "`olama` is not one of anthropic, openai-chat, openai-responses, gemini, ollama, bedrock", "did you mean `ollama`?"),
    ("{name: t, url: 'http://127.0.0.1:1', protocols: ollama, api_key_env: sk-ant-12345}", ".api_key_env", "it is no name of a variable, and the key itself does not belong here", "write the variable's name, like `LMSTUDIO_KEY`, and the key into the variable"),
    ("{name: t, url: 'http://127.0.0.1:1', protocols: ollama, connect_timeout: 0}", ".connect_timeout", "`0` is no time to wait", "write a duration, like `2m`"),
    ("{name: t, url: 'http://127.0.0.1:1', protocols: ollama, modle: x}", ".modle", "no such key", "did you mean `model`?"),
]  # fmt: skip

RULES = [
    ("{when: {to: cloud}, then: block}", "", "`name` is missing", "give it a name of its own"),
    ("{name: r, then: block}", "", "`when` is missing", "say when, like `when: {to: cloud}`"),
    ("{name: r, when: {to: cloud}}", "", "`then` is missing", "say what to do: allow, block, redact, redirect, hold"),
    ("{name: r, when: {to: cloud}, then: blok}", ".then", "`blok` is not one of allow, block, redact, redirect, hold", "did you mean `block`?"),
    ("{name: 'share: never', when: {to: cloud}, then: block}", ".name", "`share: never` is what the activity calls another rule", "give it another name"),
    ("{name: r, when: {too: cloud}, then: block}", ".when.too", "no such key", "did you mean `to`?"),
    ("{name: r, when: {to: clod}, then: block}", ".when.to", "`clod` is not one of cloud, local", "did you mean `cloud`?"),
    ("{name: r, when: {by: content, notes: 5}, then: block}", ".when.notes", "`5` does not say whether that is the least or the most", 'write it like `">=5"`'),
    ("{name: r, when: {coverage: '>=50'}, then: block}", ".when.coverage", "`>=50` has no % after the number", 'write it like `">=50%"`'),
    ("{name: r, when: {folder: /vault}, then: block}", ".when.folder", "`/vault` begins with a slash", "write it like `vault/Health/**` or `vault/Ledger.md`"),
    ("{name: r, when: {folder: [vault/x, 'vault/**y']}, then: block}", ".when.folder[1]", "`vault/**y` has a `**` that is only a part of a folder's name; it stands for whole folders", "write it like `vault/Health/**` or `vault/Ledger.md`"),
    ("{name: r, when: {tags: ['work/*']}, then: block}", ".when.tags[0]", "`work/*` has a wildcard; a tag stands for those below it without one", "write it like `private` or `work/acme`"),
    ("{name: r, when: {tags: []}, then: block}", ".when.tags", "nothing stands where one value or a list belongs", "write one, or leave the key out"),
    ("{name: r, when: {model: 4}, then: block}", ".when.model", "a number (`4`) stands where a pattern belongs", "put it in quotes"),
    ("{name: r, when: {client: Claude Code}, then: block}", ".when.client", "`Claude Code` is no client's name as requests show it; it may be `claude-code`", "write it like `claude-code` or `claude*`"),
    ("{name: r, when: {by: contents}, then: block}", ".when.by", "`contents` is not one of content, reference, listing, any", "did you mean `content`?"),
    ("{name: r, when: {scan: [partly]}, then: block}", ".when.scan[0]", "`partly` is not one of complete, partial, unscanned", "did you mean `partial`?"),
    ("{name: r, when: {to: cloud}, then: redirect, targets: [olama]}", ".targets[0]", "`olama` is no target", "did you mean `ollama`?"),
    ("{name: r, when: {to: cloud}, then: redirect, targets: nowhere}", ".targets", "`nowhere` is no target", "add it to `targets`"),
    ("{name: r, when: {to: cloud}, then: redirect}", "", "`redirect` has no targets", "name one from `targets`, like `targets: [ollama]`"),
    ("{name: r, when: {to: local}, then: redirect, targets: [far]}", ".targets", "what goes to a local model would be sent to a cloud by it", "name a target of this machine, or write `to: cloud`"),
    ("{name: r, when: {to: cloud}, then: block, targets: [ollama]}", ".targets", "`block` has no `targets`", "leave it out; it is for redirect"),
    ("{name: r, when: {to: cloud}, then: block, otherwise: allow}", ".otherwise", "`block` has no `otherwise`", "leave it out; it is for redirect and hold and redact"),
    ("{name: r, when: {to: cloud}, then: hold, otherwise: hold}", ".otherwise", "`hold` is not one of block, allow", "write one of them"),
    ("{name: r, when: {to: cloud}, then: hold, hold_for: 0s}", ".hold_for", "`0s` is no time to wait", "write a duration, like `2m`"),
    ("{name: r, when: {by: content}, then: redact, placeholder: '{note}'}", ".placeholder", "`{note}` has braces that are not those of `{title}`", "write it like `[withheld]` or `[withheld: {title}]`"),
    ("{name: r, when: {source: valt}, then: block}", ".when.source", "`valt` is in no source", "the sources are vault, mcp-memory"),
    ("{name: r, when: {provider: anthropic, to: local}, then: block}", ".when.provider", "nothing that goes to `anthropic` stays local, so the rule never applies", "change `to`, or remove it"),
    ("{name: r, when: {to: cloud}, then: redact}", ".when", "names no notes whose text could be withheld", "say which notes, like `by: content` for all of them"),
    ("{name: r, when: {scan: unscanned, tags: t}, then: block}", ".when.scan", "where nothing could be looked at no notes are seen, so the rule never applies", "remove `scan`, or the conditions on notes"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "key", "message", "mend"), TARGETS)
def test_one_fault_in_a_target(entry: str, key: str, message: str, mend: str) -> None:
    assert faults(f"targets:\n  - {entry}\n") == [Fault("mitm.yaml", 2, f"targets[0]{key}", message, mend)]


@pytest.mark.parametrize(("entry", "key", "message", "mend"), RULES)
def test_one_fault_in_a_rule(entry: str, key: str, message: str, mend: str) -> None:
    known = (
        "targets:\n"
        "  - {name: ollama, url: 'http://127.0.0.1:11434', protocols: [ollama]}\n"
        "  - {name: far, url: 'http://203.0.113.5:80', protocols: [ollama]}\n"
    )
    assert faults(f"{known}rules:\n  - {entry}\n") == [Fault("mitm.yaml", 5, f"rules[0]{key}", message, mend)]


def test_names_are_their_own() -> None:
    text = (
        "targets:\n"
        "  - {name: a, url: 'http://127.0.0.1:1', protocols: ollama}\n"
        "  - {name: A, url: 'http://127.0.0.1:2', protocols: ollama}\n"
        "rules:\n"
        "  - {name: r, when: {to: cloud, tags: x}, then: block}\n"
        "  - {name: R, when: {to: cloud}, then: block}\n"
    )
    assert [(fault.line, fault.key, fault.message) for fault in faults(text)] == [
        (3, "targets[1]", "`A` is the name of `targets[0]` too"),
        (6, "rules[1]", "`R` is the name of `rules[0]` too"),
    ]


def test_a_rule_that_comes_too_late_is_named_where_it_stands() -> None:
    text = "rules:\n  - {name: all, when: {tags: t}, then: allow}\n  - {name: some, when: {tags: t/u}, then: block}\n"
    assert [str(fault) for fault in faults(text)] == [
        (
            "mitm.yaml:3: rules[1].when: never applies: `all` comes first and takes all that it would; "
            "mend: put it before that rule, or remove one of them"
        )
    ]


def test_a_flawed_rule_is_told_of_its_flaw_only() -> None:
    text = "rules:\n  - {name: r, when: {folder: /x, scan: unscanned}, then: redact}\n"
    assert [fault.key for fault in faults(text)] == ["rules[0].when.folder"]


def test_rules_on_notes_that_nobody_looks_for() -> None:
    (fault,) = faults("rules: [{name: r, when: {tags: t}, then: block}]", track_sharing=False)
    assert fault.key == "rules[0].when"
    (fault,) = faults("rules: [{name: r, when: {by: listing}, then: block}]", tells_listings=False)
    assert fault.key == "rules[0].when.by"


def test_unscanned() -> None:
    assert read("unscanned: allow").unscanned == "allow"
    assert faults("unscanned: hold") == [
        Fault("mitm.yaml", 1, "unscanned", "`hold` is not one of block, allow", "write one of them")
    ]


@pytest.mark.parametrize(
    "text", ["rules: x", "rules: [x]", "rules: [[]]", "rules: [{when: x}]", "rules: [null]", "targets: {}"]
)
def test_what_is_no_list_of_keys_is_a_fault(text: str) -> None:
    assert faults(text)
