"""What the command line prints: tables, a run at one look, entries with their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from amity.config import PARTS, SCALARS, SECTIONS, STAGE, TRAINING, Config
from amity.console import blank_table, complain, err_console, out_console, say, status
from amity.core import Reference
from amity.errors import ConfigError, unknown
from amity.registry import Entry, Registry
from amity.show.decisions import last_round_said
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
    "show_entries",
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


def show_run(result: Result, page: Path) -> None:
    """What a run came to, and where its report is."""
    line = summarise(result.config.label, [result], [])
    columns = columns_of([line], result.story.said)
    for (name, tip), value in zip(columns.items(), cells_of(line, columns), strict=True):
        if value != "-":
            out_console.print(f"{name:>10}  {escape(value):<14} [dim]{tip}[/dim]", soft_wrap=True)
    if said := last_round_said(result):
        say(f"{'company':>10}  in the last round {said}")
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
    kinds |= {name: (registry, None) for name, registry in {**TRAINING, **more}.items()}
    wanted = {name: found for name, found in kinds.items() if kind[:4] == name[:4] or not kind}
    if not wanted:
        raise ConfigError(unknown("kind", kind, kinds))
    for name, (registry, common) in wanted.items():
        out_console.print(f"\n[bold]{'train.' if name in TRAINING else ''}{name}=[/bold]")
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
