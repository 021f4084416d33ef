"""Rules as JSON: read and checked as those of mitm.yaml are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from addons.config import Config, ConfigError, MemoryConfig, SourceConfig
from addons.config_values import Upstream
from addons.rules_given import explain, read_rules
from addons.targets import TargetConfig
from memory.rules import Rule, When
from memory.rules.conditions import SEEN, Comparison
from memory.rules.written import rule_to_json

CONFIG = Config(
    memory=MemoryConfig(sources=(SourceConfig("vault", "markdown", Path()),)),
    targets=(TargetConfig("ollama", Upstream("http", "127.0.0.1", 11434), ("anthropic",), model="qwen3:8b"),),
)
WRITTEN: list[dict[str, Any]] = [
    {
        "name": "home",
        "when": {"tags": ["private", "work/acme"], "to": "cloud"},
        "then": "redirect",
        "targets": ["ollama"],
        "otherwise": "allow",
    },
    {"name": "health", "when": {"folder": "vault/Health/**", "by": "content", "coverage": ">=50%"}, "then": "block"},
    {"name": "half", "when": {"source": "vault", "coverage": ">12.5%"}, "then": "block"},
    {"name": "names", "when": {"note": "vault/L*.md", "by": ["reference", "listing"]}, "then": "allow"},
    {
        "name": "strip",
        "when": {"note": "vault/Ledger.md", "by": "any"},
        "then": "redact",
        "otherwise": "block",
        "placeholder": "[withheld: {title}]",
    },
    {
        "name": "unseen",
        "when": {"client": "codex", "provider": "openai", "model": "gpt-*", "scan": ["partial", "unscanned"]},
        "then": "block",
    },
    {"name": "many", "when": {"notes": ">=5"}, "then": "block"},
]


def faults(given: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        read_rules(given, CONFIG)
    return explain(raised.value).splitlines()


def test_what_is_written_is_read_and_written_again() -> None:
    rules = read_rules(WRITTEN, CONFIG)
    assert [rule_to_json(rule) for rule in rules] == WRITTEN
    assert rules[1] == Rule(
        "health", When(folder=("vault/Health/**",), by=("content",), coverage=Comparison(">=", 50)), "block"
    )
    assert rules[4].when.by == SEEN


def test_a_rule_that_holds_says_how_long_unless_that_is_the_default() -> None:
    assert rule_to_json(Rule("ask", When(), "hold", hold_for=90.0)) == {
        "name": "ask",
        "when": {},
        "then": "hold",
        "otherwise": "block",
        "hold_for": 90,
    }
    assert "hold_for" not in rule_to_json(Rule("ask", When(), "hold"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["rules: a group of keys stands where a list belongs; mend: write `[…]`, or one line for each that starts with `- `"]),
        ("no", ['rules: text stands where a list belongs; mend: write `["no"]`']),
        ([1], ["rules[0]: a number (`1`) stands where keys and values belong; mend: write `key: value` lines"]),
        (
            [{"name": "x", "when": {"tgas": "a"}, "then": "blok"}],
            [
                "rules[0].then: `blok` is not one of allow, block, redact, redirect, hold; mend: did you mean `block`?",
                "rules[0].when.tgas: no such key; mend: did you mean `tags`?",
            ],
        ),
        (
            [{"name": "x", "when": {"notes": 5}, "then": "block"}],
            ['rules[0].when.notes: `5` does not say whether that is the least or the most; mend: write it like `">=5"`'],
        ),
        (
            [{"name": "x", "when": {"source": "valt"}, "then": "block"}],
            ["rules[0].when.source: `valt` is in no source; mend: the sources are vault"],
        ),
        (
            [{"name": "x", "when": {"to": "cloud"}, "then": "redirect", "targets": ["lmstudio"]}],
            ["rules[0].targets[0]: `lmstudio` is no target; mend: add it to `targets`"],
        ),
        (
            [{"name": True, "when": {"to": None}, "then": "block"}],
            [
                "rules[0].name: true or false (`true`) stands where a name belongs; mend: put it in quotes",
                "rules[0].when.to: nothing stands where `cloud` or `local` belongs; mend: write `cloud` or `local`",
            ],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_of_the_file(given: Any, said: list[str]) -> None:
    assert faults(given) == said


def test_text_from_anywhere_is_one_readable_line() -> None:
    [fault] = faults([{"name": "x\ud800\n", "when": {"to": "cloud"}, "then": "block"}])
    assert fault.isprintable()


def test_too_deep() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert faults(deep) == ["rules: too many levels of brackets; mend: check its brackets"]
