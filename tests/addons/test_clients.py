"""Who sent a request: by what the configuration says, else by its User-Agent."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addons.clients import ClientConfig, ClientTable, MatchConfig, Sender, client_of, hmac_of
from addons.config_values import Address


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


@given(st.text())
def test_whatever_is_sent_becomes_a_slug(user_agent: str) -> None:
    client = client_of(user_agent)
    assert 1 <= len(client) <= 40
    assert set(client) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


# ---- configured clients

SECRET = b"a key that only this test has...."


def table(*entries: tuple[str, MatchConfig]) -> ClientTable:
    return ClientTable([ClientConfig(name, match) for name, match in entries], SECRET)


def test_the_first_that_matches_wins() -> None:
    clients = table(
        ("first", MatchConfig(user_agent="tool/*")),
        ("second", MatchConfig(user_agent="tool/1*")),
        ("Third One", MatchConfig(proxy_user="three")),
    )
    assert clients.find(Sender(user_agent="tool/1.0")) == "first"
    assert clients.find(Sender(user_agent="other", proxy_user="three")) == "third-one"
    assert clients.find(Sender(user_agent="curl/8")) == "curl"
    assert table().find(Sender()) == "unknown"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, True),
        ({"listen": "127.0.0.1:8080"}, False),
        ({"listen": None}, False),
        ({"proxy_user": "Me"}, False),
        ({"proxy_user": None}, False),
        ({"api_keys": ()}, False),
        ({"api_keys": ("sk-1 ",)}, False),
        ({"api_keys": ("sk-2", "sk-1")}, True),
        ({"user_agent": "tool/2"}, False),
    ],
)
def test_all_keys_of_a_match_must_hold(change: dict[str, Any], found: bool) -> None:
    match = MatchConfig(Address("127.0.0.1", 8082), "me", hmac_of(SECRET, "sk-1"), "tool/1*")
    sender = Sender("127.0.0.1:8082", "me", ("sk-1",), "tool/1.0")
    assert (table(("mine", match)).find(replace(sender, **change)) == "mine") is found


def test_an_entry_that_says_nothing_matches_nothing() -> None:
    assert table(("all", MatchConfig())).find(Sender("127.0.0.1:1", "me", ("k",), "curl/8")) == "curl"


@pytest.mark.parametrize(
    ("pattern", "user_agent", "matches"),
    [
        ("claude-cli/*", "claude-cli/2.1 (external)", True),
        ("claude-cli/*", "Claude-CLI/2.1", True),
        ("claude-cli/*", "not claude-cli/2.1", False),
        ("claude-cli", "claude-cli/2.1", False),
        ("tool/?.0", "tool/1.0", True),
        ("tool/?.0", "tool/12.0", False),
        ("tool [beta]*", "tool [beta] 1", True),
        ("tool [beta]*", "tool b 1", False),
        ("*", "", True),
        ("*ä*", "schön ä la", True),
        ("a*b", "a\nb", True),
    ],
)
def test_a_pattern_is_held_against_the_whole_user_agent(pattern: str, user_agent: str, matches: bool) -> None:
    found = table(("mine", MatchConfig(user_agent=pattern))).find(Sender(user_agent=user_agent))
    assert (found == "mine") is matches


def test_a_long_user_agent_costs_no_time() -> None:
    clients = table(("mine", MatchConfig(user_agent="*a*a*a*a*a*a*b")))
    before = time.thread_time()
    assert clients.find(Sender(user_agent="a" * 1_000_000)) == "a" * 40
    assert time.thread_time() - before < 0.5


def test_who_only_looks_like_a_configured_client_is_kept_apart() -> None:
    entries = ("Claude Code", MatchConfig(proxy_user="me")), ("claude-code-auto", MatchConfig(proxy_user="you"))
    assert table(*entries).find(Sender(user_agent="claude-cli/2.1")) == "claude-code-auto-auto"


def test_the_hmac_of_a_key() -> None:
    # from the RFC's own test vectors (RFC 4231, case 2)
    expected = "hmac:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert hmac_of(b"Jefe", "what do ya want for nothing?") == expected
    assert hmac_of(b"other", "what do ya want for nothing?") != expected
    assert len(hmac_of(SECRET, "\udcff")) == len(expected)


def test_the_keys_of_a_sender_are_never_shown() -> None:
    assert "sk-1" not in repr(Sender(api_keys=("sk-1",)))
