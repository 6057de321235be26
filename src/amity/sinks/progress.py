"""Bars on a terminal: one for each strategy with its accuracy so far, and who leads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from amity.console import out_console
from amity.events import Event, RunQueued, Sink
from amity.sinks.registry import sinks
from amity.sinks.tally import Standings, mean


def _firm() -> Column:
    """A column that keeps its width, whatever a name needs."""
    return Column(no_wrap=True)


class Display(Progress):
    """The bars, and a line beneath them that says who leads. A long name has several lines."""

    def __init__(self, console: Console, live: bool) -> None:
        self.lead = ""
        super().__init__(
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=16, table_column=_firm()),
            TextColumn("{task.completed:.4g}/{task.total:.0f}", table_column=_firm()),
            TextColumn("{task.fields[accuracy]}", table_column=_firm()),
            TimeElapsedColumn(table_column=_firm()),
            TimeRemainingColumn(table_column=_firm()),
            console=console,
            auto_refresh=live,
        )

    def whole(self) -> Table:
        """All of it, for wherever it is shown."""
        table = Table.grid()
        table.add_row(self.make_tasks_table(self.tasks))
        if self.lead:
            table.add_row(Text(self.lead))
        return table

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.whole()


class Bars:
    """The bars themselves, wherever they are shown."""

    def __init__(self, console: Console, live: bool) -> None:
        self._tally = Standings()
        self._tasks: dict[str, TaskID] = {}
        self._total: TaskID | None = None
        self.progress = Display(console, live)

    def take(self, event: Event) -> None:
        self._tally.take(event)
        if isinstance(event, RunQueued):
            return  # others may follow: the bars stand in one piece
        rows = self._tally.rows
        if rows.keys() != self._tasks.keys():
            self._lay_out(list(rows))
        for row, cells in rows.items():
            value = mean(cells) if self._tally.comparable else None
            self.progress.update(
                self._tasks[row],
                total=sum(course.rounds for course in cells),
                completed=sum(course.done for course in cells),
                accuracy="" if value is None else f"{cells[0].metric.text(value):>7}",
            )
        if self._total is not None:
            self.progress.lead = self._tally.leader()
            self.progress.update(self._total, total=self._tally.rounds, completed=self._tally.done)

    def _lay_out(self, rows: list[str]) -> None:
        """A bar for each row that has none, and the one for all of them beneath."""
        if self._total is not None:
            self.progress.remove_task(self._total)
        for row in rows:
            if row not in self._tasks:
                self._tasks[row] = self.progress.add_task(row, total=0, accuracy="")
        self._total = self.progress.add_task("all", total=0, accuracy="")


class Terminal:
    """Bars that move."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(console, live=True)
        self._begun = False

    def take(self, event: Event) -> None:
        self._bars.take(event)
        if not self._begun and not isinstance(event, RunQueued):
            self._begun = True
            self._bars.progress.start()

    def close(self) -> None:
        if self._begun:
            self._bars.progress.stop()


@sinks.register("progress")
@dataclass(frozen=True)
class ProgressBars:
    """Bars on the terminal: one for each strategy, with its accuracy so far, and who leads."""

    def open(self) -> Sink:
        return Terminal(out_console)
