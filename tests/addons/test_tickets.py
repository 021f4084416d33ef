"""A ticket is good once, soon, and for whoever can prove it."""

from __future__ import annotations

import asyncio

from addons.tickets import Tickets


async def test_a_ticket_is_good_once() -> None:
    tickets: Tickets[str] = Tickets()
    ticket = tickets.issue("kept")
    assert tickets.is_proven(ticket.token, ticket.proof)
    assert tickets.redeem(ticket.token) == "kept"
    assert tickets.redeem(ticket.token) is None
    assert len(tickets) == 0


async def test_a_ticket_that_is_not_used_expires() -> None:
    tickets: Tickets[str] = Tickets(seconds=0.02)
    ticket = tickets.issue("kept")
    await asyncio.sleep(0.05)
    assert (len(tickets), tickets.redeem(ticket.token)) == (0, None)


async def test_a_proof_is_for_one_token_of_one_process() -> None:
    tickets: Tickets[str] = Tickets()
    one, two = tickets.issue("one"), tickets.issue("two")
    other: Tickets[str] = Tickets()
    assert len({one.token, two.token, one.proof, two.proof}) == 4
    assert len(one.token) >= 43
    assert not tickets.is_proven(one.token, two.proof)
    assert not tickets.is_proven(one.token, "")
    assert not tickets.is_proven(one.token, "\u00e9\ud800")
    assert not tickets.is_proven("\ud800", one.proof)
    assert not other.is_proven(one.token, one.proof)
    tickets.clear()
    assert len(tickets) == 0
