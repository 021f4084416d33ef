"""What looks like a key is masked; what does not, stays. The keys are made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.conversations.secrets import mask

A16 = "Zx8Qm2Lk9Vb4Np7T"
A36 = "Zx8Qm2Lk9Vb4Np7TZx8Qm2Lk9Vb4Np7TabcD"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"my key is sk-ant-api03-{A16}-{A16}.", "my key is sk-ant-[masked]"),
        (f"sk-proj-{A16}, then", "sk-proj-[masked], then"),
        (f"OPENAI_API_KEY=sk-{A16}", "OPENAI_API_KEY=sk-[masked]"),
        (f"sk-or-v1-{A36}", "sk-or-v1-[masked]"),
        (f"sk_live_{A16}", "sk_live_[masked]"),
        ("AKIAZX8QM2LK9VB4NP7T", "AKIA[masked]"),
        (f"(ghp_{A36})", "(ghp_[masked])"),
        (f"github_pat_{A36}", "github_pat_[masked]"),
        (f"glpat-{A36}", "glpat-[masked]"),
        (f"AIza{A36}", "AIza[masked]"),
        (f"xoxb-{A16}", "xoxb-[masked]"),
        (f"hf_{A36}", "hf_[masked]"),
        (f"eyJ{A16}.eyJ{A16}.{A16}", "eyJ[masked]"),
        (f"Authorization: Bearer {A16}", "Authorization: Bearer [masked]"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [masked]"'),
        ("password=hunter2x", "password=[masked]"),
        ("DB_PASSWORD: 'two words'", "DB_PASSWORD: '[masked]'"),
        ('{"client_secret": "abcdefgh", "x": 1}', '{"client_secret": "[masked]", "x": 1}'),
        ("api-key = abcdefgh", "api-key = [masked]"),
        ("postgres://me:hunter2@db/x", "postgres://me:[masked]@db/x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nbelow",
            "-----BEGIN RSA PRIVATE KEY-----[masked]\nbelow",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nMIIE", "-----BEGIN OPENSSH PRIVATE KEY-----[masked]"),
    ],
)
def test_what_looks_like_a_key_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "task-based-system-for-something-else",
        "sk-learn, sk-short",
        "the password is where it always was",
        "What does `password = getpass()` do? token = read_token(path)",
        "password: x",
        "https://example.com:8080/path@2",
        "bearer of bad news",
        "AKIA is how they begin; ghp_ too",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert mask(text) == text


@given(
    st.lists(
        st.sampled_from(
            [
                "sk-ant-",
                A16,
                "password",
                "=",
                ":",
                '"',
                " ",
                "Bearer ",
                "://",
                "@",
                "-----BEGIN PRIVATE KEY-----",
                "a",
                "\n",
            ]
        )
    ).map("".join)
)
def test_what_is_masked_is_masked_once(text: str) -> None:
    assert mask(mask(text)) == mask(text)
