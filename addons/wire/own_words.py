"""What a person wrote in a message of the user's role, without what the client put around it by itself.

Claude Code 2.1, Codex 0.171, Gemini CLI 0.61, as they send it: blocks in tags of their own, each on lines of its own; and a
few that begin and end with a sentence.
"""

from __future__ import annotations

_DROPPED = (
    # Claude Code
    "system-reminder",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "task-notification",
    "user-prompt-submit-hook",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-stdout",
    "bash-stderr",
    "persisted-output",
    "command-message",  # the name of the command once more
    # Codex
    "environment_context",
    "user_instructions",
    "INSTRUCTIONS",
    "skills_instructions",
    "apps_instructions",
    "plugins_instructions",
    "recommended_plugins",
    "collaboration_mode",
    "model_switch",
    "personality_spec",
    "realtime_conversation",
    "subagent_notification",
    "turn_aborted",
    # Gemini CLI
    "session_context",
    "hook_context",
)
_UNWRAPPED = ("command-name", "command-args", "bash-input", "user-memory-input")
"""Around what the person typed: a command of Claude Code, its arguments, a line for the shell or for its memory."""

_FILES, _END_OF_FILES = "--- Content from referenced files ---", "--- End of content ---"
"""Gemini CLI puts the files there that the person named with `@`."""
_PROJECT = "# AGENTS.md instructions"
"""The heading above Codex's `<INSTRUCTIONS>`."""
_EDITOR, _REQUEST = "# Context from my IDE setup:", "## My request for Codex:"


def own_words(text: str) -> str:
    r"""The person's own words in `text`: all of it, or what is left without such blocks; empty where nothing is.

    >>> own_words("<system-reminder>\nToday is Monday.\n</system-reminder>\nHow long is the jetty?")
    'How long is the jetty?'
    >>> own_words("What is a <system-reminder> for?")
    'What is a <system-reminder> for?'
    """
    words = _unpacked(text)
    return words if words == text else words.strip()


def _unpacked(text: str) -> str:
    if text.startswith(_EDITOR) and _REQUEST in text:
        text = text.partition(_REQUEST)[2]
    if text.startswith(_PROJECT) and "\n<INSTRUCTIONS>" in text:
        text = text[text.index("\n<INSTRUCTIONS>") :]
    if "</" in text:
        for tag in _DROPPED:
            text = _without(text, f"<{tag}>", f"</{tag}>")
        for tag in _UNWRAPPED:
            text = text.replace(f"<{tag}>", "").replace(f"</{tag}>", "")
    return _without(text, _FILES, _END_OF_FILES)


def _without(text: str, begin: str, end: str) -> str:
    """The text without what stands between `begin`, at the start of a line, and the next `end`. Each character is looked
    at once: a text may be nothing but beginnings.
    """
    kept: list[str] = []
    at = look = 0
    while (start := text.find(begin, look)) != -1:
        if start and text[start - 1] != "\n":
            look = start + len(begin)
            continue
        stop = text.find(end, start)
        if stop == -1:
            break
        kept.append(text[at:start])
        at = look = stop + len(end)
    return "".join([*kept, text[at:]]) if kept else text
