"""What the dashboard may not widen unless `dashboard.allow_process_settings` is on (dashboard.md, "Protection"). Pure.

Whoever gets hold of the dashboard, by its token or through a browser, shall not be able to have other files of this
machine read, or code run: what is read is said in mitm.yaml, by whoever may write that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from addons.config import SourceConfig
from memory.sources import KINDS

HOW = "add it to mitm.yaml by hand, or set dashboard.allow_process_settings to true there and restart mitmemory"


def refused(
    before: Sequence[SourceConfig], after: Sequence[SourceConfig], places: Mapping[str, Path | None]
) -> str | None:
    """Why these sources may not take the place of those; None: they may.

    A source may be renamed, switched on and off, and read less of. `places` are those of the kinds that need not name
    one: a source for such a kind at its own place may always be added.
    """
    for source in after:
        same_place = [one for one in before if (one.kind, one.path) == (source.kind, source.path)]
        if not same_place and source.path == places.get(source.kind):
            same_place.append(SourceConfig(source.name, source.kind, source.path))
        if why := None if same_place else _new_place(source, before):
            return why
        if any(_reads_no_more(source, one) for one in same_place):
            continue
        if any(_extends_no_further(source, one) for one in same_place):
            return f"{source.name} would leave out less than mitm.yaml says: {_by_hand('exclude')}"
        return f"{source.name} would read files of further types: {_by_hand('extensions')}"
    return None


def _new_place(source: SourceConfig, before: Sequence[SourceConfig]) -> str:
    if source.kind not in KINDS:
        return f"{source.name} would run the class {source.kind} in mitmemory: {HOW}"
    if any(one.name.lower() == source.name.lower() for one in before):
        return f"{source.name} would read another place than mitm.yaml says: {_by_hand('path')}"
    return f"{source.name} would have mitmemory read a place that mitm.yaml does not name: {HOW}"


def _by_hand(key: str) -> str:
    return f"change its {key} in mitm.yaml by hand, or set dashboard.allow_process_settings to true there and restart mitmemory"


def _reads_no_more(new: SourceConfig, old: SourceConfig) -> bool:
    return _extends_no_further(new, old) and _leaves_out_no_less(new.exclude, old.exclude)


def _extends_no_further(new: SourceConfig, old: SourceConfig) -> bool:
    return {one.lower() for one in new.extensions} <= {one.lower() for one in old.extensions}


def _leaves_out_no_less(new: Sequence[str], old: Sequence[str]) -> bool:
    """Whether the new patterns are the old ones in their order, with none among them that takes something in again.

    The last pattern that matches decides, so that one more without `!` can only leave out more, wherever it stands.
    """
    left = list(old)
    for pattern in new:
        if left and pattern == left[0]:
            del left[0]
        elif pattern.strip().startswith("!"):
            return False
    return not left
