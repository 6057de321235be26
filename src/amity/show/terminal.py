"""What the command line prints: tables, and a run at one look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.measure import Measurement

from amity.console import blank_table, complain, err_console, out_console, say, status
from amity.show.alone import worth_of, worth_said
from amity.show.columns import Shown, cells_of, columns_of
from amity.show.decisions import last_round_said
from amity.show.remarks import remarks, remarks_of
from amity.show.summary import Line

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison
    from amity.lab.result import Result
    from amity.lab.tries import Sweep
    from amity.lab.worlds import Worlds

__all__ = [
    "blank_table",
    "complain",
    "err_console",
    "out_console",
    "say",
    "show_run",
    "show_sweep",
    "show_table",
    "show_worlds",
    "status",
]


def show_sweep(sweep: Sweep) -> None:
    """All tries, the chosen ones bold."""
    story, chosen = sweep.comparison.story, {one.label for one in sweep.best.values()}
    _print_lines(story.lines, story.references, chosen)
    for remark in remarks_of(story.runs):
        say(remark)


def show_table(comparison: Comparison) -> None:
    """All strategies, and who leads."""
    story = comparison.story
    _print_lines(story.lines, story.references, {story.leader})
    if story.standing:
        say(story.standing)
    if friend := story.said:
        say(f"friends: here a friend is {friend}")
    for line in story.lines:
        if line.epsilon_excludes:
            say(f"* {line.label}: ε is for the training only; it excludes {line.epsilon_excludes}")
    for remark in remarks_of(comparison.results):
        say(remark)


def _print_lines(lines: Sequence[Line], references: Collection[str], bold: Collection[str]) -> None:
    """A table with as many columns as there is room for; a name that is too long has several
    lines."""
    every = columns_of(lines)
    rows = [cells_of(line, every) for line in lines]
    names = [escape(_named(line.label, references)) for line in lines]
    kept = fitting([c.rank for c in every], _widths(every, names, rows), out_console.width)
    table = blank_table([every[at].name for at in kept], fold=True)
    for line, name, row in zip(lines, names, rows, strict=True):
        style = "bold green" if line.label in bold else "dim" * (line.label in references)
        table.add_row(name, *(row[at] for at in kept[1:]), style=style)
    out_console.print(table)
    if left := [c.name for at, c in enumerate(every) if at not in kept]:
        say(f"left out for lack of room: {', '.join(left)}; the report has them")


def _named(label: str, references: Collection[str]) -> str:
    return label + " (reference)" * (label in references)


def _widths(columns: Sequence[Shown], names: Sequence[str], rows: Sequence[list[str]]) -> list[int]:
    """What each column takes, with its space to the next; a long name takes a part of its own."""
    first = min(max(map(len, names)), NAME)
    cells = [[column.name, *(row[at] for row in rows)] for at, column in enumerate(columns)]
    return [first + 1, *(2 + max(map(len, column)) for column in cells[1:])]


NAME = 30
"""Letters of a name that are on one line even if other columns have to go."""


def fitting(ranks: Sequence[int], widths: Sequence[int], room: int) -> list[int]:
    """Which columns fit: the first, and then those with small ranks, in the order of the table."""
    kept, taken = [0], widths[0]
    for at in sorted(range(1, len(ranks)), key=lambda at: (ranks[at], at)):
        if taken + widths[at] <= room:
            kept.append(at)
            taken += widths[at]
    return sorted(kept)


def show_worlds(worlds: Worlds) -> None:
    """All worlds in one table, or in several if there is no room; and what a friend is in each of
    them."""
    from amity.show.side_by_side import head_of, lines_of

    names = [name.replace(": ", "\n") for name in head_of(worlds.comparisons)]
    table = blank_table(names, no_wrap=True)
    stories = {world: one.story for world, one in worlds.comparisons.items()}
    references = set().union(*(story.references for story in stories.values()))
    for label, cells in lines_of(worlds.comparisons).items():
        style = "dim" * (label in references)
        table.add_row(escape(_named(label, references)), *cells, style=style)
    whole = Measurement.get(out_console, out_console.options.update(width=1000), table).maximum
    if whole <= out_console.width:
        out_console.print(table)
    for world, story in stories.items():
        if whole > out_console.width:
            out_console.print(f"\n[bold]{escape(world)}[/bold]", soft_wrap=True)
            _print_lines(story.lines, story.references, {story.leader})
        if story.standing:
            say(f"{world}: {story.standing}")
        if friend := story.said:
            say(f"{world}: here a friend is {friend}")
        for remark in remarks_of(story.runs):
            say(f"{world}: {remark}")


def show_run(result: Result, page: Path) -> None:
    """What a run came to, and where its report is."""
    (line,) = result.story.lines
    for column in columns_of([line], result.story.said):
        shown = f"{column.name:>10}  {escape(column.cell(line)):<14} [dim]{column.tip}[/dim]"
        out_console.print(shown, soft_wrap=True)
    for word, remark in remarks(result).items():
        say(f"{word:>10}  {remark}")
    if said := last_round_said(result):
        say(f"{'company':>10}  in the last round {said}")
    if said := worth_said(worth_of(result.metrics, result.metric)):
        say(f"{'shadows':>10}  {said}")
    if result.privacy:
        say(f"{'privacy':>10}  {result.privacy}")
    say(f"report: {page}")
