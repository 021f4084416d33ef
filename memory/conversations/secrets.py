"""Masks what looks like a key or a password, before a transcript holds it (`conversations.redact_secrets`).

Pure. The beginning that says what kind of key it was stays: `sk-ant-…` becomes `sk-ant-[masked]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MASK = "[masked]"
MOST_PASSES = 5
"""What stands beside a mask may be a secret by its new neighbour: then it is looked at again."""

_KEYS = (
    r"sk-ant-(?=[\w-]{16})",
    r"sk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]{16})",
    r"[sr]k_(?:live|test)_(?=\w{16})",
    r"(?:AKIA|ASIA)(?=[A-Z0-9]{16}\b)",
    r"gh[pousr]_(?=\w{30})",
    r"github_pat_(?=\w{22})",
    r"glpat-(?=[\w-]{20})",
    r"AIza(?=[\w-]{30})",
    r"xox[abprs]-(?=[\w-]{10})",
    r"hf_(?=[A-Za-z0-9]{30})",
    r"npm_(?=[A-Za-z0-9]{36})",
    r"pypi-(?=[\w-]{40})",
    r"eyJ(?=[\w-]{10,2000}\.eyJ[\w-]{10})",  # a JSON Web Token
)
_KEY = re.compile(rf"(?<![\w-])(?P<kept>{'|'.join(_KEYS)})[\w.-]+")
_KEY_SIGNS = (
    *("sk-", "k_live_", "k_test_", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("AIza", "xox", "hf_", "npm_", "pypi-", "eyJ"),
)
_BLOCK = re.compile(
    r"(?P<kept>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?! ?[\"']?\[masked\])(?:(?!-----BEGIN )[\s\S]){0,20000}?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_SCHEME = re.compile(
    r"(?P<kept>\bBearer[ \t]{1,9})(?=[\w.~+/=-]{16})[\w.~+/=-]+"
    r"|(?P<basic>\bAuthorization[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?Basic[ \t]{1,9})[\w+/=-]{8,}",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?P<kept>(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token)"
    r"[\"']?[ \t]{0,9}[=:][ \t]{0,9})"
    r"(?:\"[^\"\n]{6,500}\"|'[^'\n]{6,500}'|[^\s\"'`,;<>&(){}\[\]$]{6,500}(?![\w(\[]))",
    re.IGNORECASE,
)
_NAMES = (
    *("password", "passwd", "passphrase", "secret"),
    *(
        f"{kind}{between}{what}"
        for kind, what in (("api", "key"), ("access", "key"), ("auth", "token"), ("access", "token"))
        for between in ("", "_", "-")
    ),
)
_URL = re.compile(r"(?P<kept>://[^\s/:@]{0,100}:)[^\s/:@]{3,200}(?=@)")


def mask(text: str) -> str:
    """The text with each secret masked; it can be masked again without a change.

    To look for the signs first makes it cheap: nearly all texts have none of most.
    """
    for _ in range(MOST_PASSES):
        masked = _mask(text)
        if masked == text:
            break
        text = masked
    return text


def _mask(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = _BLOCK.sub(_masked, text)
    if any(sign in text for sign in _KEY_SIGNS):
        text = _KEY.sub(_masked, text)
    if "://" in text:
        text = _URL.sub(_masked, text)
    lower = text.lower()
    if "bearer" in lower or "authorization" in lower:
        text = _SCHEME.sub(_masked, text)
        lower = text.lower()
    if len(lower) != len(text):  # a letter that has no small one of the same length: places differ
        return _NAMED.sub(_masked, text)
    return _without_named(text, sorted({place for name in _NAMES for place in _places(lower, name)}))


def _places(text: str, name: str) -> Iterator[int]:
    at = text.find(name)
    while at >= 0:
        yield at
        at = text.find(name, at + 1)


def _without_named(text: str, starts: Iterable[int]) -> str:
    """To look at these places only is far quicker than to have each place looked at."""
    kept: list[str] = []
    at = 0
    for start in starts:
        if start >= at and (match := _NAMED.match(text, start)) is not None:
            kept += [text[at:start], _masked(match)]
            at = match.end()
    return "".join((*kept, text[at:])) if kept else text


def _masked(match: re.Match[str]) -> str:
    kept = next(found for found in match.groups() if found is not None)
    quote = match[0][len(kept) : len(kept) + 1]
    return f"{kept}{quote}{MASK}{quote}" if quote in {'"', "'"} else f"{kept}{MASK}"
