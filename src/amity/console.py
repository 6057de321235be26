"""The terminal: where lines, errors and tables go. Nothing but rich stands behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table
from rich.text import Text


class ReaderLeft(SystemExit):
    """Nobody reads what we print any longer."""


class Out(Console):
    """A console whose reader may leave: `amity ... | head -1` is no failure of ours."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise ReaderLeft(141)


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
    columns: Iterable[str],
    left: Collection[int] = (0,),
    no_wrap: bool = False,
    fold: bool = False,
) -> Table:
    """A table without rows; the columns at `left` are text, all others numbers. With `fold`, text
    that is too long has several lines, and numbers keep to one."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for at, column in enumerate(columns):
        text = at in left
        table.add_column(
            column,
            justify="left" if text else "right",
            no_wrap=no_wrap or (fold and not text),
            overflow="fold" if fold and text else "ellipsis",
        )
    return table


def show_grid(head: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> None:
    """A table whose first column has the names of the rows. If it is too wide, it is continued
    below with the columns that are left: nothing is cut. `**bold**` cells are bold."""
    plain = [[cell.removeprefix("**").removesuffix("**") for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(head, *plain, strict=True)]
    name, left = min(widths[0], console.width // 2), list(range(1, len(head)))
    while left:
        room, shown = console.width - name - 1, [left.pop(0)]
        room -= widths[shown[0]] + 2
        while left and room >= widths[left[0]] + 2:
            shown.append(left.pop(0))
            room -= widths[shown[-1]] + 2
        table = blank_table([head[at] for at in (0, *shown)], fold=True)
        for line, text in zip(lines, plain, strict=True):
            table.add_row(
                *(
                    Text(text[at], style="bold" if line[at].startswith("**") else "")
                    for at in (0, *shown)
                )
            )
        console.print(table)
