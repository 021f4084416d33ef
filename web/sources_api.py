"""`api/memory/sources`: where the notes are, as mitm.yaml says it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from web.api import read_object
from web.errors import Refusal
from web.settings import NotChangedError, Settings

KEYS = ("name", "kind", "path", "exclude", "extensions", "enabled")
MOST_SOURCES = 100
LONGEST_TEXT = 4096
MOST_PATTERNS = 1000


class SourcesApi:
    """The list of sources, read and written as a whole."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def get(self, _: web.Request) -> web.Response:
        """`GET api/memory/sources`: `{sources[], version, file, allowProcessSettings, claudeCode}`."""
        try:
            return web.json_response(await self._settings.sources())
        except NotChangedError as error:
            raise refusal_of(error) from None

    async def put(self, request: web.Request) -> web.Response:
        """`PUT api/memory/sources` `{sources, version?}`: write the whole list; gives what `get` gives then."""
        body = await read_object(request)
        if unknown := sorted(set(body) - {"sources", "version"}):
            raise Refusal(400, "bad_request", f"there is no {unknown[0]!r} here: send sources, and version")
        version = body.get("version")
        if version is not None and not isinstance(version, str):
            raise Refusal(400, "bad_request", "version must be the text that GET api/memory/sources gave")
        try:
            return web.json_response(await self._settings.change_sources(_sources(body.get("sources")), version))
        except NotChangedError as error:
            raise refusal_of(error) from None


def refusal_of(error: NotChangedError) -> Refusal:
    message = str(error)
    match error.cause:
        case "invalid":
            return Refusal(400, "bad_request", message)
        case "refused":
            return Refusal(403, "process_settings", message)
        case "unknown":
            return Refusal(404, "not_found", message)
        case "changed":
            return Refusal(409, "changed", message)
        case "unwritable":
            return Refusal(409, "not_writable", message)


def _sources(value: object) -> list[dict[str, Any]]:
    """Checks the shapes; what the values say is for the checks of mitm.yaml."""
    if not isinstance(value, list) or len(value) > MOST_SOURCES:
        raise Refusal(400, "bad_request", f"sources must be a list of at most {MOST_SOURCES}, all that there shall be")
    return [_source(f"sources[{number}]", one) for number, one in enumerate(value)]


def _source(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(400, "bad_request", f"{where} must be an object with {', '.join(KEYS)}")
    if unknown := sorted(set(value) - set(KEYS)):
        raise Refusal(400, "bad_request", f"{where} has no {unknown[0]!r}: the keys are {', '.join(KEYS)}")
    if not isinstance(value.get("enabled", True), bool):
        raise Refusal(400, "bad_request", f"{where}.enabled must be true or false")
    path = value.get("path")
    return {
        "name": _text(f"{where}.name", value.get("name")),
        "kind": _text(f"{where}.kind", value.get("kind")),
        "path": None if path is None else _text(f"{where}.path", path),
        "exclude": _texts(f"{where}.exclude", value.get("exclude", [])),
        "extensions": _texts(f"{where}.extensions", value.get("extensions", [])),
        "enabled": value.get("enabled", True),
    }


def _texts(where: str, value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MOST_PATTERNS:
        raise Refusal(400, "bad_request", f"{where} must be a list of texts, at most {MOST_PATTERNS}")
    return [_text(f"{where}[{number}]", one) for number, one in enumerate(value)]


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise Refusal(400, "bad_request", f"{where} must be text, at most {LONGEST_TEXT} characters")
    return value
