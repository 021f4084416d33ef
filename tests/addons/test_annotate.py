"""What a person sees of an exchange in the inspector."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mitmproxy import contentviews, flowfilter, http
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.test import taddons

from addons.annotate import ENTRY, MOST_SHOWN, Annotate, MemoryView, annotate, comment, describe, marker
from addons.flows import Flows
from addons.wire.answer import Answer, ToolCall
from memory.exchange import Decision, Exchange, Recalls, Scan
from tests.addons.parts import content, exchange_of, flow_to, reference, seen


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "0 notes -> claude-test (cloud)"),
        ({"scan": seen(content())}, "1 note -> claude-test (cloud)"),
        ({"scan": seen(content(), reference()), "to": "local"}, "2 notes -> claude-test (local)"),
        ({"model": ""}, "0 notes -> anthropic (cloud)"),
        ({"recalls": Recalls(1, 0)}, "0 notes -> claude-test (cloud), no memories recalled"),
        ({"recalls": Recalls(2, 1)}, "0 notes -> claude-test (cloud), 1 memory recalled"),
        ({"recalls": Recalls(1, 3)}, "0 notes -> claude-test (cloud), 3 memories recalled"),
        ({"scan": Scan("unscanned", ("off",))}, "unscanned -> claude-test (cloud)"),
        ({"scan": Scan("partial", ("not JSON",))}, "partial -> claude-test (cloud)"),
        ({"scan": Scan("partial", ("not JSON",), (content(),))}, "1 note, partial -> claude-test (cloud)"),
    ],
)
def test_the_comment(changes: dict[str, Any], said: str) -> None:
    assert comment(exchange_of(**changes)) == said


@pytest.mark.parametrize(
    ("changes", "marked"),
    [
        ({}, ""),
        ({"to": "local"}, ""),
        ({"scan": seen(content())}, ":brain:"),
        ({"scan": seen(reference())}, ":brain:"),
        ({"scan": seen(content()), "to": "local"}, ":house:"),
        ({"scan": seen(content()), "to": "local", "decision": Decision("block", "stay")}, ":no_entry:"),
        ({"decision": Decision("block", "stay")}, ":no_entry:"),
    ],
)
def test_the_marker(changes: dict[str, Any], marked: str) -> None:
    assert marker(exchange_of(**changes)) == marked


def test_a_flow_carries_its_exchange_and_brings_it_up_to_date() -> None:
    flows, flow = Flows(), flow_to()
    exchange = exchange_of(scan=seen(content(), reference()))
    flows.begin(flow, exchange)
    addon = Annotate(flows)
    addon.request(flow)
    assert (flow.comment, flow.marked) == ("2 notes -> claude-test (cloud)", ":brain:")
    assert flow.metadata == {
        "memory.exchange": exchange.to_json(),
        "memory.notes": ["vault/Tides.md", "vault/Clock.md"],
    }
    exchange.status = 200
    addon.response(flow)
    assert flow.metadata[ENTRY]["status"] == 200


def test_another_flow_is_left_alone() -> None:
    flow = flow_to("http://files.example/")
    addon = Annotate(Flows())
    addon.request(flow)
    addon.response(flow)
    assert (flow.comment, flow.marked, flow.metadata) == ("", "", {})


def test_the_metadata_is_plain_json_that_is_saved_and_found_again() -> None:
    flow = flow_to(status=200)
    annotate(flow, exchange_of(scan=seen(content(), reference())))
    assert json.loads(json.dumps(flow.metadata)) == flow.metadata
    saved = io.BytesIO()
    FlowWriter(saved).add(flow)
    saved.seek(0)
    [loaded] = FlowReader(saved).stream()
    assert loaded.metadata == flow.metadata
    for expression, matches in (("~meta memory.notes", True), ("~meta Tides", True), ("~comment rose", False)):
        assert bool(flowfilter.match(expression, loaded)) is matches
    without = flow_to()
    annotate(without, exchange_of())
    assert not flowfilter.match("~meta memory.notes", without)


# ---- the content view


def entry_of(**changes: Any) -> dict[str, Any]:
    return exchange_of(**changes).to_json()


def test_describe() -> None:
    assert describe(entry_of(scan=seen(content(matched=1, distinctive=3, resent=True), reference()))) == (
        "to: claude-test (cloud), anthropic, anthropic\n"
        "client: claude-code\n"
        "decision: allow\n"
        "scan: complete\n"
        "notes:\n"
        "  vault/Tides.md:\n"
        "    found: 1/3 lines, again\n"
        "    at:\n"
        "    - /messages/0/content (line, 1)\n"
        "  vault/Clock.md:\n"
        "    found: reference\n"
        "    at:\n"
        "    - /system (reference, 0)\n"
    )
    assert describe(entry_of(model="", scan=Scan("partial", ("not JSON: multipart", "attachment")))) == (
        "to: unknown model (cloud), anthropic, anthropic\n"
        "client: claude-code\n"
        "decision: allow\n"
        "scan: 'partial, not JSON: multipart, attachment'\n"
        "notes: none\n"
    )


NAME = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1)


@settings(deadline=None, max_examples=50)
@given(model=NAME, note=NAME)
@example("m: x", "vault/What: a # tale.md")
@example("{a: 1}", "- *x")
@example("null", "日記/🐈.md")
@example("'", "a " * 500)
@example("\ud800", "\x1b\0\r\n")
def test_a_description_is_yaml_whatever_models_and_notes_are_called(model: str, note: str) -> None:
    read = yaml.safe_load(describe(entry_of(model=model, scan=seen(content(note)))))
    assert read["to"] == f"{model} (cloud), anthropic, anthropic"
    assert read["notes"] == {note: {"found": "2/2 lines", "at": ["/messages/0/content (line, 2)"]}}


def view_of(exchange: Exchange | None, *, answer: bool = False) -> contentviews.Metadata:
    flow = flow_to(status=200)
    if exchange is not None:
        annotate(flow, exchange)
    message: http.Message | None = flow.response if answer else flow.request
    return contentviews.Metadata(flow=flow, content_type="application/json", http_message=message)


@pytest.mark.parametrize(
    ("metadata", "priority"),
    [
        (view_of(exchange_of(scan=seen(content()))), 2),
        (view_of(exchange_of()), 0),
        (view_of(exchange_of(scan=seen(content())), answer=True), 0),
        (view_of(None, answer=True), -1),
        (view_of(None), -1),
        (contentviews.Metadata(), -1),
    ],
)
def test_the_view_comes_first_where_there_are_notes(metadata: contentviews.Metadata, priority: float) -> None:
    assert MemoryView().render_priority(b"{}", metadata) == priority


def test_the_view_shows_the_description() -> None:
    exchange = exchange_of(scan=seen(content()))
    assert MemoryView().prettify(b"{}", view_of(exchange)) == describe(exchange.to_json())
    for metadata in (view_of(None), contentviews.Metadata()):
        with pytest.raises(ValueError, match="not a request to a model"):
            MemoryView().prettify(b"{}", metadata)


def test_the_view_shows_the_answer_put_together() -> None:
    exchange = exchange_of(scan=seen(content()))
    metadata = view_of(exchange, answer=True)
    assert isinstance(metadata.flow, http.HTTPFlow)
    assert metadata.flow.response
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 12, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "At noon."}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "Read"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    ]
    body = gzip.compress("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())
    metadata.flow.response.headers.update({"content-type": "text/event-stream", "content-encoding": "gzip"})
    metadata.flow.response.data.content = body
    assert MemoryView().prettify(body, metadata) == describe(exchange.to_json()) + (
        "answer:\n"
        "  text: At noon.\n"
        "  tools:\n"
        "  - 'Read: {\"a\": 1}'\n"
        "  stopped: tool_use\n"
        "  tokens:\n"
        "    input: 12\n"
        "    output: 9\n"
        "  complete: 'no'\n"
    )


def test_of_a_long_answer_the_beginning_is_shown() -> None:
    """Writing it all as YAML would hold up every stream for seconds."""
    long = Answer(text="t" * (MOST_SHOWN - 10), thinking="x" * 20, tool_calls=(ToolCall("1", "Read", "{}"),))
    shown = yaml.safe_load(describe(exchange_of().to_json(), long))["answer"]
    assert (shown["text"], shown["thinking"]) == (long.text, "x" * 10)
    assert shown["shown"] == "the first 100,000 characters"
    assert "tools" not in shown
    short = yaml.safe_load(describe(exchange_of().to_json(), Answer(text="t" * (MOST_SHOWN - 1))))["answer"]
    assert (len(short["text"]), "shown" in short) == (MOST_SHOWN - 1, False)


@pytest.fixture
def registered() -> Iterator[None]:
    Annotate(Flows()).running()
    with taddons.context():
        yield
    contentviews.registry._by_name.pop("memory", None)


def test_mitmproxy_chooses_the_view_by_itself(registered: None) -> None:
    flow = flow_to(body={"model": "claude-test"}, status=200)
    annotate(flow, exchange_of(scan=seen(content())))
    shown = contentviews.prettify_message(flow.request, flow)
    assert (shown.view_name, shown.syntax_highlight) == ("Memory", "yaml")
    assert shown.text == describe(flow.metadata[ENTRY])
    assert flow.response
    assert contentviews.prettify_message(flow.response, flow).view_name != "Memory"
