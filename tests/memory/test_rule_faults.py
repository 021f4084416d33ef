"""Rules that can never apply, and what is said about each."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given

from memory.exchange import Sighting
from memory.rules import Judged, Known, Rule, RuleBook, RuleFault, faults_of, judge
from tests.memory.rule_cases import REQUEST, CaseFacts, rule_of
from tests.memory.test_rules import FACTS, REQUESTS, RULES, SIGHTINGS

KNOWN = Known(
    sources=("vault", "mcp-memory"),
    providers={"anthropic": "cloud", "ollama": None, "lab": "local"},
    targets={"ollama": "local", "far": "cloud", "lan": None},
)

FINE = """
# the rules of the specification
- {when: {tags: [private], to: cloud}, then: redirect, targets: [ollama, far]}
- {when: {folder: "vault/Health/**", by: content, to: cloud}, then: block}
- {when: {source: mcp-memory, by: reference}, then: allow}
- {when: {note: "vault/Ledger.md"}, then: redact}
- {when: {notes: ">=5", to: cloud}, then: hold}
- {when: {scan: unscanned, client: codex}, then: block}
# the edges of what is a fault
- {when: {to: local, tags: [x]}, then: redirect, targets: [far, ollama]}
- {when: {to: local, tags: [y]}, then: redirect, targets: [lan]}
- {when: {by: [reference, content], tags: [z]}, then: redact}
- {when: {scan: [partial, unscanned], tags: [z], by: listing}, then: hold}
- {when: {coverage: "<=0%", by: reference, tags: [q]}, then: hold}
- {when: {coverage: "=100%", tags: [q]}, then: hold}
- {when: {notes: ">=2", note: [vault/A.md, vault/B.md]}, then: hold}
- {when: {notes: ">=2", note: "vault/*.md"}, then: hold}
- {when: {source: "mcp*", folder: "*/person"}, then: hold}
- {when: {source: vault, folder: "**/x"}, then: hold}
- {when: {folder: vault/x, note: [vault/A.md, vault/x/A.md]}, then: hold}
- {when: {provider: "o*", to: local, tags: [w]}, then: hold}
- {when: {folder: VAULT/z}, then: hold}
"""

BROKEN = {
    "{when: {to: cloud}, then: redirect}": [
        ("targets", "`redirect` has no targets", "name one from `targets`, like `targets: [ollama]`")
    ],
    "{when: {to: local}, then: redirect, targets: [far]}": [
        (
            "targets",
            "what goes to a local model would be sent to a cloud by it",
            "name a target of this machine, or write `to: cloud`",
        )
    ],
    "{when: {to: cloud}, then: redact}": [
        ("when", "names no notes whose text could be withheld", "say which notes, like `by: content` for all of them")
    ],
    "{when: {by: [reference, listing]}, then: redact}": [
        (
            "when.by",
            "notes that are only named have no text that could be withheld",
            "write `by: content`, or another `then`",
        )
    ],
    "{when: {source: valt}, then: block}": [
        ("when.source", "`valt` is in no source", "the sources are vault, mcp-memory")
    ],
    "{when: {folder: [vault/x, Health/**]}, then: block}": [
        ("when.folder", "`Health/**` is in no source", "the sources are vault, mcp-memory")
    ],
    "{when: {note: Ledger.md}, then: block}": [
        ("when.note", "`Ledger.md` is in no source", "write it with its source, like `vault/Ledger.md`")
    ],
    "{when: {provider: antropic}, then: block}": [
        ("when.provider", "`antropic` is no provider", "the providers are anthropic, ollama, lab")
    ],
    "{when: {provider: anthropic, to: local}, then: block}": [
        (
            "when.provider",
            "nothing that goes to `anthropic` stays local, so the rule never applies",
            "change `to`, or remove it",
        )
    ],
    "{when: {provider: lab, to: cloud}, then: block}": [
        ("when.provider", "`lab` is local, so the rule never applies", "change `to`, or remove it")
    ],
    "{when: {source: vault, folder: mcp-memory/person}, then: block}": [
        ("when.source", "`source` and the rest of the rule are about different notes", "remove one of them")
    ],
    "{when: {source: vault, note: mcp-memory/person/A}, then: block}": [
        ("when.source", "`source` and the rest of the rule are about different notes", "remove one of them")
    ],
    "{when: {folder: vault/x, note: vault/y/A.md}, then: block}": [
        ("when.folder", "none of the notes in `note` is in `folder`", "remove one of them")
    ],
    "{when: {scan: unscanned, tags: [t]}, then: block}": [
        (
            "when.scan",
            "where nothing could be looked at no notes are seen, so the rule never applies",
            "remove `scan`, or the conditions on notes",
        )
    ],
    '{when: {coverage: ">100%"}, then: block}': [
        ("when.coverage", "no note's share is ever that", "write a share that there is, like `>=50%`")
    ],
    '{when: {coverage: "<0%"}, then: block}': [
        ("when.coverage", "no note's share is ever that", "write a share that there is, like `>=50%`")
    ],
    '{when: {coverage: ">=1%", by: listing}, then: block}': [
        (
            "when.coverage",
            "of a note that is only named no line is there, so the rule never applies",
            "remove `coverage`, or write `by: content`",
        )
    ],
    '{when: {notes: "<1"}, then: block}': [
        (
            "when.notes",
            "holds for no number of notes: where none is seen, no rule on notes applies",
            "write a number that there can be, like `>=1`",
        )
    ],
    '{when: {notes: ">2", note: [vault/A.md, vault/B.md]}, then: block}': [
        ("when.notes", "`note` names only 2", "name more notes, or remove `notes`")
    ],
    '{when: {by: listing, coverage: ">1%", scan: unscanned}, then: redact}': [
        (
            "when.by",
            "notes that are only named have no text that could be withheld",
            "write `by: content`, or another `then`",
        ),
        (
            "when.scan",
            "where nothing could be looked at no notes are seen, so the rule never applies",
            "remove `scan`, or the conditions on notes",
        ),
        (
            "when.coverage",
            "of a note that is only named no line is there, so the rule never applies",
            "remove `coverage`, or write `by: content`",
        ),
    ],
}

SHADOWED = [
    ("{}", "{to: cloud}"),
    ("{}", "{}"),
    ("{by: any}", "{tags: [t]}"),
    ("{to: cloud, by: any}", "{to: cloud, by: content}"),
    ("{source: vault}", "{source: VAULT, tags: [t]}"),
    ("{source: [vault, mcp-memory]}", "{source: vault}"),
    ("{source: '*'}", "{source: vault}"),
    ("{folder: 'vault/**'}", "{folder: 'vault/x/**'}"),
    ("{folder: 'vault/**'}", "{folder: vault/x/y}"),
    ("{folder: 'vault/x/**'}", "{folder: vault/x}"),
    ("{note: 'vault/*.md'}", "{note: vault/A.md}"),
    ("{tags: [work]}", "{tags: [work/acme]}"),
    ("{client: 'c*'}", "{client: codex}"),
    ("{model: ['a*', b]}", "{model: [b, aa]}"),
    ("{scan: [partial, unscanned]}", "{scan: unscanned}"),
    ("{coverage: '>=5%'}", "{coverage: '>=5%', to: cloud}"),
    ("{notes: '>=5'}", "{notes: '>=5'}"),
]

NOT_SHADOWED = [
    ("{to: cloud}", "{}"),
    ("{to: cloud}", "{to: local}"),
    ("{}", "{tags: [t]}"),
    ("{tags: [t]}", "{}"),
    ("{tags: [t]}", "{tags: [t, u]}"),
    ("{tags: [work/acme]}", "{tags: [work]}"),
    ("{by: content}", "{by: any}"),
    ("{by: content}", "{source: vault}"),
    ("{folder: 'vault/x/**'}", "{folder: 'vault/**'}"),
    ("{folder: 'vault/*'}", "{folder: 'vault/**'}"),
    ("{folder: 'vault/*'}", "{folder: 'vault/x/**'}"),
    ("{note: vault/A.md}", "{note: 'vault/*.md'}"),
    ("{coverage: '>=5%'}", "{coverage: '>=6%'}"),
    ("{notes: '>=5'}", "{tags: [t]}"),
    ("{notes: '>=5'}", "{notes: '>=5', to: cloud}"),
    ("{scan: unscanned}", "{scan: [partial, unscanned]}"),
    ("{scan: [complete, partial]}", "{}"),
]


def rules_of(*written: str) -> list[Rule]:
    return [rule_of(yaml.safe_load(one), number) for number, one in enumerate(written, 1)]


def test_rules_without_a_fault() -> None:
    rules = [rule_of(rule, number) for number, rule in enumerate(yaml.safe_load(FINE), 1)]
    assert list(faults_of(rules, KNOWN)) == []
    assert list(faults_of(rules, Known())) == []


@pytest.mark.parametrize(("written", "expected"), BROKEN.items(), ids=BROKEN)
def test_a_rule_that_can_never_apply(written: str, expected: list[tuple[str, str, str]]) -> None:
    assert list(faults_of(rules_of(written), KNOWN)) == [RuleFault(0, *fault) for fault in expected]


def test_where_there_is_no_source() -> None:
    (fault,) = faults_of(rules_of("{when: {source: vault}, then: block}"), Known(sources=()))
    assert fault == RuleFault(0, "when.source", "`vault` is in no source", "add the source to `memory.sources`")


def test_where_notes_are_not_looked_for() -> None:
    rules = rules_of("{when: {tags: [t]}, then: block}", "{when: {to: cloud}, then: block}")
    (fault,) = faults_of(rules, Known(scans=False))
    assert fault == RuleFault(
        0,
        "when",
        "never applies: notes are not looked for, since `memory.track_sharing` is false",
        "set `memory.track_sharing: true`",
    )


def test_where_folder_listings_are_not_told() -> None:
    (fault,) = faults_of(rules_of("{when: {by: listing}, then: block}"), Known(tells_listings=False))
    assert fault == RuleFault(
        0,
        "when.by",
        "never applies: with `memory.mentions: seed` a name in a folder listing is a reference",
        "write `by: reference`",
    )


@pytest.mark.parametrize(("first", "second"), SHADOWED)
def test_a_rule_that_comes_too_late(first: str, second: str) -> None:
    rules = rules_of(f"{{when: {first}, then: allow, name: all}}", f"{{when: {second}, then: block}}")
    assert list(faults_of(rules, Known())) == [
        RuleFault(
            1,
            "when",
            "never applies: `all` comes first and takes all that it would",
            "put it before that rule, or remove one of them",
        )
    ]


@pytest.mark.parametrize(("first", "second"), NOT_SHADOWED)
def test_a_rule_that_comes_in_time(first: str, second: str) -> None:
    rules = rules_of(f"{{when: {first}, then: allow}}", f"{{when: {second}, then: block}}")
    assert list(faults_of(rules, Known())) == []


@given(RULES, REQUESTS, SIGHTINGS, FACTS)
def test_a_rule_with_a_fault_never_applies(
    rules: list[Rule], request: Judged, sightings: list[Sighting], facts: CaseFacts
) -> None:
    named = [Rule(f"r{number}", rule.when, rule.then, rule.targets) for number, rule in enumerate(rules)]
    faulty = {f"r{fault.rule}" for fault in faults_of(named, Known())}
    decision = judge(RuleBook(named), request, sightings, facts)
    assert [part for part in decision.parts if part.rule in faulty and part.action != "allow"] == []


def test_the_property_above_would_notice() -> None:
    assert judge(RuleBook(rules_of("{when: {}, then: block}")), Judged(**REQUEST), [], CaseFacts()).action == "block"
