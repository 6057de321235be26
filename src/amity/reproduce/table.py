"""A table made from records: means, paired differences, accuracy at equal bytes, and what the paper
prints beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from amity.differences import Difference, paired
from amity.reproduce import page, text
from amity.reproduce.design import CellKey, Design
from amity.reproduce.experiment import Grid
from amity.reproduce.record import CellRecord, TableHead
from amity.reproduce.shared import GOSSIP
from amity.reproduce.verdicts import Verdict, judge
from amity.show.summary import std

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.reproduce.table_of_runs import TableOfRuns


def at_bytes(record: CellRecord, megabytes: float) -> float | None:
    """Accuracy when this much had been received: between two measurements in proportion, the last
    if it never was; None before the first."""
    moved, accuracy = [point[1] for point in record.curve], [point[2] for point in record.curve]
    if megabytes < moved[0]:
        return None
    return (
        float(np.interp(megabytes, moved, accuracy)) if moved[-1] > megabytes else record.accuracy
    )


@dataclass(frozen=True, kw_only=True)
class CellStats:
    """One cell of the table over all seeds: accuracies in percent, differences in points."""

    panel: str
    row: str
    column: str
    seeds: int
    accuracy: float
    std: float
    best: float
    at_gossips_bytes: float | None
    difference: float | None
    """To the row (or column) that all are compared with, paired by seed."""
    interval: float | None
    paper: float | None
    paper_std: float | None
    megabytes: float
    seconds: float
    taken: float
    precision: float | None
    base_rate: float | None
    attackers_weight: float | None


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """A table of runs with its records."""

    experiment: TableOfRuns
    design: Design
    head: TableHead
    records: Sequence[CellRecord]
    errors: Mapping[str, str] = field(default_factory=dict)

    # -- what was run ------------------------------------------------------------------------------

    @cached_property
    def by_key(self) -> dict[CellKey, dict[int, CellRecord]]:
        found: dict[CellKey, dict[int, CellRecord]] = {}
        for record in self.records:
            found.setdefault(record.key, {})[record.seed] = record
        return found

    def of(self, panel: str, row: str, column: str) -> dict[int, CellRecord]:
        """The runs of a cell, by seed."""
        return self.by_key.get((panel, row, column), {})

    def columns(self, panel: str | None = None) -> list[str]:
        """Columns that have at least one run (in a panel)."""
        have = {record.column for record in self.records if panel in (None, record.panel)}
        return [column for column in self.design.columns if column in have]

    @property
    def panels(self) -> list[str]:
        """Panels that have at least one run."""
        have = {record.panel for record in self.records}
        return [panel for panel in self.design.panels if panel in have]

    @property
    def rows(self) -> list[str]:
        """Rows that have at least one run."""
        have = {record.row for record in self.records}
        return [row for row in self.design.rows if row in have]

    @property
    def seeds(self) -> list[int]:
        """Of any run."""
        return sorted({record.seed for record in self.records})

    # -- numbers -----------------------------------------------------------------------------------

    def accuracies(
        self, panel: str, row: str, column: str, equal_bytes: bool = False
    ) -> dict[int, float]:
        """By seed, in percent; where there are attackers, of the peers that are honest in every
        column. With equal bytes: when as many had been received as Gossip needs for its whole
        run."""
        mine = self.of(panel, row, column)
        if equal_bytes:
            gossip = self.of(panel, GOSSIP, column)
            both = {seed: gossip[seed].megabytes for seed in mine if seed in gossip}
            found = {seed: at_bytes(mine[seed], most) for seed, most in both.items()}
            return {seed: 100 * value for seed, value in found.items() if value is not None}
        return {seed: 100 * self._honest(record) for seed, record in mine.items()}

    def _honest(self, record: CellRecord) -> float:
        """The accuracy of a run, of the peers that are honest in every column."""
        bad = self._attackers.get((record.panel, record.seed))
        if not bad:
            return record.accuracy
        honest = [value for k, value in enumerate(record.final) if k not in bad]
        return float(np.mean(honest))  # type: ignore[arg-type]

    @cached_property
    def _attackers(self) -> dict[tuple[str, int], set[int]]:
        """Who attacks in any run of a panel and seed: compared are those who are honest in all of
        them."""
        found: dict[tuple[str, int], set[int]] = {}
        for record in self.records:
            bad = {k for k, value in enumerate(record.final) if value is None}
            if bad and not self.experiment.focus:
                found.setdefault((record.panel, record.seed), set()).update(bad)
        return found

    def difference(
        self, ours: CellKey, theirs: CellKey, equal_bytes: bool = False
    ) -> Difference | None:
        """One cell minus another, paired by seed."""
        return paired(self.accuracies(*ours, equal_bytes), self.accuracies(*theirs, equal_bytes))

    def baseline(self, panel: str, row: str, column: str) -> CellKey | None:
        """The cell that this one is compared with."""
        against = self.experiment.against
        key = (panel, row, against[1:]) if against.startswith("|") else (panel, against, column)
        return None if not against or key == (panel, row, column) else key

    def entry(self, panel: str, row: str, column: str) -> CellStats | None:
        """A cell over all its seeds; None if it was not run."""
        return self._by_cell.get((panel, row, column))

    @property
    def entries(self) -> list[CellStats]:
        return list(self._by_cell.values())

    @cached_property
    def _by_cell(self) -> dict[CellKey, CellStats]:
        axes = self.design
        keys = ((p, r, c) for p in axes.panels for r in axes.rows for c in axes.columns)
        return {key: entry for key in keys if (entry := self._entry(*key)) is not None}

    def _entry(self, panel: str, row: str, column: str) -> CellStats | None:
        found = self.accuracies(panel, row, column)
        if not found:
            return None
        runs = [self.of(panel, row, column)[seed] for seed in found]
        other = self.baseline(panel, row, column)
        apart = self.difference((panel, row, column), other) if other else None
        paper, paper_std = self._printed(panel, row, column)
        equal = list(self.accuracies(panel, row, column, equal_bytes=True).values())
        values = list(found.values())
        return CellStats(
            panel=panel,
            row=row,
            column=column,
            seeds=len(values),
            accuracy=float(np.mean(values)),
            std=std(values),
            best=100 * float(np.mean([r.best for r in runs])),
            at_gossips_bytes=float(np.mean(equal)) if equal else None,
            difference=apart.mean if apart else None,
            interval=apart.half if apart else None,
            paper=paper,
            paper_std=paper_std,
            megabytes=float(np.mean([r.megabytes for r in runs])),
            seconds=float(np.mean([r.seconds for r in runs])),
            taken=float(np.mean([r.taken for r in runs])),
            precision=_mean_of([r.precision for r in runs]),
            base_rate=_mean_of([r.base_rate for r in runs]),
            attackers_weight=_mean_of([r.attackers_weight for r in runs]),
        )

    def _printed(self, panel: str, row: str, column: str) -> tuple[float | None, float | None]:
        """What the paper has in this place, unless other data stand in."""
        printed = self.experiment.printed
        if printed.panel not in ("", panel) or self.design.stand_in:
            return None, None
        return printed.numbers.get((row, column), (None, None))

    # -- what is made of them ----------------------------------------------------------------------

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return judge(self)

    def figure(self) -> Figure:
        return self.experiment.picture(self)

    def shown(self) -> list[Grid]:
        return [*text.grids(self), *text.differences(self), *text.further(self)]

    def remarks(self) -> list[str]:
        return text.remarks(self)

    def markdown(self) -> str:
        """Everything but the picture, in Markdown."""
        return text.markdown(self)

    def save(self, path: Path) -> Path:
        """records.jsonl, table.md, table.csv, verdicts.csv, figure.svg and report.html, and what
        the experiment has of its own. A picture that cannot be drawn of what is there loses nothing
        else."""
        return page.save(self, path)


def _mean_of(values: Sequence[float | None]) -> float | None:
    """Of those that are there."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
