"""Several strategies on the same data, graph and seeds, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config import Config
from amity.errors import RunDirError
from amity.files import csv_text, write_atomically
from amity.lab.result import Result
from amity.show.notebook import figure_of, frame, save, short_html
from amity.show.story import Story
from amity.show.summary import Line
from amity.store import read_config
from amity.strategies.local import Local

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """Strategies x seeds. In a notebook it shows itself; `comparison.table` is a pandas
    DataFrame."""

    path: Path
    results: Mapping[str, Sequence[Result]]
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[Line]:
        return self.story.lines

    @property
    def alone(self) -> Sequence[Result]:
        """The runs of Local, if it takes part exactly once."""
        found = [
            runs
            for runs in self.results.values()
            if runs and isinstance(runs[0].config.strategy.instance, Local)
        ]
        return found[0] if len(found) == 1 else []

    @property
    def fair(self) -> list[Line]:
        """The lines of strategies that a real network could run."""
        return [line for line in self.lines if line.label not in self.story.references]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per strategy, as plain data."""
        return [line.as_dict() for line in self.lines]

    @property
    def table(self) -> Any:
        """One row per strategy: a pandas DataFrame, or a list of dicts without pandas."""
        return frame(self.rows)

    @property
    def config(self) -> Config:
        return next(runs[0].config for runs in self.results.values() if runs)

    @cached_property
    def story(self) -> Story:
        runs = {label: runs for label, runs in self.results.items() if runs}
        return Story(runs, self.alone, self.errors)

    @cached_property
    def parts(self) -> list[str]:
        """All that its report says, drawn once."""
        from amity.show.report import comparison_parts

        return comparison_parts(self)

    def figure(self, name: str = "accuracy") -> Figure:
        """A panel of the report as a matplotlib figure: accuracy, gains, bytes, matrix, taken,
        ..."""
        return figure_of(self.story, name)

    def save(self, path: str | Path | None = None, figure: str = "accuracy") -> Path:
        """Write a picture (.pdf, .png, .svg), the table (.csv) or the report (.html). Without a
        path, write summary.csv, summary.json and report.html into the comparison's own folder.
        Returns the path that was written (without a path: that of the report)."""
        if path is not None:
            return save(self.story, Path(path), figure, self._html, lambda: self.table)
        write_atomically(self.path / "summary.csv", csv_text(self.rows).encode())
        write_atomically(self.path / "summary.json", json.dumps(self.rows, indent=1).encode())
        write_atomically(self.path / "report.html", self._html().encode())
        return self.path / "report.html"

    def _html(self) -> str:
        from amity.show.report import comparison_html

        return comparison_html(self)

    def _repr_html_(self) -> str:
        return short_html(self.story)


def read_comparison(path: Path) -> Comparison:
    """A comparison from its directory: its finished runs, even if others are still missing."""
    results = {label: [r for r in runs if r.complete] for label, runs in runs_of(path).items()}
    if not any(results.values()):
        raise RunDirError(
            f"{path}: no run of this comparison has ended yet; repeat the command with out={path}"
        )
    return Comparison(path, results)


def runs_of(path: Path) -> dict[str, list[Result]]:
    """All runs of a comparison that have begun, by label."""
    try:
        folders: dict[str, list[str]] = json.loads((path / "comparison.json").read_bytes())
    except (OSError, ValueError):
        raise RunDirError(
            f"{path}: holds neither a run (config.toml) nor a comparison (comparison.json)"
        ) from None
    return {
        label: [
            Result(path / name, read_config(path / name))
            for name in names
            if (path / name / "config.toml").exists()
        ]
        for label, names in folders.items()
    }
