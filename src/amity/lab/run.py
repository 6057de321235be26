"""Run one experiment into a directory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from amity.config import ASIDE, Config, code_named, guarded, load, nested, read_toml, resolve
from amity.core import Reference
from amity.errors import RunDirError
from amity.events import CellId, Tell, Teller
from amity.lab.result import Result
from amity.records import Report, RoundRecord
from amity.round.build import in_one_process, load_data
from amity.round.stopping import Stopping
from amity.simulate import Simulation
from amity.simulate.crew import CrewLost
from amity.sinks.stream import Stream, Wanted, admit_sinks
from amity.store import (
    RunDir,
    commits,
    ended,
    note_command,
    read_config,
    read_records,
    write_world,
)

Given: TypeAlias = Config | Mapping[str, Any] | str | Path | None
"""What the public functions take for a config: a Config, a mapping, a TOML file, or nothing."""


def as_config(config: Given, overrides: Mapping[str, Any], *, real: bool = False) -> Config:
    """The config of a run, with these keys on top. `real`: for real peers, which are on their guard
    unless a whole Config says what they do."""
    if isinstance(config, Config):
        return config.replace(**overrides) if overrides else config
    if isinstance(config, Mapping):
        own = {key: value for key, value in config.items() if key not in ASIDE}
        layers = [nested(own), nested(overrides)]
        code_named(layers, but=layers)  # what a program passes is its own
        return resolve(guarded(layers) if real else layers)
    return load(config, overrides, real=real)


def sinks_of(config: Given, sinks: Wanted) -> Wanted:
    """The sinks that were asked for, or those named in the file (or mapping) of the run."""
    if sinks is not None or config is None or isinstance(config, Config):
        return sinks
    if isinstance(config, Mapping):
        named: Wanted = config.get("sinks")
        return named
    given: Wanted = read_toml(config).get("sinks")
    admit_sinks(config, given)
    return given


def new_dir(prefix: str) -> Path:
    """runs/PREFIX-20260131-235959, not yet taken."""
    path = base = Path("runs") / f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def run(
    config: Given = None,
    out: str | Path | None = None,
    sinks: Wanted = None,
    **overrides: Any,
) -> Result:
    """Run one experiment. `amity.run(strategy="pens", peers=10, **{"train.lr": 0.1})`.

    The directory `out` (by default a new one under runs/) is created; if it holds a run of the same
    config that did not end, that run goes on. `sinks` are told what happens: `sinks="auto"`,
    `["plain", "tensorboard:dir=tb"]`, or objects with `take(event)` and `close()`.
    """
    stream = Stream(sinks_of(config, sinks))
    resolved = as_config(config, overrides)
    path = Path(out) if out else new_dir(resolved.slug)
    resolved = RunDir.check(path, resolved)
    with stream, teller_of(resolved, path, stream.take) as teller:
        return run_into(path, resolved, teller)


def run_into(path: Path, config: Config, teller: Teller) -> Result:
    """Does a run in its directory, and tells its events."""
    with Simulation(RunDir.check(path, config), load_data(config)) as simulation:
        return _go(RunDir.create(path, simulation.config), simulation, teller)


def resume(
    path: str | Path, sinks: Wanted = None, rounds: int | None = None, *, trust: bool = False
) -> Result:
    """Continue a run that was interrupted. The end is bit-identical to that of an uninterrupted
    run.

    With `rounds`, a run goes on past its planned end: `amity.resume("runs/x", rounds=400)`. What
    was done stays as it is, to the bit. Code that the directory names must be yours already, or you
    say `trust=True`.
    """
    stream, path = Stream(sinks), Path(path)
    directory = RunDir.open(path, trust) if rounds is None else extended(path, rounds, trust)
    config = directory.config
    with (
        stream,
        teller_of(config, directory.path, stream.take) as teller,
        Simulation(config, load_data(config)) as simulation,
    ):
        return _go(directory, simulation, teller)


def extended(path: Path, rounds: int, trust: bool = False) -> RunDir:
    """The directory of a run that is to have so many rounds, and knows it."""
    with RunDir.open(path, trust) as held:  # nobody else is at work in it
        longer = held.config.replace(rounds=rounds)
        if (last := ended(path)) is not None and rounds > held.config.rounds:
            raise RunDirError(
                f"{path}: was ended early, in round {last.round + 1} of {held.config.rounds}, by"
                f" stop.patience={held.config.stop.patience}: more rounds would change nothing;"
                " begin a new run with more patience"
            )
        return RunDir.create(path, RunDir.check(path, longer, extend=True), extend=True)


def teller_of(
    config: Config, path: Path, tell: Tell, *, label: str = "", group: str = "", row: str = ""
) -> Teller:
    """The teller of a run's events. The run stands alone, or is a cell of a group."""
    cell = CellId(
        label=label or config.label, seed=config.seed, path=str(path), group=group, row=row
    )
    return Teller(
        cell,
        tell,
        config=config.to_dict(),
        rounds=config.rounds,
        reference=isinstance(config.strategy.instance, Reference),
    )


