"""What is printed as a table where there is room for it, and as lines where there is not."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from addons.tables import print_table

HEADERS = ("source", "notes", "links")
ROWS: list[list[str | Text]] = [["vault", "1,200", ""], ["[red]gone", Text("error", "red")], ["off"]]


def printed(width: int, **options: Any) -> list[str]:
    out = io.StringIO()
    print_table(Console(file=out, width=width, **options), HEADERS, ROWS, numbers={"notes", "links"})
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [25, 80])
def test_a_table_where_it_fits(width: int) -> None:
    assert [line.rstrip() for line in printed(width)] == [
        "",
        " source     notes  links",
        " ───────────────────────",
        " vault      1,200",
        " [red]gone  error",
        " off",
        "",
    ]


@pytest.mark.parametrize("width", [1, 10, 24])
def test_lines_where_it_does_not(width: int) -> None:
    assert printed(width) == ["vault: notes 1,200", "[red]gone: error", "off"]


def test_lines_keep_their_colour() -> None:
    assert printed(10, force_terminal=True, color_system="standard")[1] == "[red]gone: \x1b[31merror\x1b[0m"
