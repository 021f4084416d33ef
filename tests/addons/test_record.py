"""What is written down of an exchange, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error

from addons.flows import Flows
from addons.record import Carried, Record, Seen
from addons.wire.answer import Answer
from memory.activity import Activity
from memory.exchange import Exchange, SentTo, Sighting
from memory.exposure import Exposure
from tests.addons.parts import content, exchange_of, flow_to, listing, reference, seen

SENT = {"model": "claude-test", "to": "cloud", "upstream": "api.anthropic.com:443"}


class Heard:
    """The dashboard's events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def publish(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append((kind, data))


class Desk:
    """A `Record` and everything around it, with one exchange under way."""

    def __init__(self, exchange: Exchange | None = None, *, count: bool = True) -> None:
        self.exchange = exchange or exchange_of(scan=seen(content(), reference()))
        self.flows, self.activity, self.exposure = Flows(), Activity(), Exposure()
        self.events, self.carried = Heard(), Carried()
        self.record = Record(self.flows, self.activity, self.exposure, self.events, self.carried, count=count)
        self.flow = flow_to()
        self.flow.server_conn.tls = True
        self.flows.begin(self.flow, self.exchange)

    def answer(self, status: int = 200) -> None:
        self.flow.response = http.Response.make(status)
        self.record.responseheaders(self.flow)
        self.record.response(self.flow)

    def fail(self, message: str) -> None:
        self.flow.error = Error(message)
        self.record.error(self.flow)

    @property
    def entry(self) -> dict[str, Any]:
        [entry], _ = self.activity.entries()
        return entry


def test_routed_then_sent_then_answered() -> None:
    desk = Desk()
    desk.record.request(desk.flow)
    assert (desk.entry["sentTo"], desk.entry["outcome"], desk.entry["finishedAt"]) == ([], None, None)
    assert desk.record.clients.names() == ["claude-code"]
    assert desk.exposure.to_json() == {}

    before = datetime.now(UTC)
    desk.flow.response = http.Response.make(200)
    desk.record.responseheaders(desk.flow)
    assert desk.exchange.sent_to == [SentTo("claude-test", "cloud", "api.anthropic.com:443")]
    assert desk.exchange.outcome is None
    # In the log at once, before the answer is over: a crash must not forget who got the body.
    assert (desk.entry["sentTo"], desk.entry["outcome"]) == ([SENT], None)
    counts = desk.exposure.to_json()
    assert {note: (one["cloudContent"], one["cloudReference"]) for note, one in counts.items()} == {
        "vault/Tides.md": (1, 0),
        "vault/Clock.md": (0, 1),
    }

    desk.record.response(desk.flow)
    assert (desk.entry["sentTo"], desk.entry["outcome"], desk.entry["status"]) == ([SENT], "answered", 200)
    assert desk.exchange.finished_at
    assert before <= desk.exchange.finished_at <= datetime.now(UTC)
    assert [(kind, data["outcome"]) for kind, data in desk.events.events] == [
        ("activity", None),
        ("activity", "answered"),
    ]
    assert desk.events.events[-1][1] is desk.entry


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "answered"), (204, "answered"), (101, "answered"), (399, "answered"), (400, "failed"), (529, "failed")],
)
def test_the_outcome_is_the_answers(status: int, outcome: str) -> None:
    desk = Desk()
    desk.answer(status)
    assert (desk.entry["status"], desk.entry["outcome"], desk.entry["sentTo"]) == (status, outcome, [SENT])


def test_annotate_mode_counts_nothing_and_still_says_what_happened() -> None:
    desk = Desk(count=False)
    desk.answer()
    assert (desk.entry["sentTo"], desk.entry["outcome"], desk.exposure.to_json()) == ([], "answered", {})
    assert resent(desk.carried, desk.exchange, content(), reference()) == [True, True]


@pytest.mark.parametrize(
    ("tcp", "tls", "uses_tls", "counts"),
    [
        (None, None, True, False),  # refused
        (1.0, None, True, False),  # its certificate does not hold
        (1.0, 2.0, True, True),
        (1.0, None, False, True),
        (None, None, False, False),
    ],
)
def test_only_a_connection_that_stands_counts(
    tcp: float | None, tls: float | None, uses_tls: bool, counts: bool
) -> None:
    desk = Desk()
    server = desk.flow.server_conn
    server.timestamp_tcp_setup, server.timestamp_tls_setup, server.tls = tcp, tls, uses_tls
    desk.fail("the connection is gone")
    assert (desk.entry["sentTo"], bool(desk.exposure.to_json())) == ([SENT] if counts else [], counts)
    assert resent(desk.carried, desk.exchange, content(), reference()) == [counts, counts]


