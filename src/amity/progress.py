"""Progress on the terminal: a bar a strategy with its accuracy so far, and who leads.

On a terminal it is live; elsewhere (a log file, CI) a plain line appears every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amity.cells import Cell, Event
from amity.simulate import Report

PLAIN_EVERY = 5.0
"""Seconds between plain lines."""


class Board:
    """Shows cells as they run. Use as a context; feed it with `on_event`."""

    def __init__(self, console: Console, cells: Sequence[Cell]) -> None:
        self._console, self._cells = console, cells
        self._labels = list(dict.fromkeys(cell.label for cell in cells))
        self._done = dict.fromkeys(range(len(cells)), 0)
        self._accuracy: dict[int, float] = {}
        self._last_plain, self._shown = 0.0, 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        rounds = {label: sum(c.config.rounds for c in cells if c.label == label) for label in self._labels}
        self._tasks = {k: self._progress.add_task(k, total=rounds[k], accuracy="") for k in self._labels}
        self._total = self._progress.add_task("[bold]all", total=sum(rounds.values()), accuracy="")

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._refresh()
        if self._console.is_terminal:
            self._progress.stop()

    def on_event(self, event: Event) -> None:
        self._done[event.cell] = self._cells[event.cell].config.rounds if event.round < 0 else event.round + 1
        if event.accuracy is not None:
            self._accuracy[event.cell] = event.accuracy
        self._refresh()

    def _mean(self, label: str) -> float | None:
        values = [a for at, a in self._accuracy.items() if self._cells[at].label == label]
        return sum(values) / len(values) if values else None

    def _leader(self) -> str:
        """Among those that got as far as the furthest seed of the others: the best mean accuracy."""
        known = {label: mean for label in self._labels if (mean := self._mean(label)) is not None}
        if not known:
            return ""
        best = max(known, key=known.__getitem__)
        return f"leading: {best} {100 * known[best]:.1f} %"

    def _refresh(self) -> None:
        total = 0
        for label, task in self._tasks.items():
            done = sum(n for at, n in self._done.items() if self._cells[at].label == label)
            mean = self._mean(label)
            text = "" if mean is None else f"{100 * mean:5.1f} %"
            self._progress.update(task, completed=done, accuracy=text)
            total += done
        self._progress.update(self._total, completed=total, accuracy=self._leader())
        everything = sum(cell.config.rounds for cell in self._cells)
        now = time.monotonic()
        if not self._console.is_terminal and (now - self._last_plain > PLAIN_EVERY or total == everything != self._shown):
            self._last_plain, self._shown = now, total
            self._console.print(f"{total} of {everything} rounds done; {self._leader()}", highlight=False)


def single(console: Console, cell: Cell) -> tuple[Board, RoundHook]:
    """A board for one run, and the hook that feeds it."""
    board = Board(console, [cell])
    return board, RoundHook(board)


class RoundHook:
    """Turns a run's reports into the board's events."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __call__(self, report: Report) -> None:
        self._board.on_event(Event(0, report.round, report.network.get("accuracy")))
