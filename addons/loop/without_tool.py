"""What is sent once more where a provider refuses the tool."""

from __future__ import annotations

from bisect import bisect_left

from addons.loop.dialect import Offered


def without_tool(offered: Offered, sent: str) -> str | None:
    """What was `sent`, where notes may have been withheld or the model named otherwise, without the tool.

    None: it would be the same, or it cannot be told.
    """
    if offered.without_tool is None:
        return None
    start = _alike(offered.text, offered.without_tool)
    put_in, instead = offered.text[start:], offered.without_tool[start:]
    if rest := _alike(put_in[::-1], instead[::-1]):
        put_in, instead = put_in[:-rest], instead[:-rest]
    return sent.replace(put_in, instead) if put_in and sent.count(put_in) == 1 else None


def _alike(one: str, other: str) -> int:
    """With how many of the same characters they begin."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda at: one[: at + 1] != other[: at + 1])
