"""The endpoints under `api/`: the map, the activity, the status. None gives note text."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import ETag, web

from memory.activity import LARGEST_PAGE, Activity
from memory.activity_export import BODIES, HEADS, ExportFormat
from memory.exchange import timestamp
from memory.exposure import Exposure
from memory.note_library import NoteLibrary, Snapshot
from memory.note_map import NoteMap
from memory.since import parse_since
from web.access import Access
from web.errors import Refusal
from web.events import EventHub
from web.guard import READS, role_of

GZIP_LEVEL = 1
"""The way is short: a higher level costs more time than its fewer bytes save."""
AT_ONCE = 250
"""Notes or links that are encoded without a break: less than 1 ms."""
DEFAULT_PAGE = 100
ACTIVITY_PARAMETERS = frozenset({"before", "limit", "note", "client", "model", "notes"})
EXPORT_PARAMETERS = frozenset({"format", "since"})
EXPORT_TYPES: dict[ExportFormat, str] = {"csv": "text/csv", "jsonl": "application/jsonl"}


@dataclass(frozen=True, slots=True)
class EncodedMap:
    """The body of `GET api/memory`, ready to send."""

    plain: bytes
    gzipped: bytes
    tag: str

    @classmethod
    def of(cls, *members: bytes) -> EncodedMap:
        """Put together from what stands between the braces of JSON objects."""
        plain = b"{" + b",".join(members) + b"}"
        tag = hashlib.blake2b(plain, digest_size=16).hexdigest()
        return cls(plain, gzip.compress(plain, GZIP_LEVEL, mtime=0), tag)


class MapApi:
    """The map and its sharing counts. Encoded in a thread and sent from memory until something changes.

    Notes and links, by far the most of it, are encoded once per map: a scan that finds nothing new keeps the map.
    Pages that are open ask for each change at once, so it is encoded before they are told of it. While none is open, a
    change costs nothing, and the first who asks waits for it.
    """

    def __init__(self, library: NoteLibrary, exposure: Exposure, events: EventHub) -> None:
        self._library = library
        self._exposure = exposure
        self._events = events
        self._encoding = asyncio.Lock()
        self._telling = asyncio.Lock()
        self._told: set[asyncio.Task[None]] = set()
        self._map: tuple[NoteMap, bytes] | None = None
        self._encoded: tuple[Snapshot, dict[str, Any], EncodedMap] | None = None

    async def get(self, request: web.Request) -> web.Response:
        """`GET api/memory`: `{loadedAt, sources[], nodes[], links[], exposure{}}`; scans first if nothing was."""
        if self._library.snapshot.loaded_at is None:
            await self._library.scan()
        encoded = await self._encode()
        response = web.Response(content_type="application/json", charset="utf-8")
        # Weak: the same tag stands for the gzipped and the plain body.
        response.etag = ETag(encoded.tag, is_weak=True)
        response.headers["Vary"] = "Accept-Encoding"
        if request.method in READS and any(tag.value in (encoded.tag, "*") for tag in request.if_none_match or ()):
            response.set_status(304)
            return response
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            response.headers["Content-Encoding"] = "gzip"
            response.body = encoded.gzipped
        else:
            response.body = encoded.plain
        return response

    async def refresh(self, request: web.Request) -> web.Response:
        """`POST api/memory/refresh`: rescan every source now, then as `get`."""
        await read_object(request)
        await self._library.scan()
        return await self.get(request)

    async def reset_exposure(self, request: web.Request) -> web.Response:
        """`POST api/memory/exposure/reset`: forget the sharing counts."""
        await read_object(request)
        self._exposure.reset()
        await self._tell("reset", self._library.snapshot)
        return web.json_response({"exposure": {}})

    def tell_change(self, snapshot: Snapshot) -> None:
        """What the library calls when a scan changed the map."""
        task = asyncio.get_running_loop().create_task(self._tell("refresh", snapshot), name="encoding of the map")
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def aclose(self) -> None:
        """Nobody is told any more of what changed last."""
        for task in self._told:
            task.cancel()
        if self._told:
            await asyncio.wait(self._told)

    async def _tell(self, reason: str, snapshot: Snapshot) -> None:
        """Make ready what the readers will ask for, and tell them; one change after the other."""
        async with self._telling:
            if self._events.readers:
                await self._encode()
            self._events.publish("map", {"reason": reason, "loadedAt": _time(snapshot)})

    async def _encode(self) -> EncodedMap:
        async with self._encoding:
            snapshot, exposure = self._library.snapshot, self._exposure.to_json()
            if self._encoded and self._encoded[0] is snapshot and self._encoded[1] == exposure:
                return self._encoded[2]
            if self._map is None or self._map[0] is not snapshot.map:
                self._map = snapshot.map, await asyncio.to_thread(_encode_map, snapshot.map)
            head = _members({"loadedAt": _time(snapshot), "sources": [one.to_json() for one in snapshot.sources]})
            tail = _members({"exposure": exposure})
            encoded = await asyncio.to_thread(EncodedMap.of, head, self._map[1], tail)
            self._encoded = snapshot, exposure, encoded
            return encoded


class ActivityApi:
    """Past exchanges, newest first."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    async def get(self, request: web.Request) -> web.Response:
        """`GET api/activity`: `{entries[], next}`; `next` is the `before` of the page after this one."""
        query = request.query
        _check_parameters(query, ACTIVITY_PARAMETERS)
        if query.get("notes", "only") != "only":
            raise Refusal(400, "bad_request", "notes can only be 'only'; leave it out for all exchanges")
        entries, following = await self._activity.page(
            before=query.get("before"),
            limit=_page_size(query.get("limit")),
            note=query.get("note"),
            client=query.get("client"),
            model=query.get("model"),
            notes_only="notes" in query,
        )
        return web.json_response({"entries": entries, "next": following})

    async def export(self, request: web.Request) -> web.StreamResponse:
        """`GET api/activity/export`: all of it as a file, oldest first, in pieces as it is read."""
        query = request.query
        _check_parameters(query, EXPORT_PARAMETERS)
        kind = _export_format(query.get("format", "jsonl"))
        since = _since(query["since"]) if "since" in query else None
        response = web.StreamResponse()
        response.content_type, response.charset = EXPORT_TYPES[kind], "utf-8"
        name = f"mitmemory-activity-{datetime.now(UTC):%Y%m%d-%H%M%S}.{kind}"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        await response.write(HEADS[kind]().encode())
        try:
            async with aclosing(self._activity.export(since)) as chunks:
                async for entries in chunks:
                    await response.write((await asyncio.to_thread(BODIES[kind], entries)).encode())
        except ConnectionError:
            raise  # whoever asked has left
        except Exception:  # it has begun: cutting it off is all that is left to say that it is not whole
            logging.getLogger(__name__).exception("the export of the activity broke off")
            if request.transport is not None:
                request.transport.abort()
        return response


