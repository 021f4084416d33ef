"""The sample vault as plain lines, and a count of its own: what a request that carries certain lines should show.

Deliberately naive and independent of the suite's index: the demo compares the two, and fails where they differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memory.exchange import By

VAULT = Path(__file__).parent / "vault"
CLAUDE = VAULT.with_name("claude")
"""What Claude Code would remember of the same person's work."""
GRAPH = VAULT.with_name("memory.jsonl")
"""What an assistant with the MCP memory server would."""
SOURCE = "vault"
"""The name of the markdown source that the demo configures for `VAULT`: ids are `vault/projects/Pricing.md`."""

MINIMUM_LINE_LENGTH = 24
MOST_NOTES_PER_LINE = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """How one note should show up in one request: `matched` of `distinctive` lines; 0 matched for a mention."""

    by: By
    matched: int
    distinctive: int
    resent: bool = False


class SampleVault:
    """Every note's text by its path in the vault (`projects/Pricing.md`), and which of its lines tell it apart."""

    def __init__(self, folder: Path = VAULT) -> None:
        self.folder = folder
        self.texts = {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*.md"))
        }
        fitting = {
            path: {line for line in map(collapse, text.split("\n")) if len(line) >= MINIMUM_LINE_LENGTH}
            for path, text in self.texts.items()
        }
        self.distinctive = {
            path: {line for line in lines if sum(line in others for others in fitting.values()) <= MOST_NOTES_PER_LINE}
            for path, lines in fitting.items()
        }

    def lines(self, path: str) -> list[str]:
        return self.texts[path].removesuffix("\n").split("\n")

    def expect(
        self,
        sent: Iterable[str],
        *,
        quoted: Iterable[str] = (),
        mentioned: Iterable[str] = (),
        resent: Iterable[str] = (),
    ) -> dict[str, Expected]:
        """By note id. `sent`: the notes' own lines in the request; `quoted` (a sentence, not a whole line), `mentioned`,
        `resent`: paths in the vault.

        A line that two or three notes share credits each of them. A note found by content is not also a mention.
        """
        carried = {collapse(line) for line in sent}
        parts, names, again = set(quoted), set(mentioned), set(resent)
        found: dict[str, Expected] = {}
        for path, lines in self.distinctive.items():
            matched = len(lines & carried)
            if matched or path in parts | names:
                by: By = "content" if matched or path in parts else "reference"
                found[f"{SOURCE}/{path}"] = Expected(by, matched, len(lines), resent=path in again)
        return found


def collapse(line: str) -> str:
    return " ".join(line.split())