def _go(directory: RunDir, simulation: Simulation, teller: Teller) -> Result:
    config = directory.config
    simulation.on_part = teller.progress
    course = _Course(directory, simulation)
    with directory:
        if (dataset := load_data(config)).form is not None:
            directory.same_data(dataset.schema)
        note_command(directory.path)
        write_world(directory.path, simulation.friendship, dataset.names)
        teller.started(course.begin(), config.to_dict())
        losses, whole = 0, True
        while not course.over or not whole:
            try:
                if not whole:
                    simulation.rewind()
                    teller.started(course.begin(), config.to_dict())
                    whole = True
                report = course.round()
            except CrewLost:
                losses, whole = losses + 1, False
                if losses > LOSSES:
                    raise
                continue
            teller.round(report)
    return Result(directory.path, config)


LOSSES = 10
"""How many times a part of the crew may be lost in one run: more than that is not bad luck."""


class _Course:
    """A run on its way through its directory."""

    def __init__(self, directory: RunDir, simulation: Simulation) -> None:
        self._directory, self._simulation = directory, simulation
        self._config = directory.config
        self._stopping, self._ended = Stopping(self._config.stop, self._config.metric.more), False

    def begin(self) -> int:
        """Go back to the newest checkpoint. Returns the next round; for a run that was ended early,
        the number of all rounds: none is to come."""
        path, first = self._directory.path, self._directory.recover(self._simulation)
        self._stopping.recall(read_records(path / "rounds.jsonl", RoundRecord))
        self._ended = ended(path) is not None
        return self._config.rounds if self._ended else first

    @property
    def over(self) -> bool:
        return self._ended or self._simulation.next_round >= self._config.rounds

    def round(self) -> Report:
        """The next round, written down; the last one, whichever it is, with a checkpoint."""
        report, directory = self._simulation.round(), self._directory
        why = self._stopping.verdict(report.network)
        if why is not None and not self.over:
            report = replace(report, network=replace(report.network, ended=why))
            self._ended = True
        directory.append(report)
        directory.keep_best(report, self._simulation)
        if self.over or self._simulation.next_round % self._config.checkpoint.every == 0:
            directory.checkpoint(self._simulation)
        return report


def restored(path: str | Path) -> Simulation:
    """The simulation as the newest checkpoint of a run left it, in this process. Its code was
    admitted."""
    config = read_config(Path(path))
    own = config.engine.common
    config = in_one_process(config, vectorise=own.vectorise, group=own.group)
    simulation = Simulation(config, load_data(config))
    commit = next(commits(Path(path)), None)
    if commit is not None and commit.tensors is not None:
        simulation.restore(commit.round, commit.tensors.of, commit.memory)
    return simulation
