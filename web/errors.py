"""How the API says no: `{"error": {"code", "message"}}` with a fitting status (design.md, "The API")."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    411: "length_required",
    413: "too_large",
    417: "expectation_failed",
    503: "unavailable",
}
"""The codes of statuses that aiohttp answers with by itself."""

MESSAGES = {
    404: "there is nothing here",
    405: "this address does not take that method",
    413: "the body is larger than this address takes",
}


class Refusal(Exception):  # noqa: N818 - a request that is refused is no error of ours
    """A request that gets no for an answer. `code` is for programs, `message` tells a person what to do."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers

    def response(self) -> web.Response:
        body = {"error": {"code": self.code, "message": self.message}}
        return web.json_response(body, status=self.status, headers=self.headers)


def refusal_of(error: web.HTTPException) -> Refusal:
    """What aiohttp raised by itself, in our words; the headers that belong to the status are kept."""
    code = CODES.get(error.status, HTTPStatus(error.status).phrase.lower().replace(" ", "_"))
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    return Refusal(error.status, code, MESSAGES.get(error.status, error.reason.lower()), headers)
