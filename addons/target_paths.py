"""Where a protocol's requests go at a target, whatever path they have at the provider that they were meant for."""

from __future__ import annotations

import re
from urllib.parse import quote

from addons.wire import bare_path
from memory.exchange import Protocol

_TAILS: dict[Protocol, re.Pattern[str]] = {
    "anthropic": re.compile(r"(/v1/messages(?:/count_tokens)?)$"),
    "openai-chat": re.compile(r"(/chat/completions)$"),
    "openai-responses": re.compile(r"(/responses(?:/compact|/input_tokens)?)$"),
    "ollama": re.compile(r"(/api/(?:chat|generate))$"),
}
_VERSION = re.compile(r"v\d+[a-z0-9]*")


def path_at_target(protocol: Protocol, path: str, prefix: str, model: str | None) -> str | None:
    """The path, without query, of a request that has `path` at its provider; None: a target could not understand it.

    `prefix` is the path of the target's own URL. One that ends in a version (`/v1`), as many programs want to be told
    it, stands for the version that the protocol's path begins with. `model` is named in the path where the protocol
    names it there; None: as it was.
    """
    found = _protocols_path(protocol, bare_path(path), model)
    if found is None:
        return None
    if _VERSION.fullmatch(prefix.rpartition("/")[2]):
        first, slash, rest = found.removeprefix("/").partition("/")
        if _VERSION.fullmatch(first):
            found = slash + rest
    return prefix + found


def _protocols_path(protocol: Protocol, path: str, model: str | None) -> str | None:
    if protocol == "gemini":
        return _gemini(path, model)
    if protocol == "bedrock":
        named, slash, operation = path.partition("/model/")[2].rpartition("/")
        return f"/model/{quote(model, safe='') if model else named}/{operation}" if slash else None
    tail = _TAILS.get(protocol)
    found = tail.search(path) if tail else None
    if found is None:
        return None
    return f"/v1{found[1]}" if protocol.startswith("openai") else found[1]


def _gemini(path: str, model: str | None) -> str | None:
    """The wrapper of Code Assist (`/v1internal:…`) is spoken by nobody else, and Vertex has longer paths."""
    before, _, last = path.rpartition("/")
    before, _, kind = before.rpartition("/")
    named, colon, method = last.rpartition(":")
    if not colon or kind not in {"models", "tunedModels"}:
        return None
    version = before.removeprefix("/")
    if not _VERSION.fullmatch(version):
        version = "v1beta"
    return f"/{version}/models/{quote(model, safe='')}:{method}" if model else f"/{version}/{kind}/{named}:{method}"
