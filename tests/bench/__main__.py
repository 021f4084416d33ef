"""Runs the areas and prints their figures (see the package)."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench import (
    accuracy,
    activity,
    detection,
    endurance,
    events,
    loop,
    notes,
    pages,
    proxy,
    recall,
    recording,
    rules,
    web,
)
from tests.bench.measure import Area, Figure

AREAS: dict[str, Area] = {
    "detection": detection.figures,
    "accuracy": accuracy.figures,
    "notes": notes.figures,
    "web": web.figures,
    "pages": pages.figures,
    "events": events.figures,
    "proxy": proxy.figures,
    "rules": rules.figures,
    "activity": activity.figures,
    "recall": recall.figures,
    "recording": recording.figures,
    "loop": loop.figures,
    "endurance": endurance.figures,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Each figure beside goal and baseline.")
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS)}; none: all")
    parser.add_argument("--seed", type=int, default=1, help="what notes and bodies are made from (1)")
    parser.add_argument("--large", action="store_true", help="also the figures that need many minutes")
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.areas) - set(AREAS)):
        parser.error(f"there is no area {unknown[0]}; there is: {', '.join(AREAS)}")
    console = Console(width=None if Console().is_terminal else 160)
    console.print(head(chosen.seed))
    for name in chosen.areas or AREAS:
        measured: list[Figure] = []
        with console.status(name) as status:
            for figure in AREAS[name](chosen.seed, large=chosen.large):
                measured.append(figure)
                status.update(f"{name}: {figure.what}: {shown(figure.value, figure)}")
        console.print(table(name, measured))
    console.print("ratio: how many times as fast as the baseline. Times are CPU times where an area says nothing else.")
    console.print(head(chosen.seed))


def head(seed: int) -> str:
    """What the figures depend on."""
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"seed {seed} · {python} · {os.cpu_count()} cores · load average {load}"


def table(name: str, measured: Sequence[Figure]) -> Table:
    rows = Table(title=name, title_justify="left", title_style="bold")
    for column in ("figure", "measured", "reach", "aim", "", "baseline", "ratio", "note"):
        rows.add_column(column, justify="right" if column in {"measured", "reach", "aim", "ratio"} else "left")
    for figure in measured:
        rows.add_row(
            figure.what,
            shown(figure.value, figure),
            shown(figure.reach, figure),
            shown(figure.aim, figure),
            verdict(figure),
            figure.baseline,
            "" if figure.ratio is None else f"{figure.ratio:.2f}" if figure.ratio < 10 else f"{figure.ratio:.0f}",
            figure.note,
        )
    return rows


def shown(value: float | None, figure: Figure) -> str:
    if value is None:
        return "none"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{number} {figure.unit}"


def verdict(figure: Figure) -> str:
    if figure.met is None:
        return "no goal"
    return "aim met" if figure.aim_met else "met" if figure.met else "[red]missed[/red]"


if __name__ == "__main__":
    main()