class StatusApi:
    """How the suite is doing, and what the one who asks may do."""

    def __init__(self, status: Callable[[], dict[str, Any]], access: Access, events: EventHub) -> None:
        self._status = status
        self._access = access
        self._events = events

    async def get(self, request: web.Request) -> web.Response:
        """`GET api/status`: what the suite says of itself, with `role` and the event readers."""
        events = {
            "readers": self._events.readers,
            "published": self._events.published,
            "dropped": self._events.dropped,
        }
        return web.json_response(self._status() | {"role": role_of(request, self._access), "events": events})


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request's body; an empty body is `{}`. Raises `Refusal` 400, and aiohttp's 413."""
    body = await request.read()
    if not body:
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "bad_json", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise Refusal(400, "bad_json", "the body must be a JSON object")
    return value


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip (RFC 9110, 12.5.3); its own entry goes before `*`."""
    weights: dict[str, bool] = {}
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        quality = parameters.strip().removeprefix("q=").strip()
        weights[coding.strip()] = not (quality and not quality.strip("0."))
    return weights.get("gzip", weights.get("*", False))


def _check_parameters(query: Iterable[str], known: frozenset[str]) -> None:
    if unknown := sorted(set(query) - known):
        raise Refusal(400, "bad_request", f"there is no parameter {unknown[0]!r} here")


def _export_format(text: str) -> ExportFormat:
    for kind in EXPORT_TYPES:
        if text == kind:
            return kind
    raise Refusal(400, "bad_request", f"format can only be {' or '.join(EXPORT_TYPES)}")


def _since(text: str) -> datetime:
    try:
        return parse_since(text, datetime.now(UTC))
    except ValueError as error:
        raise Refusal(400, "bad_request", str(error)) from None


def _page_size(text: str | None) -> int:
    if text is None:
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= LARGEST_PAGE):
        raise Refusal(400, "bad_request", f"limit must be a number from 1 to {LARGEST_PAGE}")
    return int(text)


def _time(snapshot: Snapshot) -> str | None:
    return timestamp(snapshot.loaded_at) if snapshot.loaded_at else None


def _encode_map(note_map: NoteMap) -> bytes:
    return b'"nodes":[%b],"links":[%b]' % (_items(note_map.each_node()), _items(note_map.each_link()))


def _items(values: Iterable[Any]) -> bytes:
    """A JSON array without its brackets. In pieces: no other thread runs while one is encoded."""
    return b",".join(_encode(piece)[1:-1] for piece in itertools.batched(values, AT_ONCE))


def _members(value: dict[str, Any]) -> bytes:
    """The JSON object `value` without its braces."""
    return _encode(value)[1:-1]


def _encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # half of a surrogate pair, as in the name of a file that is no UTF-8
        return json.dumps(value, separators=(",", ":")).encode()
