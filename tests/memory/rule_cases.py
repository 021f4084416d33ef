"""Rules, notes and requests as `cases/rules.yaml` writes them, and a literal reading of how a request is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from memory.exchange import Decision, Sighting
from memory.rules import Facts, Judged, NoteFacts, Rule, RuleBook, When
from memory.rules.conditions import SEEN, Comparison, parse_count, parse_coverage

REQUEST = {
    "client": "claude-code",
    "provider": "anthropic",
    "model": "claude-sonnet-4",
    "to": "cloud",
    "scan": "complete",
}


class CaseFacts:
    """`notes` are id -> {tags, share}; of every other id its source and folder are known."""

    def __init__(self, notes: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._notes = notes or {}
        self.any_share = any(note.get("share") for note in self._notes.values())

    def of(self, note_id: str) -> NoteFacts:
        note = self._notes.get(note_id, {})
        source, folder = note_id.partition("/")[0], note_id.rpartition("/")[0]
        return NoteFacts(note_id, source, folder, tuple(note.get("tags", ())), note.get("share"))


def rule_of(written: Mapping[str, Any], number: int) -> Rule:
    then = {key: value for key, value in written.items() if key not in {"name", "when", "targets"}}
    return Rule(
        name=written.get("name", f"r{number}"),
        when=when_of(written["when"]),
        targets=_tuple(written, "targets"),
        **then,
    )


def when_of(written: Mapping[str, Any]) -> When:
    by = _tuple(written, "by")
    return When(
        source=_tuple(written, "source"),
        folder=_tuple(written, "folder"),
        note=_tuple(written, "note"),
        tags=_tuple(written, "tags"),
        by=SEEN if by == ("any",) else by,
        coverage=parse_coverage(written["coverage"]) if "coverage" in written else None,
        notes=parse_count(written["notes"]) if "notes" in written else None,
        client=_tuple(written, "client"),
        provider=_tuple(written, "provider"),
        model=_tuple(written, "model"),
        to=written.get("to"),
        scan=_tuple(written, "scan"),
    )


def sighting_of(written: str) -> Sighting:
    """`vault/A.md content 3/4`; without a share of lines all of the only one."""
    words = written.rsplit(" ", 2)
    share = "1/1" if "/" not in words[-1] else words.pop()
    note, kind = " ".join(words).rsplit(" ", 1)
    matched, distinctive = (int(number) for number in share.split("/"))
    title = note.rpartition("/")[2].removesuffix(".md")
    if kind in {"content", "quote"}:
        return Sighting(note, title, "content", "quote" if kind == "quote" else "line", matched, distinctive)
    return Sighting(note, title, "reference", "listing" if kind == "listing" else "reference", 0, distinctive)


def shown(decision: Decision) -> list[str]:
    """The parts as a case writes them."""
    return [" ".join([f"{part.rule}: {part.action}", *part.notes]) for part in decision.parts]


def _tuple(written: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    value = written.get(key, ())
    return (value,) if isinstance(value, str) else tuple(value)


# A literal reading, for patterns without `**` and `?` in lower case: nothing is prepared, every rule is asked in turn.


def literal_actions(rules: Sequence[Rule], request: Judged, sightings: Sequence[Sighting], facts: Facts) -> list[str]:
    """The action that each sighting and then the request gets under the rules alone; `-` where no rule matches."""
    actions = []
    for sighting in sightings:
        for rule in rules:
            if rule.when.is_about_notes and meets(rule.when, request, sighting, sightings, facts):
                actions.append(rule.then if rule.then != "redact" or sighting.by == "content" else "allow")
                break
        else:
            actions.append("-")
    of_request = [one.then for one in rules if not one.when.is_about_notes and _request_meets(one.when, request)]
    if of_request[:1] == ["redact"]:
        of_request = ["allow"]  # it names no notes that could be withheld, and is a fault of the configuration
    return [*actions, *(of_request or ["-"])[:1]]


def meets(when: When, request: Judged, sighting: Sighting, sightings: Sequence[Sighting], facts: Facts) -> bool:
    if not _request_meets(when, request) or not _note_meets(when, sighting, facts):
        return False
    return when.notes is None or _compared(when.notes, sum(_note_meets(when, one, facts) for one in sightings))


def _request_meets(when: When, request: Judged) -> bool:
    return (
        _any(when.client, request.client)
        and _any(when.provider, request.provider)
        and _any(when.model, request.model)
        and when.to in {None, request.to}
        and (not when.scan or request.scan in when.scan)
    )


def _note_meets(when: When, sighting: Sighting, facts: Facts) -> bool:
    note = facts.of(sighting.note)
    kind = "content" if sighting.by == "content" else sighting.grade
    share = 100 * sighting.matched / sighting.distinctive if sighting.distinctive else 0
    return (
        _any(when.source, note.source)
        and _any_path(when.folder, note.folder)
        and _any_path(when.note, note.id)
        and (not when.tags or any(f"{tag}/".startswith(f"{wanted}/") for tag in note.tags for wanted in when.tags))
        and (not when.by or kind in when.by)
        and (when.coverage is None or _compared(when.coverage, share))
    )


def _any(patterns: Sequence[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _any_path(patterns: Sequence[str], path: str) -> bool:
    """A wildcard stays within one folder."""
    folders = path.split("/")
    return not patterns or any(
        len(wanted) == len(folders) and all(map(fnmatchcase, folders, wanted))
        for wanted in (pattern.split("/") for pattern in patterns)
    )


def _compared(comparison: Comparison, value: float) -> bool:
    signs = {">=": value >= comparison.number, ">": value > comparison.number, "<=": value <= comparison.number}
    return {**signs, "<": value < comparison.number, "=": value == comparison.number}[comparison.operator]


def literal_judge(rules: Sequence[Rule], request: Judged, sightings: Sequence[Sighting], facts: Facts) -> str:
    """The action of the request, where no note says anything itself and the request was looked at."""
    actions = literal_actions(rules, request, sightings, facts)
    return max(actions, key=["-", "allow", "redact", "redirect", "hold", "block"].index).replace("-", "allow")


def book_of(case: Mapping[str, Any]) -> RuleBook:
    return RuleBook(
        [rule_of(rule, number) for number, rule in enumerate(case.get("rules", ()), 1)],
        unscanned=case.get("unscanned"),
        local_targets=case.get("local_targets", ()),
    )
