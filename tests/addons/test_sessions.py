"""Which connections are used again: those to addresses that were judged anew, and no other."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest
from yarl import URL

from addons.outgoing import Outgoing
from addons.sessions import KEPT_SECONDS, KeptAddresses, KeptSessions
from memory.exchange import SentTo

FIRST, SECOND = ip_address("192.0.2.1"), ip_address("192.0.2.2")


def going_to(url: str = "https://model.test/v1", *addresses: object) -> Outgoing:
    return Outgoing("model.test", "POST", URL(url), (), b"", addresses or (FIRST,), SentTo("m", "cloud", "x"), 1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (going_to("https://model.test/v1/other?x=1"), True),
        (going_to("https://model.test/v1", FIRST, FIRST), True),
        (going_to("https://model.test/v1", SECOND), False),
        (going_to("https://model.test/v1", FIRST, SECOND), False),
        (going_to("https://model.test:8443/v1"), False),
        (going_to("https://other.test/v1"), False),
        (going_to("http://model.test/v1"), False),
    ],
)
async def test_a_session_is_for_one_server_at_the_addresses_that_were_judged(other: Outgoing, is_same: bool) -> None:
    kept = KeptSessions()
    async with kept.session(going_to(), True) as first, kept.session(other, True) as second:
        assert (first is second) == is_same
    async with kept.session(going_to(), True) as again:
        assert again is first
    await kept.close()
    assert first.closed
    assert second.closed


async def test_those_that_were_not_used_for_longest_are_closed_but_never_one_in_use() -> None:
    kept = KeptSessions(most=1)
    async with kept.session(going_to("https://a.test"), True) as first:
        async with kept.session(going_to("https://b.test"), True) as second:
            pass
        assert (first.closed, second.closed) == (False, True)
        async with kept.session(going_to("https://c.test"), True) as third:
            assert (first.closed, third.closed) == (False, False)
    assert not first.closed
    await kept.close()


async def test_addresses_are_looked_up_again_after_a_while_or_where_they_were_of_no_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [(FIRST,), (SECOND,), (), (FIRST, SECOND)]
    now = 0.0

    async def look_up(_host: str, _port: int) -> tuple[object, ...]:
        return answers.pop(0)

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    kept = KeptAddresses(look_up)  # type: ignore[arg-type]
    assert [await kept.of("model.test", 443) for _ in range(2)] == [(FIRST,), (FIRST,)]
    now = KEPT_SECONDS
    assert await kept.of("model.test", 443) == (SECOND,)
    kept.forget("model.test", 443)
    assert [await kept.of("model.test", 443) for _ in range(3)] == [(), (FIRST, SECOND), (FIRST, SECOND)]
