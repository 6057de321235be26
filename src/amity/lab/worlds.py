"""The same comparison in several worlds, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config import SECTIONS, Config, nested, read_spec
from amity.core import Strategy
from amity.errors import ConfigError, RunDirError
from amity.files import csv_text, write_atomically
from amity.lab.compare import DEFAULT_STRATEGIES, Before, compared, slug, unseen, with_layer
from amity.lab.comparison import Comparison, read_comparison
from amity.lab.run import Given, as_config, new_dir, sinks_of
from amity.processes import Aside
from amity.show.figures import svg
from amity.show.page import replayed
from amity.show.side_by_side import PartsOf, markdown, picture, worlds_html
from amity.sinks.stream import Wanted
from amity.store import note_command, refuse_foreign

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX = "worlds.json"
"""The folder of every world, by its label."""


@dataclass(frozen=True)
class Worlds:
    """One comparison for each world: the same strategies, seeds, data and partition, another
    shift."""

    path: Path
    comparisons: Mapping[str, Comparison]

    @property
    def errors(self) -> dict[str, str]:
        return {
            f"{world}: {what}": error
            for world, comparison in self.comparisons.items()
            for what, error in comparison.errors.items()
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per world and strategy, as plain data."""
        return [
            {"world": world, **row}
            for world, comparison in self.comparisons.items()
            for row in comparison.rows
        ]

    def figure(self) -> Figure:
        """Accuracy in every world, and who took from whom where there are groups."""
        return picture(self.comparisons)

    def save(self) -> Path:
        """Write summary.csv, summary.md, worlds.svg and report.html; returns the path of the
        report."""
        return self._write(lambda world: self.comparisons[world].parts)

    def _write(self, parts_of: PartsOf) -> Path:
        replays, drawn = replayed(self.path), svg(self.figure())
        write_atomically(self.path / "summary.csv", csv_text(self.rows).encode())
        write_atomically(self.path / "summary.md", markdown(self.comparisons).encode())
        write_atomically(self.path / "worlds.svg", drawn.encode())
        report = worlds_html(self.comparisons, self.path, parts_of, drawn, replays)
        write_atomically(self.path / "report.html", report.encode())
        return self.path / "report.html"


def compare_worlds(
    shifts: Sequence[str],
    strategies: Sequence[str | Strategy] = DEFAULT_STRATEGIES,
    seeds: Sequence[int] = (0, 1, 2),
    config: Given = None,
    out: str | Path | None = None,
    jobs: int = 0,
    sinks: Wanted = None,
    before: Before = unseen,
    **overrides: Any,
) -> Worlds:
    """Compare strategies in several worlds: `amity.compare_worlds(["permute_labels:groups=4",
    "none"], ["local", "gossip", "friends"], seeds=[0, 1], partition="iid")`.

    Two worlds of one seed differ in their shift and in nothing else. All else is as in `compare`:
    worlds come one after the other, and sinks are opened anew for each. The report of a world is
    drawn while the next one runs.
    """
    told = sinks_of(config, sinks)
    worlds = _worlds(as_config(config, overrides), shifts)
    path = Path(out) if out else new_dir("worlds")
    _prepare(path, {label: slug(label) for label in worlds})
    found: dict[str, Comparison] = {}
    drawn: dict[str, Aside[list[str]]] = {}
    for label, base in worlds.items():
        one = compared(strategies, seeds, base, path / slug(label), jobs, told, before)
        found[label], drawn[label] = one, Aside(partial(_saved, one))
    result = Worlds(path, found)
    result._write(lambda world: drawn[world].result())
    return result


def _saved(comparison: Comparison) -> list[str]:
    """Write the report of a world; returns its parts, for the page of all worlds."""
    comparison.save()
    return comparison.parts


def _worlds(base: Config, shifts: Sequence[str]) -> dict[str, Config]:
    """The config of every world; mistakes are found before anything runs."""
    if isinstance(shifts, str) or not shifts:
        raise ConfigError(f"shifts: expected a list such as ['rotate', 'none'], got {shifts!r}")
    if base.shift.name != SECTIONS["shift"].default:
        raise ConfigError("shift: worlds are named by shifts=NAME:option=value,...; leave it out")
    _check_commas(shifts)
    worlds: dict[str, Config] = {}
    for spec in shifts:
        if spec in worlds:
            raise ConfigError(f"shifts: {spec!r} is named twice")
        shift = read_spec(spec, SECTIONS["shift"].registry, "shifts")
        options = {f"shift.{key}": value for key, value in shift.items()}
        worlds[spec] = with_layer(base, nested(options))
    return worlds


def _check_commas(shifts: Sequence[str]) -> None:
    """A number is no world: it is what a comma cut off from the sizes before it."""
    for at, spec in enumerate(shifts):
        if at and spec.isdecimal():
            cut = [shifts[at - 1], *takewhile(str.isdecimal, shifts[at:])]
            raise ConfigError(
                f"shifts: {spec!r} is no world, commas stand between worlds; write + between sizes:"
                f" {'+'.join(cut)}"
            )


def _prepare(path: Path, folders: Mapping[str, str]) -> None:
    """Take the folder, or refuse one that is something else."""
    refuse_foreign(path, INDEX, found="no worlds")
    known = read_index(path) if (path / INDEX).exists() else {}
    write_atomically(path / INDEX, json.dumps({**known, **folders}, indent=1).encode())
    note_command(path)


def read_index(path: Path) -> dict[str, str]:
    try:
        folders: dict[str, str] = json.loads((path / INDEX).read_bytes())
    except (OSError, ValueError):
        raise RunDirError(f"{path / INDEX}: cannot be read; repeat the command") from None
    return folders


def read_worlds(path: Path) -> Worlds:
    """Worlds from their directory."""
    folders = read_index(path)
    return Worlds(path, {label: read_comparison(path / name) for label, name in folders.items()})
