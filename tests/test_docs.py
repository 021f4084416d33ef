"""docs/commands.md says of every command and every flag what it does, and of nothing that there is not."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from addons.cli import _split, make_parser
from addons.exits import FAILED, INTERRUPTED, OK, WRONG_INPUT

TEXT = (Path(__file__).parent.parent / "docs" / "commands.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## mitmemory (\S+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def commands() -> dict[str, argparse.ArgumentParser]:
    [subparsers] = [action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(subparsers.choices)


def flags(parser: argparse.ArgumentParser) -> set[str]:
    """`--config FILE`, `--json`: as `--help` writes them."""
    return {
        " ".join([action.option_strings[-1], *([str(action.metavar)] if action.metavar else [])])
        for action in parser._actions
        if action.option_strings and action.dest != "help"
    }


def test_every_command_is_documented_and_no_other() -> None:
    assert list(SECTIONS) == list(commands())


@pytest.mark.parametrize("command", commands())
def test_every_flag_is_documented_and_no_other(command: str) -> None:
    documented = set(re.findall(r"^\| `(--\w[^`]*)` \|", SECTIONS[command], re.MULTILINE))
    assert documented == flags(commands()[command])


def test_what_goes_to_mitmproxy_is_documented_where_it_is_taken() -> None:
    assert [command for command, text in SECTIONS.items() if "| `-- …` |" in text] == ["run"]
    assert [command for command, text in SECTIONS.items() if "| `-- COMMAND…` |" in text] == ["with"]


def test_flags_before_the_command_are_documented() -> None:
    general = TEXT.partition("\n## ")[0]
    assert {flag for flag in flags(make_parser()) if f"`mitmemory {flag}`" in general} == {"--version"}
    assert flags(make_parser()) == {"--version"}


@pytest.mark.parametrize("command", commands())
def test_every_command_has_examples_that_use_each_of_its_flags(command: str) -> None:
    lines = [example for example in EXAMPLES if f"mitmemory {command}" in example]
    for flag in flags(commands()[command]):
        assert any(flag.split()[0] in line.split() for line in lines), flag


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_command_line(example: str) -> None:
    if inner := re.fullmatch(r'eval "\$\((.*)\)"', example):
        example = inner[1]
    program, *arguments = shlex.split(example.partition(" < ")[0])
    ours, mitmproxys = _split(arguments)
    assert program == "mitmemory"
    assert make_parser().parse_args(ours).command in SECTIONS
    assert not mitmproxys or ours[0] in {"run", "with"}


def test_the_exit_codes_are_the_codes_own() -> None:
    assert re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE) == [
        str(code) for code in (OK, FAILED, WRONG_INPUT, INTERRUPTED)
    ]