@pytest.mark.parametrize(
    ("message", "client", "outcome"),
    [
        ("Client disconnected.", ConnectionState.OPEN, "aborted"),
        ("peer closed connection", ConnectionState.CLOSED, "aborted"),
        ("HTTP/2 stream reset by client (CANCEL).", ConnectionState.OPEN, "aborted"),
        ("server closed connection", ConnectionState.OPEN, "failed"),
        ("Connection refused", ConnectionState.OPEN, "failed"),
    ],
)
def test_a_client_that_leaves_is_told_from_a_server_that_fails(
    message: str, client: ConnectionState, outcome: str
) -> None:
    desk = Desk()
    desk.flow.client_conn.state = client
    desk.fail(message)
    assert (desk.entry["outcome"], desk.entry["status"]) == (outcome, None)


def test_a_stream_that_breaks_keeps_its_status_and_is_counted_once() -> None:
    desk = Desk()
    desk.flow.response = http.Response.make(200)
    desk.record.responseheaders(desk.flow)
    desk.fail("Client disconnected.")
    assert (desk.entry["status"], desk.entry["outcome"], desk.entry["sentTo"]) == (200, "aborted", [SENT])
    assert desk.exposure.to_json()["vault/Tides.md"]["cloudContent"] == 1


@pytest.mark.parametrize(
    ("said", "message", "outcome"),
    [
        (Answer(complete=True), "Client disconnected.", "answered"),
        (Answer(complete=True), "HTTP/2 stream reset by client (CANCEL).", "answered"),
        (Answer(complete=True, error="Overloaded"), "Client disconnected.", "aborted"),
        (Answer(text="At no"), "Client disconnected.", "aborted"),
        (Answer(complete=True), "server closed connection", "failed"),
    ],
)
def test_a_client_may_hang_up_as_soon_as_it_has_read_all(said: Answer, message: str, outcome: str) -> None:
    desk = Desk()
    desk.flow.response = http.Response.make(200)
    desk.record.responseheaders(desk.flow)
    desk.flows.answered(desk.flow, said)
    desk.fail(message)
    assert (desk.entry["status"], desk.entry["outcome"]) == (200, outcome)


@pytest.mark.parametrize("said", [Answer(text="At no", error="Overloaded"), Answer(text="At no", cut=True)])
def test_an_answer_that_ends_badly_has_failed(said: Answer) -> None:
    desk = Desk()
    desk.flows.answered(desk.flow, said)
    desk.answer()
    assert (desk.entry["status"], desk.entry["outcome"]) == (200, "failed")


def test_finishing_twice_does_nothing() -> None:
    desk = Desk()
    desk.answer()
    finished = desk.exchange.finished_at
    desk.fail("Client disconnected.")
    desk.answer(500)
    assert (desk.entry["outcome"], desk.entry["status"], desk.exchange.finished_at) == ("answered", 200, finished)
    assert len(desk.events.events) == 1
    assert desk.exposure.to_json()["vault/Tides.md"]["models"] == {"claude-test": 1}


def test_a_flow_that_is_no_request_to_a_model_leaves_no_trace() -> None:
    desk = Desk()
    other = flow_to("http://files.example/", status=200)
    desk.record.request(other)
    desk.record.responseheaders(other)
    desk.record.response(other)
    other.error = Error("Client disconnected.")
    desk.record.error(other)
    assert (desk.activity.entries(), desk.events.events, desk.record.clients.names()) == (([], None), [], [])


def test_a_folder_listing_is_shown_and_not_counted() -> None:
    desk = Desk(exchange_of(scan=seen(listing())))
    desk.answer()
    assert [note["id"] for note in desk.entry["notes"]] == ["vault/Index.md"]
    assert (desk.entry["sentTo"], desk.exposure.to_json()) == ([SENT], {})


# ---- what a conversation carried


