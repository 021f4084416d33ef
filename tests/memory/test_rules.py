"""How a request is judged: `cases/rules.yaml`, and what holds whatever the rules are."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory.exchange import Decision, Redaction, RulePart, Sighting
from memory.notes import Note
from memory.rules import Judged, NoteFacts, NotesFacts, Rule, RuleBook, When, both, judge
from memory.rules.conditions import Comparison, parse_count, parse_coverage, parse_placeholder
from memory.rules.facts import facts_of_id
from memory.rules.globs import fold, name_glob, path_glob, tag_glob
from memory.rules.judging import STRICTNESS
from tests.memory.rule_cases import (
    REQUEST,
    CaseFacts,
    book_of,
    literal_judge,
    meets,
    shown,
    sighting_of,
)

GROUPS = yaml.safe_load((Path(__file__).parent / "cases" / "rules.yaml").read_text("utf-8"))
CASES = [pytest.param(case, id=f"{group['says']}: {case['it']}") for group in GROUPS for case in group["cases"]]
KEYS = {"it", "rules", "notes", "seen", "request", "gives", "parts", "withheld", "targets", "hold_for"}


@pytest.mark.parametrize("case", CASES)
def test_a_case(case: dict[str, Any]) -> None:
    assert case.keys() <= KEYS | {"unscanned", "local_targets"}
    request = Judged(**{**REQUEST, **case.get("request", {})})
    sightings = [sighting_of(seen) for seen in case["seen"]]

    decision = judge(book_of(case), request, sightings, CaseFacts(case.get("notes")))

    action, by, rule = case["gives"].partition(" by ")
    assert decision.action == action
    if by:
        assert decision.rule == rule
    if "parts" in case:
        assert shown(decision) == case["parts"]
    if "withheld" in case:
        assert {one.note: one.placeholder for one in decision.redactions} == case["withheld"]
    if "targets" in case or action == "block":
        assert list(decision.targets) == case.get("targets", [])
    if "hold_for" in case:
        assert decision.hold_for == case["hold_for"]


def test_every_case_says_something_of_its_own() -> None:
    names = [param.id for param in CASES]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert len(CASES) > 120


def test_a_note_that_the_facts_do_not_know_is_an_error_and_not_a_pass() -> None:
    rules = RuleBook([Rule("r", When(tags=("private",)), "block")])
    with pytest.raises(KeyError, match=r"vault/A\.md"):
        judge(rules, Judged(**REQUEST), [sighting_of("vault/A.md content")], NotesFacts({}))


# A request that is judged twice


def test_what_was_withheld_before_a_redirect_stays_withheld_after_it() -> None:
    cloud = [
        Rule("strip", When(note=("vault/A.md",), to="cloud"), "redact", placeholder="[{title}]"),
        Rule("home", When(note=("vault/B.md",), to="cloud"), "redirect", ("ollama",)),
        Rule("at home", When(note=("vault/C.md",), to="local"), "redact"),
    ]
    seen = [sighting_of(f"vault/{name}.md content") for name in "ABC"]
    first = judge(RuleBook(cloud), Judged(**REQUEST), seen, CaseFacts())
    second = judge(RuleBook(cloud), Judged(**{**REQUEST, "to": "local", "target": "ollama"}), seen, CaseFacts())

    decision = both(first, second)

    assert (decision.action, decision.rule, decision.targets) == ("redirect", "home", ("ollama",))
    assert decision.redactions == (Redaction("vault/A.md", "[A]"), Redaction("vault/C.md", "[withheld]"))
    assert shown(decision) == ["strip: redact vault/A.md", "home: redirect vault/B.md", "at home: redact vault/C.md"]


def test_a_rule_is_named_once_with_the_strictest_that_it_asked_for() -> None:
    first = (RulePart("home", "redirect", ("a", "b")), RulePart("ledger", "redact", ("c",)), RulePart("all", "allow"))
    there = (
        RulePart("home", "allow", ("a",)),
        RulePart("ledger", "allow", ("d",)),
        RulePart("all", "block"),
        RulePart("mine", "allow", ("b",)),
    )
    decision = both(Decision("redirect", "home", first), Decision("block", "all", there))
    assert (decision.action, decision.rule) == ("block", "all")
    assert [(part.rule, part.action, part.notes) for part in decision.parts] == [
        ("home", "redirect", ("a", "b")),
        ("ledger", "redact", ("c",)),
        ("ledger", "allow", ("d",)),
        ("all", "block", ()),
        ("mine", "allow", ("b",)),
    ]


def test_what_is_blocked_at_the_new_destination_is_blocked() -> None:
    first = Decision("redirect", "home", (RulePart("home", "redirect", ("vault/A.md",)),), (), ("ollama",))
    second = Decision("block", "not there", (RulePart("not there", "block"),))
    assert both(first, second) == Decision("block", "not there", (*first.parts, *second.parts))


def test_nothing_is_withheld_from_a_request_that_is_not_sent() -> None:
    first = Decision("redact", "strip", (), (Redaction("vault/A.md", "[withheld]"),))
    assert both(first, Decision("block", "no")).redactions == ()


# Whether anything may pass to a cloud unseen


@pytest.mark.parametrize(
    ("rule", "restricts"),
    [
        (Rule("r", When(to="cloud"), "allow"), False),
        (Rule("r", When(to="local"), "block"), False),
        (Rule("r", When(), "block"), True),
        (Rule("r", When(to="cloud", by=("listing",)), "redact"), True),
        (Rule("r", When(source=("vault",)), "redirect", ("ollama",)), True),
        (Rule("r", When(notes=Comparison(">=", 5)), "hold"), True),
    ],
)
def test_rules_that_restrict_what_goes_to_the_cloud(rule: Rule, *, restricts: bool) -> None:
    assert RuleBook([rule]).restricts_cloud(CaseFacts()) is restricts


def test_a_note_restricts_what_goes_to_the_cloud_by_its_own_frontmatter() -> None:
    assert RuleBook().restricts_cloud(CaseFacts({"vault/A.md": {"share": "ask"}}))
    assert not RuleBook().restricts_cloud(CaseFacts({"vault/A.md": {"tags": ["private"]}}))


# What is known of notes


def test_the_facts_of_a_note() -> None:
    note = Note("vault/x/A.md", "vault", "x/A.md", "A", "", (), ("t",), (), 1, share="local")
    facts = NotesFacts({note.id: note})
    assert facts.of(note.id) == NoteFacts("vault/x/A.md", "vault", "vault/x", ("t",), "local")
    assert facts.of(note.id) is facts.of(note.id)
    assert facts.any_share
    assert not NotesFacts({}).any_share


def test_the_facts_of_a_note_that_is_gone() -> None:
    assert facts_of_id("vault/x/A.md") == NoteFacts("vault/x/A.md", "vault", "vault/x")


# What a person writes


@pytest.mark.parametrize(
    ("written", "comparison"),
    [(">=5", (">=", 5)), ("> 5", (">", 5)), ("<=5", ("<=", 5)), (" <5 ", ("<", 5)), ("=5", ("=", 5))],
)
def test_a_number_of_notes(written: str, comparison: tuple[str, int]) -> None:
    assert parse_count(written) == comparison


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("5", "does not say whether that is the least or the most"),
        (">=", "is no number of notes"),
        (">=5%", "is no number of notes"),
        (">=1.5", "is no number of notes"),
        (">=-1", "is no number of notes"),
        ("=>5", "is no number of notes"),
        (">=٥", "is no number of notes"),
        ("", "is no number of notes"),
    ],
)
def test_what_is_no_number_of_notes(written: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_count(written)


def test_a_share_of_a_note() -> None:
    assert parse_coverage(">=50%") == (">=", 50)
    assert parse_coverage("< 12.5 %") == ("<", 12.5)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (">=50", "has no % after the number"),
        ("50%", "does not say whether that is the least or the most"),
        (">100.5%", "is more than all of a note, which is 100%"),
        ("half", "is no share of a note"),
    ],
)
def test_what_is_no_share_of_a_note(written: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_coverage(written)


@pytest.mark.parametrize(
    ("parse", "written", "message"),
    [
        (name_glob, " ", "is empty"),
        (path_glob, "/", "is empty"),
        (path_glob, "/vault", "begins with a slash"),
        (path_glob, "vault//x", "has two slashes in a row"),
        (path_glob, "vault\\x", "holds a backslash; folders are parted by `/`"),
        (path_glob, "vault/**.md", "has a `**` that is only a part of a folder's name; it stands for whole folders"),
        (tag_glob, "#", "is empty"),
        (tag_glob, "work/*", "has a wildcard; a tag stands for those below it without one"),
    ],
)
def test_what_is_no_pattern(parse: Any, written: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("*", r"\*") + "$"):
        parse(written)


def test_a_rule_book_refuses_a_pattern_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"^is empty$"):
        RuleBook([Rule("r", When(folder=("",)), "block")])


def test_placeholders() -> None:
    assert parse_placeholder("[withheld: {title}]") == "[withheld: {title}]"
    for written in ("{name}", "{title", "{title!r}", "}"):
        with pytest.raises(ValueError, match=r"^has braces that are not those of `\{title\}`$"):
            parse_placeholder(written)
    with pytest.raises(ValueError, match=r"^holds a character that cannot be printed$"):
        parse_placeholder("a\nb")


def test_a_title_is_no_template() -> None:
    rules = RuleBook([Rule("r", When(by=("content",)), "redact", placeholder="[{title}]")])
    seen = Sighting("vault/A.md", "{title} {0}", "content", "line", 1, 1)
    assert judge(rules, Judged(**REQUEST), [seen], CaseFacts()).redactions == (
        Redaction("vault/A.md", "[{title} {0}]"),
    )


@given(st.text())
def test_folding_is_done_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert fold(text.upper()) == fold(text.upper().lower())


@given(st.text(max_size=20))
def test_a_pattern_without_wildcards_matches_itself(text: str) -> None:
    try:
        glob = path_glob(text)
    except ValueError:
        return
    assert glob.matches(fold(text.strip()).removesuffix("/"))


def test_a_long_name_does_not_make_a_pattern_slow() -> None:
    rules = RuleBook(
        [Rule("r", When(model=("*a*a*a*a*a*a*a*b",)), "block"), Rule("s", When(note=("*a*a*a*a*a*a*b",)), "block")]
    )
    request = Judged(**{**REQUEST, "model": "a" * 20_000})
    assert judge(rules, request, [Sighting("a" * 5_000, "A", "content", "line", 1, 1)], CaseFacts()).action == "allow"


# Whatever the rules are

NAMES = ("a", "b", "a/b", "a/c")
TAGS = ("t", "t/u", "v")
IDS = [f"{folder}/{name}.md" for folder in NAMES for name in "xy"]
ACTIONS = st.sampled_from(STRICTNESS)
COMPARISONS = st.builds(Comparison, st.sampled_from((">=", ">", "<=", "<", "=")), st.sampled_from((0, 1, 2, 50, 100)))
WHENS = st.builds(
    When,
    source=st.lists(st.sampled_from(("a", "b", "*")), max_size=2).map(tuple),
    folder=st.lists(st.sampled_from((*NAMES, "a*")), max_size=1).map(tuple),
    note=st.lists(st.sampled_from(IDS), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(TAGS), max_size=2).map(tuple),
    by=st.lists(st.sampled_from(("content", "reference", "listing")), max_size=2).map(tuple),
    coverage=st.none() | COMPARISONS,
    notes=st.none() | COMPARISONS,
    client=st.lists(st.sampled_from(("claude-code", "c*", "codex")), max_size=1).map(tuple),
    to=st.sampled_from((None, "cloud", "local")),
    scan=st.lists(st.sampled_from(("complete", "partial", "unscanned")), max_size=2).map(tuple),
)
RULES = st.lists(st.builds(Rule, st.sampled_from("rst"), WHENS, ACTIONS, st.just(("ollama",))), max_size=6)
KINDS = st.sampled_from(
    (("content", "line"), ("content", "quote"), ("reference", "reference"), ("reference", "listing"))
)
SIGHTINGS = st.lists(
    st.builds(
        lambda note, kind, matched: Sighting(note, note, *kind, matched if kind[1] == "line" else 0, 4),
        st.sampled_from(IDS),
        KINDS,
        st.integers(0, 4),
    ),
    max_size=6,
    unique_by=lambda sighting: sighting.note,
)
FACTS = st.dictionaries(
    st.sampled_from(IDS), st.fixed_dictionaries({"tags": st.lists(st.sampled_from(TAGS), max_size=2)})
).map(CaseFacts)
OWN_WORDS = st.dictionaries(
    st.sampled_from(IDS), st.fixed_dictionaries({"share": st.sampled_from(("never", "local", "ask"))})
).map(CaseFacts)
REQUESTS = st.builds(
    Judged,
    client=st.sampled_from(("claude-code", "codex")),
    provider=st.just("anthropic"),
    model=st.just("m"),
    to=st.sampled_from(("cloud", "local")),
    scan=st.sampled_from(("complete", "partial")),
)
UNLOOKED = st.builds(
    Judged,
    client=st.sampled_from(("claude-code", "codex")),
    provider=st.just("anthropic"),
    model=st.just("m"),
    to=st.sampled_from(("cloud", "local")),
    scan=st.sampled_from(("complete", "partial", "unscanned")),
    signed=st.booleans(),
    target=st.sampled_from((None, "ollama", "other")),
    unreachable=st.booleans(),
    held=st.sampled_from((None, "released", "expired")),
)


def strictness(decision: Decision) -> int:
    return STRICTNESS.index(decision.action)


@given(RULES, REQUESTS, SIGHTINGS, FACTS)
def test_it_judges_as_the_rule_reads_literally(
    rules: list[Rule], request: Judged, sightings: list[Sighting], facts: CaseFacts
) -> None:
    decision = judge(RuleBook(rules), request, sightings, facts)
    assert decision.action == literal_judge(rules, request, sightings, facts)


@given(RULES, UNLOOKED, SIGHTINGS, FACTS | OWN_WORDS, WHENS)
def test_an_allow_at_the_end_never_makes_a_decision_stricter(
    rules: list[Rule], request: Judged, sightings: list[Sighting], facts: CaseFacts, when: When
) -> None:
    before = judge(RuleBook(rules), request, sightings, facts)
    after = judge(RuleBook([*rules, Rule("last", when, "allow")]), request, sightings, facts)
    assert strictness(after) <= strictness(before)


@given(st.lists(st.tuples(WHENS, ACTIONS), max_size=4), REQUESTS, SIGHTINGS, FACTS)
def test_in_no_order_does_a_note_escape_the_first_rule_that_matches_it(
    written: list[tuple[When, Any]], request: Judged, sightings: list[Sighting], facts: CaseFacts
) -> None:
    rules = [Rule(f"r{number}", when, then, ("ollama",)) for number, (when, then) in enumerate(written)]
    for order in itertools.permutations(rules):
        decision = judge(RuleBook(order), request, sightings, facts)
        for sighting in sightings:
            first = next(
                (
                    one
                    for one in order
                    if one.when.is_about_notes and meets(one.when, request, sighting, sightings, facts)
                ),
                None,
            )
            named = [part.rule for part in decision.parts if sighting.note in part.notes]
            assert named == ([first.name] if first else [])


@given(RULES, UNLOOKED, SIGHTINGS, FACTS | OWN_WORDS)
def test_decisions_are_the_same_each_time_and_hold_together(
    rules: list[Rule], request: Judged, sightings: list[Sighting], facts: CaseFacts
) -> None:
    book = RuleBook(rules)
    decision = judge(book, request, sightings, facts)
    assert decision == judge(book, request, sightings, facts) == judge(RuleBook(rules), request, sightings, facts)
    assert strictness(decision) == max([STRICTNESS.index(part.action) for part in decision.parts], default=0)
    assert (decision.rule is None) == (not decision.parts)
    assert (
        bool(decision.targets) == any(part.action == "redirect" for part in decision.parts)
        or decision.action == "block"
    )
    assert {one.note for one in decision.redactions} <= {one.note for one in sightings if one.by == "content"}
    assert not (request.target and any(part.action == "redirect" for part in decision.parts))
    assert not (request.held and decision.action == "hold")


@given(RULES, UNLOOKED, SIGHTINGS, OWN_WORDS)
def test_what_a_note_says_itself_is_never_lost(
    rules: list[Rule], request: Judged, sightings: list[Sighting], facts: CaseFacts
) -> None:
    decision = judge(RuleBook(rules), request, sightings, facts)
    never = [one for one in sightings if facts.of(one.note).share == "never" and one.grade != "listing"]
    away = [one for one in sightings if facts.of(one.note).share == "local" and one.grade != "listing"]
    assert decision.action == "block" or not (never or (away and request.to == "cloud"))
