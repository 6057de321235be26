"""The terminal: where lines, errors and tables go. Nothing but rich stands behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table


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
