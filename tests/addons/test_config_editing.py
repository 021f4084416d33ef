"""One list of mitm.yaml is changed; all else stays as it was written, to the byte."""

from pathlib import Path

import pytest
import yaml

from addons.config_editing import Entry, edit_list

SOURCES = ("memory", "sources")
NEW = Entry(None, {"name": "claude-code", "type": "claude_code"})
SHIPPED = (Path(__file__).parents[2] / "mitm.yaml").read_text("utf-8")
LIST = """\
memory:
  # before the list
  sources:
  - name: a # the first
    path: x   # where it is

  # the work notes
  - {name: b,  path: 'y'}
  # after the list
  quotes:   true # wide

# about the state
state: ~
"""


def edited(text: str, *entries: Entry, path: tuple[str, ...] = SOURCES) -> str:
    return edit_list(text, path, entries)


@pytest.mark.parametrize("text", [LIST, LIST.replace("\n", "\r\n"), LIST.rstrip()])
def test_nothing_changed_is_the_same_text(text: str) -> None:
    assert edited(text, Entry(0), Entry(1)) == text


def test_one_is_added_after_the_last() -> None:
    line = "  - {name: claude-code, type: claude_code}\n"
    assert edited(LIST, Entry(0), Entry(1), NEW) == LIST.replace("  # after the list\n", f"{line}  # after the list\n")


def test_a_value_is_changed_and_its_comments_stay() -> None:
    changed = edited(LIST, Entry(0, {"enabled": False, "path": "~/My Notes"}), Entry(1))
    assert changed == LIST.replace(
        "    path: x   # where it is\n", '    path: "~/My Notes" # where it is\n    enabled: false\n'
    )


def test_a_key_is_taken_away() -> None:
    assert edited(LIST, Entry(0), Entry(1, {"path": None})) == LIST.replace("{name: b,  path: 'y'}", "{name: b}")


def test_the_comments_of_one_that_is_removed_stay() -> None:
    first = "  - name: a # the first\n    path: x   # where it is\n"
    assert edited(LIST, Entry(1)) == LIST.replace(first, "")
    assert edited(LIST, Entry(0)) == LIST.replace("  - {name: b,  path: 'y'}\n", "")
    left = edited(LIST)
    assert left == LIST.replace(first, "").replace("  - {name: b,  path: 'y'}\n", "")
    assert yaml.safe_load(left)["memory"] == {"sources": None, "quotes": True}


def test_a_comment_goes_with_what_it_stands_above() -> None:
    assert edited(LIST, Entry(1), Entry(0)).split("\n")[3:8] == [
        "",
        "  # the work notes",
        "  - {name: b,  path: 'y'}",
        "  - name: a # the first",
        "    path: x   # where it is",
    ]


def test_the_shipped_default_gets_its_first_source_below_the_examples() -> None:
    before, after = SHIPPED.split("\n"), edited(SHIPPED, NEW).split("\n")
    at = next(number for number, line in enumerate(before) if line.startswith("  sources: []"))
    assert after[at] == before[at].replace("sources: []", "sources:   ")
    examples = next(number for number in range(at + 1, len(before)) if not before[number].startswith("    #"))
    assert after == [
        *before[:at],
        after[at],
        *before[at + 1 : examples],
        "    - {name: claude-code, type: claude_code}",
        *before[examples:],
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "memory:\n  sources:\n    - {name: claude-code, type: claude_code}\n"),
        ("# only this", "# only this\nmemory:\n  sources:\n    - {name: claude-code, type: claude_code}\n"),
        ("mode: dispatch\n", "mode: dispatch\nmemory:\n  sources:\n    - {name: claude-code, type: claude_code}\n"),
        (
            "memory:\n  # nothing\nstate: ~\n",
            "memory:\n  sources:\n    - {name: claude-code, type: claude_code}\n  # nothing\nstate: ~\n",
        ),
        (
            "memory:\n  quotes: on\n\n# s\nstate:\n",
            "memory:\n  sources:\n    - {name: claude-code, type: claude_code}\n  quotes: on\n\n# s\nstate:\n",
        ),
        ("memory: {sources: []}\n", "memory: {sources: [{name: claude-code, type: claude_code}]}\n"),
        ("memory: {sources: null}\n", "memory: {sources: [{name: claude-code, type: claude_code}]}\n"),
    ],
)
def test_a_list_that_is_not_there_is_made(text: str, line: str) -> None:
    assert edited(text, NEW) == line


def test_a_list_in_brackets_stays_in_brackets() -> None:
    text = "memory: {sources: [{name: a, path: x}, {name: b, path: y}]}\nstate:   null   # as it was\n"
    assert edited(text, Entry(1, {"enabled": False}), NEW) == (
        "memory: {sources: [{name: b, path: y, enabled: false}, {name: claude-code, type: claude_code}]}\n"
        "state:   null   # as it was\n"
    )
    assert edited(text) == "memory: {sources: []}\nstate:   null   # as it was\n"


@pytest.mark.parametrize(
    "written",
    ["yes", "~", "null", "1", "0x1F", "1.5", "a: b", "a #b", "- a", "", " a ", "é\n\t", "C:\\notes", '"', "'", "!x"],
)
def test_text_stays_text(written: str) -> None:
    text = edited(LIST, Entry(0), Entry(None, {"name": written, "exclude": [written, "b"]}), Entry(1))
    assert yaml.safe_load(text)["memory"]["sources"][1] == {"name": written, "exclude": [written, "b"]}


@pytest.mark.parametrize(
    "text",
    [
        "memory:\n  sources:\n    -\n      name: a\n      path: x\n    - name: b\n      path: y\nstate: null\n",
        "memory:\n  sources:\n    -   name: a\n        path: |\n          x\n    -   {name: b, path: y}\n",
        "memory:\n    sources:\n        - name: a\n          path: >-\n            x\n\n        - name: b\n          path: y\n",
        "memory:\n  sources: # which\n  - &a {name: a, path: x}\n  - {name: b, exclude: [\n      z,\n    ]}\n",
    ],
)
def test_other_ways_to_write_a_list(text: str) -> None:
    before = yaml.safe_load(text)
    old = before["memory"].pop("sources")
    after = yaml.safe_load(edited(text, Entry(1, {"enabled": False}), NEW))
    assert after["memory"].pop("sources") == [{**old[1], "enabled": False}, dict(NEW.changes)]
    assert after == before


def test_another_list() -> None:
    text = "clients:\n  - {name: a, match: {proxy_user: a}}  # me\n"
    assert edited(text, Entry(0, {"memory_enabled": True}), path=("clients",)) == (
        "clients:\n  - {name: a, match: {proxy_user: a}, memory_enabled: true} # me\n"
    )
