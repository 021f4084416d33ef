"""The endpoints under `api/held`: requests that wait for a person, and what the person wants done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from memory.exchange import Protocol
from memory.held import Answer, Held, HeldRequests, HeldState, Released
from web.api import read_object
from web.errors import Refusal
from web.events import EventHub

ANSWERS: dict[str, Answer] = {"release": "released", "block": "blocked", "redirect": "redirected"}
"""The actions, and how a wait that they end is said to have ended."""

type TargetsFor = Callable[[Protocol], Sequence[str]]
"""The names of the configured targets that speak a protocol."""


class HeldApi:
    """Requests on hold. `targets` is asked each time: the configuration may have changed."""

    def __init__(self, held: HeldRequests, targets: TargetsFor, events: EventHub) -> None:
        self._held = held
        self._targets = targets
        self._events = events

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/held`: `{held: [{id, since, until, entry, targets[]}]}`, those that have waited longest first."""
        held = [one.to_json() | {"targets": list(self._targets(one.protocol))} for one in self._held.waiting()]
        return web.json_response({"held": held})

    async def decide(self, request: web.Request) -> web.Response:
        """`POST api/held/{activityId}` with `{action, target}`: gives `{id, state}`."""
        identifier = request.match_info["activityId"]
        wanted = await read_object(request)
        held = self._held.find(identifier)
        if held is None:
            raise self._over(identifier)
        released = self._released(wanted, held)
        self._held.decide(identifier, released)
        return web.json_response({"id": identifier, "state": released.answer})

    def tell_change(self, identifier: str, state: HeldState) -> None:
        """What the held requests call when a wait begins or ends."""
        self._events.publish("held", {"id": identifier, "state": state})

    def _released(self, wanted: dict[str, Any], held: Held) -> Released:
        """What was asked for. Raises `Refusal` 400."""
        if unknown := sorted(wanted.keys() - {"action", "target"}):
            raise Refusal(400, "bad_request", f"there is no key {unknown[0]!r} here")
        action, target = wanted.get("action"), wanted.get("target")
        if not isinstance(action, str) or action not in ANSWERS:
            raise Refusal(400, "bad_request", "action can only be release, block or redirect")
        if action != "redirect":
            if target is not None:
                raise Refusal(400, "bad_request", "target is for redirect only")
            return Released(ANSWERS[action])
        if target not in self._targets(held.protocol):
            raise Refusal(400, "bad_request", f"target must name one of the targets that speak {held.protocol}")
        return Released("redirected", target)

    def _over(self, identifier: str) -> Refusal:
        match self._held.ended(identifier):
            case "released" | "blocked" | "redirected" as answer:
                return Refusal(409, "decided", f"somebody was faster: this request was {answer}")
            case "expired":
                return Refusal(404, "not_found", "this request no longer waits: its time has run out")
            case "left":
                return Refusal(404, "not_found", "this request no longer waits: its client has left")
            case None:
                return Refusal(404, "not_found", "no such request is on hold")
