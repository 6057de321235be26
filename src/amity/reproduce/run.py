"""Run an experiment: cells in parallel, finished ones kept, records gathered, table, picture and
page written."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amity.errors import AmityError, Failure
from amity.lab.cells import Cell, run_cells
from amity.lab.result import Result
from amity.peer.privacy import needs_opacus
from amity.processes import cores
from amity.reproduce.catalogue import PRESETS, experiment
from amity.reproduce.experiment import Experiment, Key, Layer, given_layers
from amity.reproduce.record import Head, record_of
from amity.reproduce.table import Table
from amity.round.build import bad_peers
from amity.sinks.stream import Stream, Wanted
from amity.store import RunDir, finished, read_config, refuse_unusable
from amity.topology import peer_names

ROOT = Path("runs") / "reproduce"
"""Where tables and their cells are kept, unless `out=` says otherwise."""


@dataclass(frozen=True)
class Todo:
    """An experiment with its cells: what is about to be run."""

    experiment: Experiment
    preset: str
    seeds: tuple[int, ...]
    keyed: Sequence[tuple[Key, Cell]]
    root: Path
    command: str
    part: str = ""
    """What tells this part of the table from others; empty: the whole table at the preset's
    sizes."""
    damaged: Mapping[Path, str] = field(default_factory=dict)
    """Folders of cells that cannot be used, and why."""
    done: frozenset[Path] = frozenset()
    """Cells that were finished when it was planned."""

    @property
    def path(self) -> Path:
        return (
            self.root / f"{self.experiment.name}-{self.preset}{self.part and f'-part-{self.part}'}"
        )

    @property
    def cells(self) -> list[Cell]:
        """Every run once, also where the table shows it twice; without those whose folders are
        damaged."""
        return list(
            {cell.path: cell for _, cell in self.keyed if cell.path not in self.damaged}.values()
        )

    def run(self, jobs: int = 0, sinks: Wanted = None) -> Table:
        """Run what is missing and gather the table. A cell that fails does not take the others
        along."""
        cells = self.cells
        if any(cell.config.engine.name != "local" for cell in cells):
            jobs = jobs or 1  # a cell has the whole cluster
        shown = [replace(cell, row=cell.label.split(" | ")[-2]) for cell in cells]
        with Stream(sinks) as stream:
            outcome = run_cells(shown, jobs, stream.take, self.path)
        late = {
            path
            for path, bad in _state([cells[at] for at in outcome.errors]).items()
            if bad is None
        }
        failed = {cells[at].path: error for at, error in outcome.errors.items()} | dict(
            self.damaged
        )
        failed = {
            path: error for path, error in failed.items() if path not in late
        }  # another command finished it
        errors = self._errors(failed)
        if len(failed) == len({cell.path for _, cell in self.keyed}):
            raise Failure("no run succeeded; first error: " + next(iter(errors.values())))
        return self._table(
            [(key, cell) for key, cell in self.keyed if cell.path not in failed], errors
        )

    def _errors(self, failed: Mapping[Path, str]) -> dict[str, str]:
        return {
            f"{cell.label} seed {cell.seed}": failed[cell.path]
            for _, cell in self.keyed
            if cell.path in failed
        }

    def so_far(self) -> Table:
        """The table of what is finished, also while others are still at work on the rest; nothing
        is run."""
        done = [(key, cell) for key, cell in self.keyed if cell.path in self.done]
        if not done:
            bad = "".join(f"; {error}" for error in list(self.damaged.values())[:1])
            raise Failure(
                f"no run of {self.experiment.name} at {self.preset} is finished in {self.root}{bad}"
            )
        return self._table(done, self._errors(self.damaged))

    def _table(self, keyed: Sequence[tuple[Key, Cell]], errors: Mapping[str, str]) -> Table:
        focus = self.experiment.focus
        records = [
            record_of(key, Result(cell.path, read_config(cell.path)), focus) for key, cell in keyed
        ]
        return Table(self.experiment, self.head, records, errors)

    @property
    def head(self) -> Head:
        machine = f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}"
        configs = [cell.config for cell in self.cells]

        def each(values: Iterable[Any]) -> str:
            return " or ".join(dict.fromkeys(map(str, values)))

        peers, rounds = each(c.peers for c in configs), each(c.rounds for c in configs)
        held = each(c.partition.options.get("samples") or "all" for c in configs)
        epochs = each(c.train.epochs for c in configs)
        batch, lr = each(c.train.batch for c in configs), each(c.train.lr for c in configs)
        model = each(c.model.name for c in configs)
        sizes = (
            f"{peers} peers x {held} examples, {rounds} rounds x {epochs} epochs, batch {batch}, lr"
            f" {lr}, {model}"
        )
        return Head(self.experiment.name, self.preset, self.command, sizes, machine)


def _state(cells: Iterable[Cell]) -> dict[Path, str | None]:
    """Of every cell's folder: None if its run is finished, what is wrong with it if it cannot be
    used, else nothing."""
    out: dict[Path, str | None] = {}
    for cell in cells:
        if cell.path in out:
            continue
        try:
            done = finished(cell.path, cell.config)
            if not done:
                RunDir.check(cell.path, cell.config)
            out[cell.path] = None if done else ""
        except AmityError as error:
            out[cell.path] = (
                f"{error}. Delete {cell.path} and repeat the command: only this run is made again"
            )
    return out


def prepare(
    name: str,
    preset: str = "cpu",
    seeds: Sequence[int] = (),
    root: Path = ROOT,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    panels: Sequence[str] = (),
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    command: str = "",
) -> Todo:
    """What would be run; refuses what cannot be."""
    asked = experiment(name, preset).with_rows(rows).only("columns", columns).only("panels", panels)
    given: list[Layer] = given_layers(file, overrides or {})
    chosen = tuple(seeds) or asked.seeds
    refuse_unusable(root)
    keyed = asked.cells(chosen, root, given)
    for _, cell in keyed:
        needs_opacus(cell.config.privacy.instance)
        bad_peers(cell.config, peer_names(cell.config.peers))
    state = _state([cell for _, cell in keyed])
    damaged = {path: bad for path, bad in state.items() if bad}
    part = ""
    if rows or columns or panels or given or set(chosen) != set(asked.seeds):
        what = json.dumps(
            [sorted(rows), sorted(columns), sorted(panels), given, sorted(chosen)], default=str
        )
        part = hashlib.sha256(what.encode()).hexdigest()[:6]
    command = command or f"amity reproduce {name} --preset {preset}"
    done = frozenset(path for path, bad in state.items() if bad is None)
    todo = Todo(asked, preset, chosen, keyed, root, command, part, damaged, done)
    refuse_unusable(todo.path)
    return todo


def reproduce(
    name: str,
    preset: str = "cpu",
    seeds: Sequence[int] = (),
    out: str | Path = ROOT,
    jobs: int = 0,
    sinks: Wanted = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    panels: Sequence[str] = (),
    **overrides: Any,
) -> Table:
    """Run an experiment and write its table, figure and page: `amity.reproduce.reproduce("tau",
    "smoke")`."""
    todo = prepare(name, preset, seeds, Path(out), rows, columns, panels, overrides=overrides)
    table = todo.run(jobs, sinks)
    table.save(todo.path)
    return table


__all__ = ["PRESETS", "ROOT", "Todo", "prepare", "reproduce"]
