"""The rules as the dashboard shows and tests them: those in force with their hits, and what notes say themselves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from addons.config import Config, ConfigError
from addons.rules_given import explain, read_rules
from addons.targets import local_targets
from memory.activity import Activity
from memory.exchange import Place, timestamp
from memory.note_library import NoteLibrary
from memory.notes import SHARES, Note
from memory.rules import DryRun, Facts, NotesFacts, Rule, RuleBook, dry_run
from memory.rules.written import rule_to_json
from web.rules_api import RulesError

MOST_NOTES = 100
"""Notes that are named for each thing that notes say of sharing."""


class RulesService:
    """What `web.rules_api.Rules` asks for. `hits` gives for a rule's name the requests that it had a part in, from now on."""

    def __init__(
        self, config: Callable[[], Config], library: NoteLibrary, activity: Activity, hits: Callable[[str], int]
    ) -> None:
        self._config = config
        self._library = library
        self._activity = activity
        self._hits = hits
        self._since = datetime.now(UTC)

    def to_json(self) -> dict[str, Any]:
        config, notes = self._config(), self._library.snapshot.map.notes
        book, facts = book_of(config), NotesFacts(notes)
        shared: dict[str, list[Note]] = {share: [] for share in SHARES}
        for note in notes.values():
            if note.share:
                shared[note.share].append(note)
        own = zip(SHARES, (book.never, book.local, book.ask), strict=True)
        return {
            "mode": config.mode,
            "countedSince": timestamp(self._since),
            "rules": [self._shown(rule) for rule in config.rules],
            "notes": [
                self._shown(rule) | {"share": share, "count": len(shared[share]), "notes": _named(shared[share])}
                for share, rule in own
                if shared[share]
            ],
            "unscanned": {
                "name": book.not_scanned.name,
                "setting": config.unscanned,
                "cloud": _unscanned(book, "cloud", facts),
                "local": _unscanned(book, "local", facts),
                "hits": self._hits(book.not_scanned.name),
            },
        }

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        """As `web.rules_api.Rules` says. The judging is done in a thread."""
        config = self._config()
        try:
            book = book_of(config) if rules is None else book_of(config, read_rules(rules, config))
        except ConfigError as error:
            raise RulesError(explain(error)) from None
        if self._library.snapshot.loaded_at is None:
            await self._library.scan()
        await self._activity.flush()
        facts = NotesFacts(self._library.snapshot.map.notes)
        left = threading.Event()
        try:
            return (await asyncio.to_thread(self._run, book, since, facts, left)).to_json()
        finally:
            left.set()  # the rest of it is for nobody, and the end of the suite would wait for it

    def _run(self, book: RuleBook, since: datetime | None, facts: Facts, left: threading.Event) -> DryRun:
        return dry_run(book, takewhile(lambda _: not left.is_set(), self._activity.requests(since)), facts)

    def _shown(self, rule: Rule) -> dict[str, Any]:
        return rule_to_json(rule) | {"hits": self._hits(rule.name)}


def book_of(config: Config, rules: tuple[Rule, ...] | None = None) -> RuleBook:
    """These rules, else the configuration's, whatever its mode: what is tried need not be in force."""
    return RuleBook(
        config.rules if rules is None else rules,
        unscanned=config.unscanned,
        local_targets=local_targets(config.targets),
    )


def _named(notes: list[Note]) -> list[dict[str, str]]:
    return [{"id": note.id, "title": note.title} for note in notes[:MOST_NOTES]]


def _unscanned(book: RuleBook, to: Place, facts: Facts) -> str:
    return "block" if book.blocks_unscanned(to, facts, redirected=False) else "allow"
