"""Tables in a terminal. Where one is wider than that, each row is a line of its own: nothing is cut off."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

ANY_WIDTH = 10_000


def print_table(
    console: Console, headers: Sequence[str], rows: Sequence[Sequence[str | Text]], *, numbers: Collection[str] = ()
) -> None:
    """`numbers` are the headers of the columns that hold them. A row may be shorter; a `Text` in it says all by itself."""
    # Without lines between the columns most fit into 80 characters.
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    if console.measure(table, options=console.options.update(max_width=ANY_WIDTH)).maximum <= console.width:
        console.print(table)
        return
    for name, *cells in rows:
        line = Text.assemble(name, ": " if cells else "")
        told = zip(headers[1:], cells, strict=False)
        line.append_text(Text(", ").join(_named(header, cell) for header, cell in told if cell))
        console.print(line, soft_wrap=True)


def _named(header: str, cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(f"{header} {cell}")
