"""What the command line prints: tables, and a run at one look."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from amity.console import blank_table, complain, err_console, out_console, say, status
from amity.show.decisions import last_round_said
from amity.show.remarks import remarks, remarks_of
from amity.show.summary import cells_of, columns_of, summarise

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison
    from amity.lab.result import Result
    from amity.lab.worlds import Worlds

__all__ = [
    "blank_table",
    "complain",
    "err_console",
    "out_console",
    "say",
    "show_run",
    "show_table",
    "show_worlds",
    "status",
]


def show_table(comparison: Comparison) -> None:
    columns = columns_of(comparison.lines)
    table = blank_table(columns)
    fair = comparison.fair
    best = max(fair or comparison.lines, key=lambda line: line.accuracy).label
    for line in comparison.lines:
        reference = line not in fair
        cells = [escape(cell) for cell in cells_of(line, columns)]
        cells[0] += " (reference)" if reference else ""
        table.add_row(
            *cells, style="bold green" if line.label == best else "dim" if reference else ""
        )
    out_console.print(table)
    if friend := comparison.story.said:
        say(f"friends: here a friend is {friend}")
    for line in comparison.lines:
        if line.epsilon_excludes:
            say(f"* {line.label}: ε is for the training only; it excludes {line.epsilon_excludes}")
    for remark in remarks_of(comparison.results):
        say(remark)


def show_worlds(worlds: Worlds) -> None:
    """All worlds in one table, and what a friend is in each of them."""
    from amity.show.side_by_side import head_of, lines_of

    names = [name.replace(": ", "\n") for name in head_of(worlds.comparisons)]
    table = blank_table(names, no_wrap=True)
    references = {
        line.label
        for comparison in worlds.comparisons.values()
        for line in comparison.lines
        if line not in comparison.fair
    }
    for label, cells in lines_of(worlds.comparisons).items():
        reference = label in references
        name = escape(label) + (" (reference)" if reference else "")
        table.add_row(name, *cells, style="dim" if reference else "")
    out_console.print(table)
    for world, comparison in worlds.comparisons.items():
        if friend := comparison.story.said:
            say(f"{world}: here a friend is {friend}")
        for remark in remarks_of(comparison.results):
            say(f"{world}: {remark}")


def show_run(result: Result, page: Path) -> None:
    """What a run came to, and where its report is."""
    line = summarise(result.config.label, [result], [])
    columns = columns_of([line], result.story.said)
    for (name, tip), value in zip(columns.items(), cells_of(line, columns), strict=True):
        if value != "-":
            out_console.print(f"{name:>10}  {escape(value):<14} [dim]{tip}[/dim]", soft_wrap=True)
    for word, remark in remarks(result).items():
        say(f"{word:>10}  {remark}")
    if said := last_round_said(result):
        say(f"{'company':>10}  in the last round {said}")
    if result.privacy:
        say(f"{'privacy':>10}  {result.privacy}")
    say(f"report: {page}")
