"""The rules, and what they would have done with past requests (dispatch.md, "Try before you trust")."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Protocol

from aiohttp import web

from memory.since import parse_since
from web.api import read_object
from web.errors import Refusal

TEST_KEYS = frozenset({"since", "rules"})


class RulesError(Exception):
    """Rules that cannot be meant. The message says of each fault where it is and how to mend it, a line each."""


class Rules(Protocol):
    """What knows the rules: the suite. Both give what the API gives (docs/api.md)."""

    def to_json(self) -> dict[str, Any]: ...

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:
        """Judge what was recorded since then by these rules, written as in mitm.yaml; None: by those in force.

        Raises RulesError.
        """


class NoRules:
    """Where nothing is judged."""

    def to_json(self) -> dict[str, Any]:
        return {"mode": "annotate", "countedSince": None, "rules": [], "notes": [], "unscanned": None}

    async def test(self, since: datetime | None, rules: Any | None) -> dict[str, Any]:  # noqa: ARG002 - as in Rules
        return {"tested": 0, "actions": {}, "rules": []}


class RulesApi:
    """The rules with their hits, and the dry run, of which one goes on at a time."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._testing = asyncio.Lock()

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/rules`: each rule with its hits, what notes say themselves, and `unscanned`."""
        return web.json_response(self._rules.to_json())

    async def test(self, request: web.Request) -> web.Response:
        """`POST api/rules/test` `{since, rules?}`: what rules would have done with recorded requests."""
        asked = await read_object(request)
        if unknown := sorted(asked.keys() - TEST_KEYS):
            raise Refusal(400, "bad_request", f"there is no key {unknown[0]!r} here")
        since = _since(asked.get("since"))
        async with self._testing:
            try:
                return web.json_response(await self._rules.test(since, asked.get("rules")))
            except RulesError as fault:
                raise Refusal(400, "bad_rules", str(fault)) from None


def _since(written: Any) -> datetime | None:
    if written is None:
        return None
    try:
        return parse_since(written if isinstance(written, str) else "", datetime.now(UTC))
    except ValueError as error:
        raise Refusal(400, "bad_request", str(error)) from None
