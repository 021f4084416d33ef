"""A User-Agent names its client."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addons.clients import client_of


@pytest.mark.parametrize(
    ("user_agent", "client"),
    [
        # as the real programs send them
        ("claude-cli/2.1.197 (external, sdk-cli)", "claude-code"),
        ("codex_exec/0.171.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.171.0)", "codex"),
        ("GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)", "gemini-cli"),
        # of the same families
        ("claude-code/2.1.197", "claude-code"),
        ("codex_cli_rs/0.171.0", "codex"),
        ("GeminiCLI/0.61.0", "gemini-cli"),
        ("OpenAI/Python 2.8.1", "openai-python"),
        ("AsyncOpenAI/Python 2.8.1", "openai-python"),
        ("Anthropic/Python 0.75.0", "anthropic-python"),
        ("AsyncAnthropic/Python 0.75.0", "anthropic-python"),
        ("OpenAI/JS 6.9.0", "openai-js"),
        ("Anthropic/JS 0.70.0", "anthropic-js"),
        ("google-genai-sdk/1.52.0 gl-python/3.12.1", "google-genai"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "browser"),
        # of no family that is known
        ("curl/8.5.0", "curl"),
        ("python-requests/2.32.5", "python-requests"),
        ("My Program/1.0", "my"),
        ("ollama-python/0.6 (x86_64 linux)", "ollama-python"),
        ("Tool_of.Ours(beta)", "tool-of-ours"),
        ("not-claude-cli/1.0", "not-claude-cli"),
        (f"{'x' * 60}/1", "x" * 40),
        # of nothing
        ("", "unknown"),
        ("   ", "unknown"),
        ("/1.0", "unknown"),
        ("Ünïcøde/1", "n-c-de"),
        ("編集/1", "unknown"),
    ],
)
def test_the_client_of_a_user_agent(user_agent: str, client: str) -> None:
    assert client_of(user_agent) == client


@settings(deadline=None)
@given(st.text())
def test_whatever_is_sent_becomes_a_slug(user_agent: str) -> None:
    client = client_of(user_agent)
    assert 1 <= len(client) <= 40
    assert set(client) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
