"""A sweep read back: what was tried, what it came to, and what was chosen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.core import Strategy
from amity.errors import RunDirError
from amity.files import csv_text, write_atomically
from amity.lab.comparison import Comparison, read_comparison
from amity.show.notebook import figure_of, save, short_html
from amity.show.story import Story
from amity.show.tried import ChosenOn, Tried, Tries, scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEP = "sweep.json"
"""What was tried, and by what the best is chosen."""
Spec = str | Strategy
"""A strategy by name, with its options, or as an object."""


@dataclass(frozen=True)
class Try:
    """One point of a strategy's grid."""

    strategy: str
    """What it is called in tables."""
    values: tuple[tuple[str, Any], ...]
    spec: Spec = ""
    """What was asked for: a name with options, or an object; empty: as it is called."""

    @property
    def label(self) -> str:
        return ", ".join([self.strategy, *(f"{key}={value}" for key, value in self.values)])


@dataclass(frozen=True)
class Sweep:
    """All tries as one comparison, and the best try of each strategy."""

    comparison: Comparison
    tries: Sequence[Try]
    chosen_on: ChosenOn
    """`validation` if the partition sets some examples aside, else `test`, which flatters every
    strategy alike."""

    @property
    def path(self) -> Path:
        return self.comparison.path

    @cached_property
    def tried(self) -> Tries:
        """All tries with their scores."""
        return Tries([self._tried(one) for one in self.tries], self.chosen_on)

    def _tried(self, one: Try) -> Tried:
        runs = self.comparison.results.get(one.label, [])
        values = {key: _plain(value) for key, value in one.values}
        found = scores(runs, self.chosen_on)
        return Tried(one.label, one.strategy, values, found, self.comparison.config.metric)

    def score(self, a_try: Try) -> float:
        return self._tried(a_try).score

    @property
    def best(self) -> dict[str, Try]:
        by_label = {one.label: one for one in self.tries}
        return {name: by_label[one.label] for name, one in self.tried.best.items()}

    @cached_property
    def story(self) -> Story:
        """Of the winners."""
        labels = [one.label for one in self.best.values()]
        runs = {label: self.comparison.results.get(label, []) for label in labels}
        winners = Comparison(self.path, runs, self.comparison.errors)
        return replace(winners.story, tries=self.tried)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per try, as plain data, with the value of every key and whether it was chosen."""
        keys = dict.fromkeys(key for one in self.tries for key, _ in one.values)
        known = {one.label: one for one in self.tries}
        best = {one.label for one in self.best.values()}
        rows = []
        for line in self.comparison.lines:
            one = known.get(line.label, Try(line.label, ()))
            values = {key: dict(one.values).get(key, "") for key in keys}
            chosen = {"chosen": line.label in best}
            rows.append({"strategy": one.strategy, **values, **chosen, **line.as_dict()})
        return rows

    def figure(self, name: str = "grid") -> Figure:
        """A panel of the report as a matplotlib figure: grid, accuracy, ..."""
        return figure_of(self.story, name)

    def save(self, path: str | Path | None = None, figure: str = "grid") -> Path:
        """As `Comparison.save`."""
        if path is not None:
            return save(self.story, Path(path), figure, self._html, lambda: self.rows)
        write_atomically(self.path / "summary.csv", csv_text(self.rows).encode())
        lines = json.dumps(self.rows, indent=1, default=str)
        write_atomically(self.path / "summary.json", lines.encode())
        write_atomically(self.path / "report.html", self._html().encode())
        return self.path / "report.html"

    def _html(self) -> str:
        from amity.show.sweep import sweep_html

        return sweep_html(self)

    def _repr_html_(self) -> str:
        return short_html(self.story)


def _plain(value: Any) -> int | float | str:
    """Numbers as they are, everything else as it is called in the label."""
    return value if isinstance(value, int | float) else str(value)


def note_tries(path: Path, tries: Sequence[Try], chosen_on: ChosenOn) -> None:
    """Write down what is tried, beside what was tried there before."""
    before = _read(path)[0] if (path / SWEEP).is_file() else []
    known = {one.label: one for one in (*before, *tries)}
    lines = [
        {"strategy": one.strategy, "values": [(key, _plain(value)) for key, value in one.values]}
        for one in known.values()
    ]
    text = json.dumps({"chosen_on": chosen_on, "tries": lines}, indent=1)
    write_atomically(path / SWEEP, text.encode())


def _read(path: Path) -> tuple[list[Try], ChosenOn]:
    try:
        content = json.loads((path / SWEEP).read_bytes())
        tries = [
            Try(str(one["strategy"]), tuple((str(k), v) for k, v in one["values"]))
            for one in content["tries"]
        ]
        return tries, "validation" if content["chosen_on"] == "validation" else "test"
    except (OSError, ValueError, KeyError, TypeError):
        raise RunDirError(f"{path / SWEEP}: cannot be read; repeat the command") from None


def read_sweep(path: Path) -> Sweep:
    """A sweep from its directory: its finished runs, even if others are still missing."""
    tries, chosen_on = _read(path)
    return Sweep(read_comparison(path), tries, chosen_on)
