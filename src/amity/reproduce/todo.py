"""A table that is about to be run: its cells in parallel, finished ones kept, records gathered."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config import Config
from amity.errors import AmityError, Failure
from amity.lab.cells import Cell, run_cells
from amity.lab.compare import check_seeds
from amity.lab.result import Result
from amity.peer.privacy import needs_opacus
from amity.processes import cores
from amity.reproduce.choice import part_of
from amity.reproduce.design import CellKey, Design
from amity.reproduce.experiment import Say, Scope
from amity.reproduce.presets import Layer
from amity.reproduce.record import TableHead, record_of
from amity.reproduce.table import RunTable
from amity.round.build import bad_peers
from amity.sinks.stream import Stream, Wanted
from amity.store import RunDir, finished, read_config, refuse_unusable
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.reproduce.table_of_runs import TableOfRuns

Keyed = tuple[CellKey, Cell]
"""A cell, and where it stands in the table."""


@dataclass(frozen=True, kw_only=True)
class RunsTodo:
    """A table with its cells: what is about to be run."""

    experiment: TableOfRuns
    design: Design
    scope: Scope
    keyed: Sequence[Keyed]
    part: str = ""
    """What tells this part of the table from others; empty: the whole table at the preset's
    sizes."""
    damaged: Mapping[Path, str] = field(default_factory=dict)
    """Folders of cells that cannot be used, and why."""
    done: frozenset[Path] = frozenset()
    """Cells that were finished when it was prepared."""

    @property
    def path(self) -> Path:
        return self.scope.root / f"{self.scope.folder}{self.part and f'-part-{self.part}'}"

    @property
    def cells(self) -> list[Cell]:
        """Every run once, also where the table shows it twice; without those whose folders are
        damaged."""
        usable = [cell for _, cell in self.keyed if cell.path not in self.damaged]
        return list({cell.path: cell for cell in usable}.values())

    def run(self, jobs: int = 0, sinks: Wanted = None, say: Say | None = None) -> RunTable:
        """Run what is missing and gather the table. A cell that fails does not take the others
        along."""
        cells = self.cells
        if say is not None:
            for line in self.design.left_out:
                say(line)
        if not all(cell.config.engine.instance.here for cell in cells):
            jobs = jobs or 1  # a cell has the whole cluster
        with Stream(sinks) as stream:
            outcome = run_cells(cells, jobs, stream.take, self.path)
        state = _state([cells[at] for at in outcome.errors])
        failed = {
            cells[at].path: error
            for at, error in outcome.errors.items()
            if state[cells[at].path] is not None  # else another command has finished it
        } | dict(self.damaged)
        errors = self._errors(failed)
        if len(failed) == len({cell.path for _, cell in self.keyed}):
            raise Failure("no run succeeded; first error: " + next(iter(errors.values())))
        left = [(key, cell) for key, cell in self.keyed if cell.path not in failed]
        return self._table(left, errors)

    def so_far(self) -> RunTable:
        """The table of what is finished, also while others are still at work on the rest; nothing
        is run."""
        done = [(key, cell) for key, cell in self.keyed if cell.path in self.done]
        if not done:
            bad = "".join(f"; {error}" for error in list(self.damaged.values())[:1])
            raise Failure(
                f"no run of {self.scope.name} at {self.scope.preset} is finished in"
                f" {self.scope.root}{bad}"
            )
        return self._table(done, self._errors(self.damaged))

    def _errors(self, failed: Mapping[Path, str]) -> dict[str, str]:
        return {
            f"{cell.label} seed {cell.seed}": failed[cell.path]
            for _, cell in self.keyed
            if cell.path in failed
        }

    def _table(self, keyed: Sequence[Keyed], errors: Mapping[str, str]) -> RunTable:
        focus = self.experiment.focus
        records = [
            record_of(key, Result(cell.path, read_config(cell.path)), focus) for key, cell in keyed
        ]
        return RunTable(
            experiment=self.experiment,
            design=self.design,
            head=self.head,
            records=records,
            errors=errors,
        )

    @property
    def head(self) -> TableHead:
        return TableHead(
            experiment=self.scope.name,
            preset=self.scope.preset,
            command=self.scope.command
            or f"amity reproduce {self.scope.name} --preset {self.scope.preset}",
            sizes=sizes_of([cell.config for cell in self.cells]),
            machine=f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}",
        )


def sizes_of(configs: Sequence[Config]) -> str:
    """How large the runs are, in one line."""

    def each(values: Iterable[Any]) -> str:
        return " or ".join(dict.fromkeys(map(str, values)))

    peers, rounds = each(c.peers for c in configs), each(c.rounds for c in configs)
    held = each(c.partition.options.get("samples") or "all" for c in configs)
    epochs = each(c.train.epochs for c in configs)
    batch, lr = each(c.train.batch for c in configs), each(c.train.lr for c in configs)
    model = each(c.model.name for c in configs)
    return (
        f"{peers} peers x {held} examples, {rounds} rounds x {epochs} epochs, batch {batch}, lr"
        f" {lr}, {model}"
    )


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


def cell_name(config: Config) -> str:
    """What a run depends on, as the name of its folder: its config, and the code of classes of
    one's own."""
    code = "".join(config.own_code.values())
    own = f"-{hashlib.sha256(code.encode()).hexdigest()[:8]}" if code else ""
    return config.digest[:20] + own


def cells_of(
    design: Design, seeds: Sequence[int], root: Path, given: Sequence[Layer] = ()
) -> list[Keyed]:
    """One cell per key and seed, all of the first seed first. A cell's folder is named by what it
    depends on, so that tables that have cells in common share them."""
    check_seeds(seeds)
    design.refuse(given)
    out = []
    for seed in seeds:
        for key in design.cell_keys():
            config = design.config(key, seed, given)
            label = " | ".join(part for part in key if part)
            path = root / "cells" / cell_name(config)
            out.append((key, Cell(label, seed, config, path, row=key[1])))
    return out


def prepare_runs(experiment: TableOfRuns, scope: Scope) -> RunsTodo:
    """What would be run of a table; refuses what cannot be."""
    whole = experiment.at(scope.name, scope.preset)
    design = experiment.possible(part_of(whole, scope.rows, scope.columns, scope.panels))
    seeds, given = scope.seeds or design.seeds, scope.given
    refuse_unusable(scope.root)
    keyed = cells_of(design, seeds, scope.root, given)
    for _, cell in keyed:
        needs_opacus(cell.config.privacy.instance)
        bad_peers(cell.config, peer_names(cell.config.peers))
    state = _state(cell for _, cell in keyed)
    todo = RunsTodo(
        experiment=experiment,
        design=design,
        scope=scope,
        keyed=keyed,
        part=_part(scope, seeds, design, given),
        damaged={path: bad for path, bad in state.items() if bad},
        done=frozenset(path for path, bad in state.items() if bad is None),
    )
    refuse_unusable(todo.path)
    return todo


def _part(scope: Scope, seeds: Sequence[int], design: Design, given: Sequence[Layer]) -> str:
    """A short name for this part of a table; empty if it is the whole."""
    chosen = [sorted(scope.rows), sorted(scope.columns), sorted(scope.panels)]
    if not (any(chosen) or given or set(seeds) != set(design.seeds)):
        return ""
    what = json.dumps([*chosen, given, sorted(seeds)], default=str)
    return hashlib.sha256(what.encode()).hexdigest()[:6]
