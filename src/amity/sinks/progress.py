"""Progress on the terminal: a bar a strategy with its accuracy so far, and who leads.

On a terminal it is live; elsewhere (a log file, CI) a plain line appears every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amity.core import Reference
from amity.lab.cells import Cell, Event
from amity.lab.estimate import duration
from amity.records import Report

PLAIN_EVERY = 5.0
"""Seconds between plain lines."""


class Board:
    """Shows cells as they run. Use as a context; feed it with `on_event`."""

    def __init__(self, console: Console, cells: Sequence[Cell]) -> None:
        self._console, self._cells = console, cells
        self._labels = list(dict.fromkeys(cell.label for cell in cells))
        self._references = {
            c.label for c in cells if isinstance(c.config.strategy.instance, Reference)
        }
        self._done: dict[int, float] = dict.fromkeys(range(len(cells)), 0.0)
        self._accuracy: dict[int, dict[int, float]] = {}
        self._kept = 0.0
        self._began = time.monotonic()
        self._last_plain = self._began
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.4g}/{task.total:.0f}"),
            TextColumn("{task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        rounds = {
            label: sum(c.config.rounds for c in cells if c.label == label) for label in self._labels
        }
        self._tasks = {
            k: self._progress.add_task(k, total=rounds[k], accuracy="") for k in self._labels
        }
        self._total = self._progress.add_task("all", total=sum(rounds.values()), accuracy="")

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._refresh(last=True)
        if self._console.is_terminal:
            self._progress.stop()

    def on_event(self, event: Event) -> None:
        cell = self._cells[event.cell]
        if event.round < 0 and not event.error and not self._done[event.cell]:
            self._kept += cell.config.rounds  # was finished before: it says nothing about the pace
        if not event.error:
            self._done[event.cell] = (
                cell.config.rounds if event.round < 0 else event.round + event.part
            )
        if event.accuracy is not None:
            self._accuracy.setdefault(event.cell, {})[event.round] = event.accuracy
        self._refresh()

    def _mean(self, label: str, round: int | None = None) -> float | None:
        """Mean accuracy over the cells of a label, in their newest round or in the newest not after
        `round`."""
        values = []
        for at, curve in self._accuracy.items():
            rounds = [t for t in curve if round is None or t <= round]
            if self._cells[at].label == label and rounds:
                values.append(curve[max(rounds)])
        return sum(values) / len(values) if values else None

    def _leader(self) -> str:
        """The best of those that a real network could run, all taken at the newest round that each
        of them has seen."""
        fair = [label for label in self._labels if label not in self._references]
        reached = {
            k: max(
                (max(c) for at, c in self._accuracy.items() if self._cells[at].label == k),
                default=-1,
            )
            for k in fair
        }
        common = min((t for t in reached.values() if t >= 0), default=-1)
        known = {
            k: mean for k in fair if reached[k] >= 0 and (mean := self._mean(k, common)) is not None
        }
        if len(known) < 2:
            return ""
        best = max(known, key=known.__getitem__)
        return f"leading at round {common + 1}: {best} {100 * known[best]:.1f} %"

    def _refresh(self, last: bool = False) -> None:
        total = 0.0
        for label, task in self._tasks.items():
            done = sum(n for at, n in self._done.items() if self._cells[at].label == label)
            mean = self._mean(label)
            text = "" if mean is None else f"{100 * mean:5.1f} %"
            self._progress.update(task, completed=done, accuracy=text)
            total += done
        self._progress.update(self._total, completed=total, accuracy=self._leader())
        everything = sum(cell.config.rounds for cell in self._cells)
        now = time.monotonic()
        due = (last and total == everything) or (
            not last and total < everything and now - self._last_plain > PLAIN_EVERY
        )
        if due and not self._console.is_terminal:
            self._last_plain = now
            line = f"{int(total)} of {everything} rounds done{self._left(total, everything)}"
            lead = self._leader() or next(
                (f"accuracy {100 * m:.1f} %" for k in self._labels if (m := self._mean(k))), ""
            )
            text = "; ".join(part for part in (line, lead) if part)
            self._console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def _left(self, total: float, everything: int) -> str:
        """About how long it will take, from the pace so far."""
        if not self._kept < total < everything:
            return ""
        pace = (time.monotonic() - self._began) / (total - self._kept)
        return f", about {duration((everything - total) * pace)} left"


def single(console: Console, cell: Cell) -> tuple[Board, RoundHook]:
    """A board for one run, and the hook that feeds it."""
    board = Board(console, [cell])
    return board, RoundHook(board)


class RoundHook:
    """Turns a run's reports into the board's events."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __call__(self, report: Report) -> None:
        self._board.on_event(Event(0, report.round, report.network.accuracy))

    def part(self, round: int, share: float) -> None:
        """So much of a round is done."""
        self._board.on_event(Event(0, round, part=share))
