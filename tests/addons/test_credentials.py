"""What goes to a target: headers and parameters by name, and its own key."""

from __future__ import annotations

import pytest

from addons.credentials import NoKeyError, allowed_headers, allowed_query, key_header
from memory.exchange import Protocol

CREDENTIALS = (
    ("Authorization", "Bearer sk-1"),
    ("x-api-key", "sk-2"),
    ("api-key", "sk-3"),
    ("x-goog-api-key", "sk-4"),
    ("Cookie", "session=sk-5"),
    ("Proxy-Authorization", "Basic c2stNg=="),
    ("OpenAI-Organization", "org-7"),
    ("OpenAI-Project", "proj-8"),
    ("ChatGPT-Account-Id", "acc-9"),
    ("X-Amz-Security-Token", "sk-10"),
    ("X-Amz-Date", "20260304T050607Z"),
    ("Copilot-Integration-Id", "vscode-chat"),
    ("X-Claude-Code-Session-Id", "tulip"),
    ("Ocp-Apim-Subscription-Key", "sk-11"),
    ("Referer", "https://a.test/?key=sk-12"),
    ("X-Nobody-Thought-Of", "sk-13"),
)
HARMLESS = (
    ("Content-Type", "application/json"),
    ("accept", "text/event-stream"),
    ("Accept-Encoding", "gzip, br"),
    ("anthropic-version", "2023-06-01"),
    ("Anthropic-Beta", "one"),
    ("Anthropic-Beta", "two"),
    ("openai-beta", "responses=v1"),
    ("User-Agent", "a client/1.0"),
    ("Content-Encoding", "zstd"),
)


def test_headers_are_allowed_by_name() -> None:
    mixed = [one for pair in zip(CREDENTIALS, HARMLESS, strict=False) for one in pair]
    assert allowed_headers(mixed) == HARMLESS
    assert allowed_headers(CREDENTIALS) == ()


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("beta=true", "beta=true"),
        ("key=AIza-1", ""),
        ("alt=sse&key=AIza-1", "alt=sse"),
        ("KEY=AIza-1&%24alt=json%3Benum-encoding&$alt=sse", "$alt=sse"),
        ("k%65y=AIza-1&alt=s%73e", "alt=s%73e"),
        ("access_token=t&api-version=2024-10-21&api_key=t&sig=t", "api-version=2024-10-21"),
        ("X-Amz-Signature=t&X-Amz-Credential=t", ""),
        ("prettyPrint=false&fields=a,b", "prettyPrint=false&fields=a,b"),
    ],
)
def test_parameters_are_allowed_by_name_and_stay_as_written(query: str, kept: str) -> None:
    assert allowed_query(query) == kept


@pytest.mark.parametrize(
    ("protocol", "header"),
    [
        ("anthropic", ("x-api-key", "own-key")),
        ("openai-chat", ("authorization", "Bearer own-key")),
        ("openai-responses", ("authorization", "Bearer own-key")),
        ("gemini", ("x-goog-api-key", "own-key")),
        ("ollama", ("authorization", "Bearer own-key")),
        ("bedrock", ("authorization", "Bearer own-key")),
    ],
)
def test_the_targets_key_goes_in_the_header_of_its_protocol(protocol: Protocol, header: tuple[str, str]) -> None:
    assert key_header(protocol, "LAB_KEY", {"LAB_KEY": " own-key\n"}) == (header,)
    assert key_header(protocol, None, {"LAB_KEY": "own-key"}) == ()


@pytest.mark.parametrize("environ", [{}, {"LAB_KEY": ""}, {"LAB_KEY": " \n"}])
def test_a_variable_without_a_key_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(NoKeyError, match=r"^the environment variable LAB_KEY holds no key$"):
        key_header("anthropic", "LAB_KEY", environ)


@pytest.mark.parametrize("key", ["two\r\nx-more: lines", "schlüssel", "nul\0"])
def test_what_no_header_can_hold_is_no_key_and_is_not_repeated(key: str) -> None:
    with pytest.raises(NoKeyError) as raised:
        key_header("anthropic", "LAB_KEY", {"LAB_KEY": key})
    assert str(raised.value) == "the environment variable LAB_KEY holds characters that no key has"
