"""docs/conversations.md shows a transcript as it is written, and names what is masked and what is left out."""

from __future__ import annotations

import re
from pathlib import Path

from memory.conversations.failures import FIRST_PAUSE, LONGEST_PAUSE
from memory.conversations.known import MOST_CONVERSATIONS
from memory.conversations.messages import _TAGS
from memory.conversations.sessions import Limits
from memory.conversations.summarising import LARGEST, LARGEST_OWN
from memory.conversations.summary_calls import ANSWER_SECONDS
from memory.conversations.transcript import LONGEST_SUMMARY
from tests.memory.conversations.talk import READ, Talk, assistant, tool, user

TEXT = (Path(__file__).parents[3] / "docs" / "conversations.md").read_text("utf-8")


def test_the_transcript_is_what_is_written(tmp_path: Path) -> None:
    with Talk(tmp_path) as talk:
        asked = [user("Where is the key?"), assistant("I look it up.", READ), tool("# Keys\nIn the blue box.")]
        talk.say(asked[:1], asked[1])
        talk.say(asked, assistant("In the blue box."))
        recorded = talk.say([user("# Eggs\n\nHow long?")], assistant("Six minutes."))
        assert recorded is not None
        shown = re.findall(r"^```markdown\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]
        assert recorded.path.read_text().strip() == shown.strip().replace("2026-11-30T041233Z-k3f9", recorded.session)


def test_what_is_left_out_is_named() -> None:
    assert all(f"`<{tag}>`" in TEXT for tag in _TAGS)
    assert f"first {LONGEST_SUMMARY} characters" in TEXT
    assert f"last {MOST_CONVERSATIONS:,} conversations" in TEXT
    limits = Limits()
    assert f"({limits.inactivity.seconds // 3600} hours without a turn)" in TEXT
    assert f"`max_session` ({limits.longest.seconds // 3600} hours)" in TEXT


def test_the_numbers_of_summaries_are_the_codes_own() -> None:
    assert f"{LARGEST:,} characters at a\n  time, {LARGEST_OWN:,} to a server" in TEXT
    assert f"An answer may take {ANSWER_SECONDS / 60:.0f} minutes" in TEXT
    assert FIRST_PAUSE.total_seconds() == 60
    assert f"up to {LONGEST_PAUSE.total_seconds() / 3600:.0f} hours, also over restarts" in TEXT
