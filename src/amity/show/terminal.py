"""What the command line prints: tables, a run at one look, entries with their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.text import Text

from amity.config import PARTS, SCALARS, SECTIONS, STAGE, Config
from amity.console import blank_table, complain, err_console, out_console, say, status
from amity.core import Reference
from amity.errors import ConfigError, unknown
from amity.registry import Entry, Registry
from amity.show.alone import worth_of, worth_said
from amity.show.columns import Column, cells_of, columns_of
from amity.show.decisions import last_round_said
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
    "show_entries",
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


def _widths(
    columns: Sequence[Column], names: Sequence[str], rows: Sequence[list[str]]
) -> list[int]:
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


def show_run(result: Result, page: Path) -> None:
    """What a run came to, and where its report is."""
    (line,) = result.story.lines
    for column in columns_of([line], result.story.said):
        shown = f"{column.name:>10}  {escape(column.cell(line)):<14} [dim]{column.tip}[/dim]"
        out_console.print(shown, soft_wrap=True)
    if said := last_round_said(result):
        say(f"{'company':>10}  in the last round {said}")
    if said := worth_said(worth_of(result.metrics)):
        say(f"{'shadows':>10}  {said}")
    if result.privacy:
        say(f"{'privacy':>10}  {result.privacy}")
    say(f"report: {page}")


def show_entries(kind: str = "", **more: Registry[Any]) -> None:
    """All entries of a kind (or of every kind) with their options, and the keys of the run itself.
    `more` are kinds that are no part of a run."""
    kinds: dict[str, tuple[Registry[Any], type | None]] = {
        name: (section.registry, section.common)
        for name, section in {**SECTIONS, "stages": STAGE}.items()
    }
    kinds |= {name: (registry, None) for name, registry in more.items()}
    wanted = {name: found for name, found in kinds.items() if kind[:4] == name[:4] or not kind}
    if not wanted:
        raise ConfigError(unknown("kind", kind, kinds))
    for name, (registry, common) in wanted.items():
        out_console.print(f"\n[bold]{name}=[/bold]")
        for entry in registry:
            _show_entry(entry)
        if common is not None:
            _wrapped(f"with any of them: {_options(common, {})}", 2)
    if not kind:
        _show_keys()


def _show_keys() -> None:
    """The keys of the run itself."""
    out_console.print("\n[bold]of the run[/bold]")
    scalars = [f for f in dataclasses.fields(Config) if f.name in SCALARS]
    _wrapped("  ".join(f"{f.name}={f.default}" for f in scalars), 2)
    for name, part in PARTS.items():
        fields = dataclasses.fields(part)
        _wrapped("  ".join(f"{name}.{f.name}={_shown(f.default)}" for f in fields), 2)
    out_console.print(
        "  [dim]defaults are the paper's; a dataset may suit others: see config.toml of a run[/dim]"
    )


def _wrapped(text: str, indent: int) -> None:
    out_console.print(Padding(Text(text, style="dim"), (0, 0, 0, indent)))


def _show_entry(entry: Entry[Any]) -> None:
    reference = " [dim](reference)[/dim]" if issubclass(entry.cls, Reference) else ""
    out_console.print(
        f"  [bold cyan]{entry.name}[/bold cyan]{reference}  {entry.summary}", soft_wrap=True
    )
    presets = f"preset={entry.preset} ({', '.join(entry.presets)})  " if entry.presets else ""
    options = _options(entry.cls, entry.resolve({}))
    if presets or options:
        _wrapped(f"{presets}{options}", 6)


def _options(cls: type, values: Mapping[str, Any]) -> str:
    """All options with their defaults (those of the entry, where it has its own) and choices."""
    fields, hints = [f for f in dataclasses.fields(cls) if f.init], get_type_hints(cls)
    return "  ".join(
        f"{f.name}={_shown(values.get(f.name, f.default))}{_choices(hints.get(f.name))}"
        for f in fields
    )


def _shown(value: Any) -> str:
    return "(required)" if value is dataclasses.MISSING else str(value) or '""'


def _choices(hint: Any) -> str:
    """The values of a Literal option."""
    nested = [hint, *get_args(hint)]
    values = [str(value) for part in nested for value in get_args(part) if isinstance(value, str)]
    return f" ({'|'.join(values)})" if values else ""
