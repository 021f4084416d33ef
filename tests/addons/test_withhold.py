"""The step that withholds: which body is sent, under which headers, and when none is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from addons.makers import reach_of
from memory.exchange import RulePart
from memory.held import Released
from memory.notes import MemoryDocument
from memory.rules import Rule, RuleBook, When
from tests.addons.parts import MESSAGES, TIDES, flow_to
from tests.addons.playback import ENCODERS

STRIP = Rule("strip", When(note=("vault/Tides.md",)), "redact")
ASKED = json.dumps({"model": "claude-test", "messages": [{"role": "user", "content": f"Look:\n{TIDES}end"}]}).encode()
SENT = ASKED.replace(json.dumps(TIDES)[1:-1].encode(), rb"[withheld]\n[withheld]\n")
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/model/tide-1/converse"


async def test_a_note_is_withheld_and_no_other_byte_changes(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STRIP), flow_to(body=ASKED, headers={"X-Twice": "1"})
    exchange = await desk.send(flow)
    assert exchange
    assert (flow.response, flow.request.raw_content) == (None, SENT)
    assert flow.request.headers.fields == (
        (b"content-length", b"%d" % len(SENT)),
        (b"Content-Type", b"application/json"),
        (b"X-Twice", b"1"),
    )
    assert exchange.decision.parts == (RulePart("strip", "redact", ("vault/Tides.md",)),)
    assert [(one.note, one.matched) for one in exchange.scan.sightings] == [("vault/Tides.md", 2)]
    assert exchange.left
    assert (exchange.left.state, exchange.left.sightings, exchange.shared) == ("complete", (), ())


@pytest.mark.parametrize("encoding", [*ENCODERS, "gzip, br"])
async def test_an_encoded_body_is_sent_plain(desk_of: Callable[..., Any], encoding: str) -> None:
    desk, body = await desk_of(STRIP), ASKED
    for one in encoding.split(", "):
        body = ENCODERS[one](body)
    flow = flow_to(body=body, headers={"Content-Encoding": encoding})
    await desk.send(flow)
    assert (flow.response, flow.request.raw_content) == (None, SENT)
    assert ("content-encoding" in flow.request.headers, flow.request.headers["content-length"]) == (
        False,
        str(len(SENT)),
    )


async def test_a_chunked_body_stays_chunked(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STRIP), flow_to(body=ASKED, headers={"Transfer-Encoding": "chunked"})
    del flow.request.headers["content-length"]
    await desk.send(flow)
    assert ("content-length" in flow.request.headers, flow.request.raw_content) == (False, SENT)


async def test_a_large_body_is_withheld_from_in_a_thread(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    original = asyncio.to_thread

    async def to_thread(function: Any, *args: Any) -> Any:
        threads.append(function.__name__)
        return await original(function, *args)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    desk, padding = await desk_of(STRIP), json.dumps(["x" * 70_000]).encode()
    flow = flow_to(body=ASKED[:-1] + b', "padding": ' + padding + b"}")
    await desk.send(flow)
    assert flow.request.raw_content == SENT[:-1] + b', "padding": ' + padding + b"}"
    assert "_redacted" in threads


@pytest.mark.parametrize(("otherwise", "body"), [("block", None), ("allow", ASKED)])
@pytest.mark.parametrize(
    ("url", "headers"),
    [
        (BEDROCK, {"Authorization": "AWS4-HMAC-SHA256 Credential=x/20260304/us-east-1/bedrock/aws4_request"}),
        (BEDROCK, {"Authorization": "AWS4-ECDSA-P256-SHA256 Credential=x"}),
        (f"{BEDROCK}?X-Amz-Signature=abc", {}),
        (MESSAGES, {"Content-Digest": "sha-256=:AAAA:"}),
        (MESSAGES, {"Content-MD5": "AAAA"}),
        (MESSAGES, {"X-Amz-Checksum-Crc32": "AAAA"}),
    ],
)
async def test_a_signed_body_is_never_altered(
    desk_of: Callable[..., Any], url: str, headers: dict[str, str], otherwise: Any, body: bytes | None
) -> None:
    desk = await desk_of(Rule("strip", STRIP.when, "redact", otherwise=otherwise))
    flow = flow_to(url, ASKED, headers=headers)
    exchange = await desk.send(flow)
    assert exchange
    assert (None if flow.response else flow.request.raw_content) == body
    assert (exchange.decision.action, exchange.left) == (otherwise, None)


async def test_a_bearer_key_signs_nothing(desk_of: Callable[..., Any]) -> None:
    desk, flow = await desk_of(STRIP), flow_to(BEDROCK, ASKED, headers={"Authorization": "Bearer aws4"})
    await desk.send(flow)
    assert (flow.response, flow.request.raw_content) == (None, SENT)


@pytest.mark.parametrize("otherwise", ["block", "allow"])
async def test_what_stands_in_a_signed_block_is_not_sent_in_part(desk_of: Callable[..., Any], otherwise: Any) -> None:
    """The line that could be withheld stays too: the body goes as it came, or not at all."""
    desk = await desk_of(Rule("strip", STRIP.when, "redact", otherwise=otherwise))
    thinking = {"type": "thinking", "thinking": TIDES, "signature": "c2lnbmVk"}
    messages = [{"role": "user", "content": TIDES}, {"role": "assistant", "content": [thinking]}]
    body = json.dumps({"model": "claude-test", "messages": messages}).encode()
    flow = flow_to(body=body)
    exchange = await desk.send(flow)
    assert exchange
    assert (flow.response is None, flow.request.raw_content) == (otherwise == "allow", body)
    assert (exchange.decision.action, exchange.left) == (otherwise, None)


async def test_a_note_that_is_only_named_stays(desk_of: Callable[..., Any]) -> None:
    desk = await desk_of(STRIP)
    body = b'{"messages": [{"role": "user", "content": "See [[Tides]]."}]}'
    flow = flow_to(body=body)
    exchange = await desk.send(flow)
    assert exchange
    assert (flow.request.raw_content, exchange.decision.action, exchange.left) == (body, "allow", None)


async def test_the_name_that_is_left_counts_as_such(desk_of: Callable[..., Any]) -> None:
    desk = await desk_of(STRIP)
    flow = flow_to(body={"messages": [{"role": "user", "content": TIDES}, {"role": "user", "content": "[[Tides]]?"}]})
    exchange = await desk.send(flow)
    assert exchange
    assert [(one.by, one.note) for one in exchange.scan.sightings] == [("content", "vault/Tides.md")]
    assert [(one.by, one.note) for one in exchange.shared] == [("reference", "vault/Tides.md")]


# ---- rules that change


async def test_rules_that_withhold_from_now_on_wait_until_all_lines_are_known(desk_of: Callable[..., Any]) -> None:
    desk = await desk_of(text=f"{TIDES}PIN 4711\n")
    assert "vault/Tides.md" not in desk.note_library.snapshot.index.every_line
    desk.decide.rules = RuleBook((STRIP,))
    desk.note_library.reach(reach_of(desk.decide.rules))
    flow = flow_to(body={"messages": [{"role": "user", "content": f"{TIDES}PIN 4711"}]})
    await desk.send(flow)
    assert flow.request.raw_content == (
        rb'{"messages": [{"role": "user", "content": "[withheld]\n[withheld]\n[withheld]"}]}'
    )


async def test_until_then_the_rule_says_what_is_done(
    desk_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addons.scan.FIRST_SCAN_SECONDS", 0.0)
    desk = await desk_of()
    desk.decide.rules = RuleBook((STRIP,))
    desk.note_library.reach(reach_of(desk.decide.rules))
    flow = flow_to(body=ASKED)
    exchange = await desk.send(flow)
    assert exchange
    assert (exchange.decision.action, flow.response is not None) == ("block", True)


async def test_the_notes_of_the_scan_are_withheld_whatever_is_read_meanwhile(desk_of: Callable[..., Any]) -> None:
    ask = Rule("ask", When(client=("codex",)), "hold")

    async def while_asked(*_: Any) -> Any:
        desk.note_library.configure([type(desk.note_library.sources[0])([MemoryDocument("Other.md", "Nothing.")])])
        await desk.note_library.scan()
        return released

    released = Released("released")
    desk = await desk_of(ask, STRIP, hold=while_asked)
    flow = flow_to(body=ASKED)
    await desk.send(flow)
    assert flow.request.raw_content == SENT
    assert [node["id"] for node in desk.note_library.snapshot.map.nodes()] == ["vault/Other.md"]
