"""Run one experiment into a directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amity.config import Config, load, nested, resolve
from amity.lab.result import Result
from amity.records import Report
from amity.round.build import load_data
from amity.simulate import Simulation
from amity.simulate.crew import CrewLost
from amity.store import RunDir, commits, read_config

OnRound = Callable[[Report], None]
OnPart = Callable[[int, float], None]
"""Told a round, and how much of it is done: now and then in long rounds."""


def as_config(
    config: Config | Mapping[str, Any] | str | Path | None, overrides: Mapping[str, Any]
) -> Config:
    """What the public functions take for a config: a Config, a mapping, a TOML file, or nothing."""
    if isinstance(config, Config):
        return config.replace(**overrides) if overrides else config
    if isinstance(config, Mapping):
        return resolve([nested(config), nested(overrides)])
    return load(config, overrides)


def new_dir(prefix: str) -> Path:
    """runs/PREFIX-20260131-235959, not yet taken."""
    path = base = Path("runs") / f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def run(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    out: str | Path | None = None,
    on_round: OnRound | None = None,
    on_part: OnPart | None = None,
    **overrides: Any,
) -> Result:
    """Run one experiment. `amity.run(strategy="pens", peers=10, **{"train.lr": 0.1})`.

    The directory `out` (by default a new one under runs/) is created; if it holds a run of the same
    config that did not end, that run goes on.
    """
    resolved = as_config(config, overrides)
    path = Path(out) if out else new_dir(resolved.slug)
    with Simulation(RunDir.check(path, resolved), load_data(resolved)) as simulation:
        return _go(RunDir.create(path, simulation.config), simulation, on_round, on_part)


def resume(
    path: str | Path, on_round: OnRound | None = None, on_part: OnPart | None = None
) -> Result:
    """Go on with a run that was interrupted; the end is bit-identical to that of one that was
    not."""
    directory = RunDir.open(Path(path))
    with Simulation(directory.config, load_data(directory.config)) as simulation:
        return _go(directory, simulation, on_round, on_part)


def _go(
    directory: RunDir, simulation: Simulation, on_round: OnRound | None, on_part: OnPart | None
) -> Result:
    config = directory.config
    simulation.on_part = on_part
    with directory:
        directory.recover(simulation)
        losses, whole = 0, True
        while simulation.next_round < config.rounds or not whole:
            try:
                if not whole:
                    simulation.rewind()
                    directory.recover(simulation)
                    whole = True
                report = _one_round(directory, simulation)
            except CrewLost:
                losses, whole = losses + 1, False
                if losses > LOSSES:
                    raise
                continue
            if on_round:
                on_round(report)
    return Result(directory.path, config)


LOSSES = 10
"""So often may a part of the crew be lost in a run, before something other than bad luck must be
the reason."""


def _one_round(directory: RunDir, simulation: Simulation) -> Report:
    report = simulation.round()
    directory.append(report)
    done = simulation.next_round
    if done % directory.config.checkpoint.every == 0 or done == directory.config.rounds:
        directory.checkpoint(simulation)
    return report


def restored(path: str | Path) -> Simulation:
    """The simulation as the newest checkpoint of a run left it, in this process."""
    config = read_config(Path(path))
    own = config.engine.common
    here = {"name": "local", "workers": 1, "vectorise": own.vectorise, "group": own.group}
    config = config.replace(engine=here)
    simulation = Simulation(config, load_data(config))
    commit = next(commits(Path(path)), None)
    if commit is not None and commit.tensors is not None:
        simulation.restore(commit.round, commit.tensors.of, commit.memory)
    return simulation
