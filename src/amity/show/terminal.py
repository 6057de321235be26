"""What the command line prints: errors in one line, tables, entries with their options."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from amity.config import PARTS, SCALARS, SECTIONS, STAGE, Config
from amity.core import Reference
from amity.errors import ConfigError, unknown
from amity.registry import Entry
from amity.show.summary import cells_of, columns_of, summarise

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison
    from amity.lab.result import Result


class Out(Console):
    """A console whose reader may leave: `amity ... | head -1` is no failure of ours."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(141)


out_console = Out(
    highlight=False, emoji=False, width=None if sys.stdout and sys.stdout.isatty() else 140
)
err_console = Console(stderr=True, highlight=False, emoji=False)


def complain(message: str) -> None:
    line = " ".join(message.split("\n"))
    err_console.print(f"amity: {line}", style="red", markup=False, emoji=False, soft_wrap=True)


@contextmanager
def status(what: str) -> Iterator[None]:
    with err_console.status(what):
        yield


def say(text: str) -> None:
    """A line as it is, however long."""
    out_console.print(text, soft_wrap=True, markup=False)


def blank_table(
    columns: Iterable[str], left: Collection[int] = (0,), no_wrap: bool = False
) -> Table:
    """A table without rows; the columns at `left` are text, all others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at in left else "right", no_wrap=no_wrap)
    return table


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
    for line in comparison.lines:
        if line.epsilon_excludes:
            say(f"* {line.label}: ε is for the training only; it excludes {line.epsilon_excludes}")


def show_run(result: Result, page: Path) -> None:
    """What a run came to, and where its report is."""
    line = summarise(result.config.label, [result], [])
    columns = columns_of([line])
    for (name, tip), value in zip(columns.items(), cells_of(line, columns), strict=True):
        if value != "-":
            out_console.print(f"{name:>10}  {escape(value):<14} [dim]{tip}[/dim]", soft_wrap=True)
    if result.privacy:
        say(f"{'privacy':>10}  {result.privacy}")
    say(f"report: {page}")


def show_entries(kind: str = "") -> None:
    """All entries of a kind (or of every kind) with their options, and the keys of the run
    itself."""
    kinds = {**SECTIONS, "stages": STAGE}
    wanted = {name: section for name, section in kinds.items() if kind[:4] == name[:4] or not kind}
    if not wanted:
        raise ConfigError(unknown("kind", kind, kinds))
    for name, section in wanted.items():
        out_console.print(f"\n[bold]{name}=[/bold]")
        for entry in section.registry:
            _show_entry(entry)
        if section.common is not None:
            _wrapped(f"with any of them: {_options(section.common, {})}", 2)
    if not kind:
        out_console.print("\n[bold]of the run[/bold]")
        _wrapped(
            "  ".join(
                f"{f.name}={f.default}" for f in dataclasses.fields(Config) if f.name in SCALARS
            ),
            2,
        )
        for name, part in PARTS.items():
            _wrapped(
                "  ".join(f"{name}.{f.name}={_shown(f.default)}" for f in dataclasses.fields(part)),
                2,
            )
        out_console.print(
            "  [dim]defaults are the paper's; a dataset may suit others: see config.toml of a"
            " run[/dim]"
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
    fields = [f for f in dataclasses.fields(cls) if f.init]
    return "  ".join(
        f"{f.name}={_shown(values.get(f.name, f.default))}{_choices(cls, f.name)}" for f in fields
    )


def _shown(value: Any) -> str:
    return "(required)" if value is dataclasses.MISSING else str(value) or '""'


def _choices(cls: type, name: str) -> str:
    """The values of a Literal option."""
    hint = get_type_hints(cls).get(name)
    nested = [hint, *get_args(hint)]
    values = [str(value) for part in nested for value in get_args(part) if isinstance(value, str)]
    return f" ({'|'.join(values)})" if values else ""
