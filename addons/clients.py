"""Which program sent a request, told by its User-Agent. A hint: another local program can send the same."""

from __future__ import annotations

import re

# The start of a User-Agent (lower case) and the name of the client that sends it (as the clients send it today).
_FAMILIES = (
    ("claude-cli/", "claude-code"),
    ("claude-code/", "claude-code"),
    ("codex", "codex"),
    ("geminicli", "gemini-cli"),
    ("openai/python", "openai-python"),
    ("asyncopenai/python", "openai-python"),
    ("anthropic/python", "anthropic-python"),
    ("asyncanthropic/python", "anthropic-python"),
    ("openai/js", "openai-js"),
    ("anthropic/js", "anthropic-js"),
    ("google-genai-sdk/", "google-genai"),
    ("mozilla/", "browser"),
)


def client_of(user_agent: str) -> str:
    """The slug of the client: a known family, else the product's name, else `unknown`.

    >>> client_of("claude-cli/2.1.197 (external, sdk-cli)"), client_of("curl/8.5.0"), client_of("")
    ('claude-code', 'curl', 'unknown')
    """
    start = user_agent.strip().lower()
    for prefix, client in _FAMILIES:
        if start.startswith(prefix):
            return client
    product = re.split(r"[/\s(]", start, maxsplit=1)[0]
    return re.sub(r"[^a-z0-9]+", "-", product).strip("-")[:40] or "unknown"
