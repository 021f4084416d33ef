"""What of a request may go to a target: nothing that was meant for the original provider alone.

Headers and query parameters are allowed by name: what nobody has thought of stays out. The target gets its own key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memory.exchange import Protocol

type Headers = tuple[tuple[str, str], ...]
"""Names as they were written, each as often as it was."""

ALLOWED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-encoding",
        "content-type",
        "openai-beta",
        "user-agent",
    }
)
ALLOWED_PARAMETERS = frozenset({"$alt", "alt", "api-version", "beta", "fields", "prettyprint"})


class NoKeyError(Exception):
    """The target's own key is not there. The message says where it was looked for, and holds no key."""


def allowed_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Those that say how the request is to be read and answered, in their order."""
    return tuple((name, value) for name, value in headers if name.lower() in ALLOWED_HEADERS)


def allowed_query(query: str) -> str:
    """The query without `?`, less what is not allowed; each parameter that stays is as it was written."""
    kept = (one for one in query.split("&") if one.partition("=")[0].lower() in ALLOWED_PARAMETERS)
    return "&".join(kept)


def key_header(protocol: Protocol, variable: str | None, environ: Mapping[str, str]) -> Headers:
    """The header that carries the key of the environment variable in this protocol; none if there is no variable.

    Raises:
        NoKeyError: the variable is not set, or holds what cannot be in a header.

    """
    if variable is None:
        return ()
    key = environ.get(variable, "").strip()
    if not key:
        raise NoKeyError(f"the environment variable {variable} holds no key")
    if not (key.isascii() and key.isprintable()):
        raise NoKeyError(f"the environment variable {variable} holds characters that no key has")
    match protocol:
        case "anthropic":
            return (("x-api-key", key),)
        case "gemini":
            return (("x-goog-api-key", key),)
        case _:
            return (("authorization", f"Bearer {key}"),)
