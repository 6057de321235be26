"""How far all cells are, counted from their events. Progress on a screen shows this."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from amity.differences import leads
from amity.events import CellId, Event, Progress, RoundDone, RunDone, RunQueued, RunStarted
from amity.tasks import ACCURACY, Metric, metric_of
from amity.units import duration


@dataclass
class Course:
    """One cell on its way."""

    row: str
    seed: int
    rounds: int
    reference: bool
    kept: int = 0
    """Rounds that were done before: they say nothing about the pace."""
    done: float = 0.0
    accuracy: dict[int, float] = field(default_factory=dict)
    """The metric that leads, by round."""
    metric: Metric = ACCURACY


class Standings:
    """Counts cells. It learns of them from the events that queue or start them."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._cells: dict[CellId, Course] = {}

    def take(self, event: Event) -> None:
        if not self._cells:
            self._began = time.monotonic()
        if isinstance(event, RunQueued | RunStarted):
            row = event.cell.row or event.cell.label
            course = Course(row, event.cell.seed, event.rounds, event.reference)
            course = self._cells.setdefault(event.cell, course)
            if isinstance(event, RunStarted):
                course.done = course.kept = event.first
                course.metric = metric_of(event.config)
            return
        course = self._cells[event.cell]
        if isinstance(event, Progress):
            course.done = event.round + event.part
        elif isinstance(event, RunDone):
            course.done = course.rounds
        elif isinstance(event, RoundDone):
            course.done = event.report.round + 1
            course.rounds = event.report.round + 1 if event.report.network.ended else course.rounds
            if (value := event.report.network.lead()) is not None:
                course.accuracy[event.report.round] = value

    @property
    def rows(self) -> dict[str, list[Course]]:
        """Cells by the row that they are counted under."""
        rows: dict[str, list[Course]] = {}
        for course in self._cells.values():
            rows.setdefault(course.row, []).append(course)
        return rows

    @property
    def done(self) -> float:
        """Rounds of all cells."""
        return sum(course.done for course in self._cells.values())

    @property
    def rounds(self) -> int:
        return sum(course.rounds for course in self._cells.values())

    @property
    def comparable(self) -> bool:
        """Whether all cells of a row are of one kind. In a table of several columns they are not:
        a mean over those that are done says more about the columns than about the row."""
        labels: dict[str, str] = {}
        return all(
            labels.setdefault(course.row, cell.label) == cell.label
            for cell, course in self._cells.items()
        )

    def leader(self) -> str:
        """Who is highest of the strategies that a real network could run, at the newest round that
        all of them have reached, over the seeds in which all have reached it. It leads only if the
        intervals of its differences to all others say so. Empty if there are fewer than two, or
        nothing to compare."""
        if not self.comparable:
            return ""
        fair = {k: c for k, c in self.rows.items() if not c[0].reference}
        reached = {k: max(max(c.accuracy, default=-1) for c in v) for k, v in fair.items()}
        common = min((t for t in reached.values() if t >= 0), default=-1)
        known = fair if common >= 0 else {}
        scores = {k: found for k in known if (found := _by_seed(fair[k], common))}
        seeds = set.intersection(*map(set, scores.values())) if scores else set()
        if len(scores) < 2 or not seeds:
            return ""
        means = {k: sum(one[s] for s in seeds) / len(seeds) for k, one in scores.items()}
        metric = next(iter(known.values()))[0].metric
        best = max(means, key=lambda k: metric.sign * means[k])
        turned = {k: {s: metric.sign * v for s, v in one.items()} for k, one in scores.items()}
        sure = len(scores) == len(fair) and len(seeds) > 1 and leads(best, turned)
        word = "leading" if sure else "highest" if metric.more else "lowest"
        return f"{word} at round {common + 1}: {best} {metric.text(means[best])}"

    def left(self) -> str:
        """About how long it will still take, from the pace so far."""
        kept = sum(course.kept for course in self._cells.values())
        if not kept < self.done < self.rounds:
            return ""
        pace = (time.monotonic() - self._began) / (self.done - kept)
        return f", about {duration((self.rounds - self.done) * pace)} left"


def _by_seed(cells: list[Course], common: int) -> dict[int, float]:
    """Accuracies at a round, of the seeds that have reached it."""
    there = [course for course in cells if max(course.accuracy, default=-1) >= common]
    return {c.seed: c.accuracy[max(t for t in c.accuracy if t <= common)] for c in there}


def mean(cells: list[Course], last: int | None = None) -> float | None:
    """The leading metric, mean of cells, each in its newest round, but not later than `last`."""
    values = []
    for course in cells:
        rounds = [t for t in course.accuracy if last is None or t <= last]
        if rounds:
            values.append(course.accuracy[max(rounds)])
    return sum(values) / len(values) if values else None
