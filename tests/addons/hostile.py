"""What the tests of bad input share: an answer as Anthropic streams it, a client that keeps what came, and the entry."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.harness import SuiteProcess
from tests.own_time import patience

URL = "https://api.anthropic.com/v1/messages"
SECONDS = 60
"""How long anything may take before a test gives up."""


def event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more}, ensure_ascii=False)}\n\n".encode()


def begun(count: int = 12) -> bytes:
    """The first event of an answer to a request of `count` tokens."""
    usage = {"input_tokens": count, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "tide-1", "content": [], "usage": usage}
    return event("message_start", message=message) + event(
        "content_block_start", index=0, content_block={"type": "text", "text": ""}
    )


def said(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def ended(count: int = 7) -> bytes:
    """The last events of an answer of `count` tokens."""
    stop = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": count})
    return event("content_block_stop", index=0) + stop + event("message_stop")


WHOLE = begun() + said("The tide turns at noon. 🌊") + ended()
DOCUMENT = json.dumps(
    {"id": "msg_1", "type": "message", "role": "assistant", "usage": {"input_tokens": 12, "output_tokens": 7}}
).encode()


def usage(given: int | None = None, answered: int | None = None) -> dict[str, int | None]:
    """The usage of an activity entry."""
    return {"input": given, "output": answered, "cacheRead": None, "cacheWrite": None}


ALL, START, UNKNOWN = usage(12, 7), usage(12, 1), usage()


def question(model: str, **more: Any) -> bytes:
    """A request. Its model is its name: by it the upstream knows what to do, and the test finds the entry."""
    return json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "When is high tide?"}], **more}
    ).encode()


def asked_for(body: bytes) -> str:
    return str(json.loads(body)["model"]) if body else ""


class OnlyHTTP2(ssl.SSLContext):
    """The client library would rather speak HTTP/1.1, and mitmproxy takes the client's first choice."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        super().set_alpn_protocols(["h2"])


def client_of(suite: SuiteProcess, *, http2: bool, offers_both: bool = False) -> httpx.AsyncClient:
    """`offers_both`: it would speak HTTP/2 too, and so mitmproxy may speak that to the server."""
    context = (OnlyHTTP2 if http2 else ssl.SSLContext)(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(suite.ca)
    headers = {"content-type": "application/json", "user-agent": "tester/1"}
    return httpx.AsyncClient(
        proxy=suite.proxy, verify=context, http2=http2 or offers_both, timeout=SECONDS, headers=headers
    )


@dataclass
class Got:
    """What a client got. Not `whole`: the answer broke off, and the client knows it."""

    status: int = 0
    data: bytes = b""
    whole: bool = False
    headers: httpx.Headers | None = None
    version: str = ""


async def ask(
    client: httpx.AsyncClient,
    body: bytes | None,
    *,
    url: str = URL,
    method: str = "POST",
    seen: Callable[[bytes], object] = lambda _: None,
) -> Got:
    """Ask, and keep the bytes as they come; `seen` is called with all of them after each piece."""
    got = Got()
    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
        async with client.stream(method, url, content=body) as response:
            got.status, got.headers, got.version = response.status_code, response.headers, response.http_version
            seen(b"")
            async for piece in response.aiter_raw():
                got.data += piece
                seen(got.data)
            got.whole = True
    return got


async def entry_of(suite: SuiteProcess, model: str) -> dict[str, Any]:
    """The one entry of a request, once it has its outcome."""
    deadline = time.monotonic() + SECONDS * patience()
    while True:
        answer = await asyncio.to_thread(suite.api, f"api/activity?model={model}&limit=10")
        entries = answer.body["entries"]
        if entries and all(entry["outcome"] for entry in entries):
            assert len(entries) == 1, entries
            found: dict[str, Any] = entries[0]
            return found
        assert time.monotonic() < deadline, f"{model}: {entries}\n{suite.log}"
        await asyncio.sleep(0.05)


def tells(entry: dict[str, Any]) -> tuple[Any, ...]:
    """What an entry says of the answer: status, outcome, usage, bytes."""
    return entry["status"], entry["outcome"], entry["usage"], entry["bytes"]["response"]


class Memory:
    """The most memory that a process has taken since this was made; None where the system does not tell."""

    def __init__(self, process: int) -> None:
        self._folder = Path("/proc") / str(process)
        self._before = self._kilobytes("VmRSS")
        with suppress(OSError):
            (self._folder / "clear_refs").write_text("5")  # forgets the peak so far

    def grown(self) -> int | None:
        """Megabytes above what it took at the beginning."""
        peak = self._kilobytes("VmHWM")
        return None if peak is None or self._before is None else (peak - self._before) // 1024

    def _kilobytes(self, name: str) -> int | None:
        try:
            lines = (self._folder / "status").read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
