"""Requests on hold: whoever decides first has decided, and how much is kept of them is bounded."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from memory import held as module
from memory.exchange import Decision, timestamp
from memory.held import HeldRequests, Released
from tests.memory.exchanges import released


class Told(list[tuple[str, str]]):
    """What `on_change` said."""

    def __call__(self, identifier: str, state: str) -> None:
        self.append((identifier, state))


def held_and_told(most: int = 10) -> tuple[HeldRequests, Told]:
    held, told = HeldRequests(most), Told()
    held.on_change.append(told)
    return held, told


async def test_a_request_waits_until_it_is_decided_on() -> None:
    held, told = held_and_told()
    exchange = released("01", sent_to=[], notes=("vault/Garden.md",), decision=Decision("hold", "ask me", hold_for=90))
    answer = held.begin(exchange, 90)
    await asyncio.sleep(0)
    assert not answer.done()
    assert (len(held), told) == (1, [("01", "waiting")])
    [one] = held.waiting()
    assert one == held.find("01")
    assert one.until - one.since == timedelta(seconds=90)
    assert one.protocol == "anthropic"
    assert one.to_json() == {
        "id": "01",
        "since": timestamp(one.since),
        "until": timestamp(one.until),
        "entry": exchange.to_json(),
    }
    assert held.decide("01", Released("redirected", "ollama"))
    assert await answer == Released("redirected", "ollama")
    assert (len(held), held.waiting(), held.find("01"), held.ended("01")) == (0, [], None, "redirected")
    assert told == [("01", "waiting"), ("01", "redirected")]


async def test_the_second_to_decide_changes_nothing() -> None:
    held, told = held_and_told()
    answer = held.begin(released("01"), 90)
    assert held.decide("01", Released("blocked"))
    assert not held.decide("01", Released("released"))
    assert await answer == Released("blocked")
    assert held.ended("01") == "blocked"
    assert told == [("01", "waiting"), ("01", "blocked")]


async def test_what_nobody_knows_cannot_be_decided_on() -> None:
    held, told = held_and_told()
    assert not held.decide("02", Released("released"))
    assert (held.find("02"), held.ended("02"), told) == (None, None, [])


async def test_many_wait_each_for_itself_and_those_who_came_first_stand_first() -> None:
    held, _ = held_and_told()
    answers = {name: held.begin(released(name), 90) for name in ("03", "01", "02")}
    assert [one.id for one in held.waiting()] == ["03", "01", "02"]
    held.decide("01", Released("released"))
    await asyncio.sleep(0)
    assert {name for name, answer in answers.items() if answer.done()} == {"01"}
    assert [one.id for one in held.waiting()] == ["03", "02"]


async def test_where_too_many_wait_the_time_of_the_next_is_up_at_once() -> None:
    held, told = held_and_told(most=2)
    for name in ("01", "02"):
        held.begin(released(name), 90)
    assert await held.begin(released("03"), 90) == Released("expired")
    assert ([one.id for one in held.waiting()], len(told)) == (["01", "02"], 2)
    held.decide("01", Released("left"))
    assert not held.begin(released("04"), 90).done()


async def test_a_wait_that_was_cancelled_can_still_be_ended() -> None:
    held, told = held_and_told()
    held.begin(released("01"), 90).cancel()
    assert held.decide("01", Released("left"))
    assert told[-1] == ("01", "left")


async def test_only_the_latest_ends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 2)
    held, _ = held_and_told()
    for name in ("01", "02", "03"):
        held.begin(released(name), 90)
        held.decide(name, Released("expired"))
    assert [held.ended(name) for name in ("01", "02", "03")] == [None, "expired", "expired"]