def resent(carried: Carried, exchange: Exchange, *sightings: Sighting) -> list[bool]:
    marked = carried.marked(exchange, sightings)
    assert [replace(one, resent=False) for one in marked] == [*sightings]  # nothing else is said of them
    return [one.resent for one in marked]


def test_what_a_conversation_carried_is_resent() -> None:
    carried, again = Carried(), exchange_of("03")
    assert resent(carried, again, content(), reference()) == [False, False]
    carried.add(exchange_of("01", scan=seen(content())))
    carried.add(exchange_of("02", scan=seen(reference())))
    assert resent(carried, again, content(), reference()) == [True, True]
    assert resent(carried, exchange_of("03", conversation="rose"), content()) == [False]
    assert resent(carried, exchange_of("03", client="codex"), content()) == [False]


def test_the_text_of_a_note_is_told_for_the_first_time_also_after_its_name() -> None:
    carried = Carried()
    carried.add(exchange_of("01", scan=seen(reference("vault/Tides.md"))))
    assert resent(carried, exchange_of("02"), reference("vault/Tides.md"), content("vault/Tides.md")) == [True, False]
    carried.add(exchange_of("02", scan=seen(content("vault/Tides.md"))))
    carried.add(exchange_of("03", scan=seen(reference("vault/Tides.md"))))
    assert resent(carried, exchange_of("04"), reference("vault/Tides.md"), content("vault/Tides.md")) == [True, True]


def test_without_a_conversation_nothing_is_carried() -> None:
    carried = Carried()
    alone = exchange_of(conversation=None, scan=seen(content()))
    carried.add(alone)
    assert resent(carried, alone, content()) == [False]


def test_the_conversations_that_were_longest_silent_are_forgotten() -> None:
    carried = Carried(most=2)
    for conversation in ("tulip", "rose", "tulip", "lily"):
        carried.add(exchange_of(conversation=conversation, scan=seen(content())))
    kept = {name: resent(carried, exchange_of(conversation=name), content()) for name in ("tulip", "rose", "lily")}
    assert kept == {"tulip": [True], "rose": [False], "lily": [True]}


def test_the_clients_that_were_longest_silent_are_others() -> None:
    seen_so_far = Seen(most=2)
    for name in ("zed", "curl"):
        seen_so_far.add(name)
    assert seen_so_far.names() == ["curl", "zed"]
    for name in ("zed", "python"):
        seen_so_far.add(name)
    assert seen_so_far.names() == ["python", "zed", "others"]
    seen_so_far.add("others")
    assert seen_so_far.names() == ["python", "others"]


def test_of_what_goes_through_the_gateway_only_the_gateway_says_who_received_it() -> None:
    desk = Desk()
    desk.exchange.is_led = True
    desk.answer(502)
    assert (desk.exchange.sent_to, desk.exposure.to_json(), desk.exchange.outcome) == ([], {}, "failed")


def test_a_note_that_a_memory_holds_counts_as_one_in_the_request_and_once() -> None:
    desk = Desk()
    sent = SentTo(**SENT)
    desk.record.sent(desk.exchange, sent)
    recalled = [content(), content("vault/Clock.md"), content("vault/Index.md")]
    for _ in range(2):
        desk.record.recalled(desk.exchange, recalled, sent)
    notes = {note: (one["cloudContent"], one["cloudReference"]) for note, one in desk.exposure.to_json().items()}
    assert notes == {"vault/Tides.md": (1, 0), "vault/Clock.md": (1, 1), "vault/Index.md": (1, 0)}
    assert [(note["id"], note["by"]) for note in desk.entry["notes"]] == [
        ("vault/Tides.md", "content"),
        ("vault/Clock.md", "content"),
        ("vault/Index.md", "content"),
    ]
    marked = desk.carried.marked(exchange_of("02"), recalled)
    assert [one.resent for one in marked] == [True, True, True]


def test_what_is_recalled_is_written_down_where_something_was_withheld_too() -> None:
    desk = Desk(exchange_of(scan=seen(content()), left=seen()))
    desk.record.recalled(desk.exchange, [content("vault/Index.md")], SentTo(**SENT))
    assert desk.exchange.left is not None
    assert [one.note for one in desk.exchange.left.sightings] == ["vault/Index.md"]
    assert [one.note for one in desk.exchange.scan.sightings] == ["vault/Tides.md", "vault/Index.md"]
    assert list(desk.exposure.to_json()) == ["vault/Index.md"]
