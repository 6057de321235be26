"""Peers as their files left them: those of a simulation, those of a swarm, or one real peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors
import torch

from amity.config import Config
from amity.core import PeerId
from amity.data import Dataset, PeerData
from amity.errors import RunDirError, needs_peers
from amity.lab.result import Result
from amity.lab.run import restored
from amity.records import PeerRecord, TimingRecord
from amity.round.build import load_data, make_shard, one_thread
from amity.round.shard import Shard
from amity.store import (
    Commit,
    admit_code,
    best_model,
    best_records,
    commits,
    read_config,
    read_records,
    refuse_no_run,
    same_code,
    schema_of,
)

if TYPE_CHECKING:
    from amity.net.setup import Setup

Tensors = dict[str, torch.Tensor]
TRIES = 100
"""How often files are looked for that a running peer replaces in every round."""


@dataclass(frozen=True)
class Stood:
    """A peer after a round."""

    record: PeerRecord
    tensors: Tensors
    until: float | None
    """When the round ended."""


@dataclass(frozen=True)
class _Files:
    """What a directory holds, up to its newest checkpoint."""

    commit: Commit
    records: Mapping[PeerId, list[PeerRecord]]
    ended: Mapping[int, float]

    @classmethod
    def read(cls, path: Path) -> _Files | None:
        commit = next(commits(path), None)
        if commit is None or commit.tensors is None:
            return None
        records: dict[PeerId, list[PeerRecord]] = {}
        for record in read_records(path / "metrics.jsonl", PeerRecord):
            if record.round < commit.round:
                records.setdefault(record.peer, []).append(record)
        timings = read_records(path / "timings.jsonl", TimingRecord)
        return cls(commit, records, {timing.round: timing.at for timing in timings})

    def stood(self, record: PeerRecord, tensors: Tensors) -> Stood:
        return Stood(record, tensors, self.ended.get(record.round))


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The peers of a directory. `states` says where the files of each lie."""

    config: Config
    dataset: Dataset
    data: Mapping[PeerId, PeerData]
    shard: Shard
    units: Mapping[PeerId, tuple[PeerId, ...]]
    """With whom a peer trains in one step: only so it has the same bits."""
    states: Mapping[PeerId, Path]
    company: str
    """Who learnt together, in words."""
    real: bool
    alone: bool = False
    """Whether this is the directory of one peer."""
    _seen: dict[Path, _Files | None] = field(default_factory=dict, repr=False)
    """The peers of a simulation lie in one directory, which is read once."""

    def last(self, name: PeerId) -> tuple[Stood, Stood | None] | None:
        """A peer after its newest checkpoint, and after its best round until then, if that was
        kept; None before the first checkpoint. A peer that runs meanwhile replaces files: then
        they are looked for again."""
        path = self.states[name]
        for _ in range(TRIES):
            files = self._files(path)
            if files is None:
                if not any((path / "checkpoint").glob("round-*.json")):
                    return None
                self._seen.pop(path)
                continue
            try:
                records, archive = files.records[name], files.commit.tensors
                newest = {} if archive is None else archive.of(name)
                return files.stood(records[-1], newest), self._best(name, files)
            except (OSError, safetensors.SafetensorError, KeyError):
                self._seen.pop(path, None)
        raise RunDirError(f"{path}: its checkpoint cannot be read; try again")

    def _files(self, path: Path) -> _Files | None:
        if path not in self._seen:
            self._seen[path] = _Files.read(path)
        return self._seen[path]

    def _best(self, name: PeerId, files: _Files) -> Stood | None:
        best = best_records(files.records[name], self.config.metric).get(name)
        archive = None if best is None else best_model(self.states[name], best)
        return None if best is None or archive is None else files.stood(best, archive.of(name))

    def model(self, stood: Stood) -> torch.Tensor:
        """The model that was evaluated after that round."""
        name, round = stood.record.peer, stood.record.round
        with one_thread():
            self.shard.peers[name].resume(round + 1, stood.tensors)
            together = self.shard.final_models(self.units[name], round)
        return together[self.units[name].index(name)].cpu()

    def check_data(self, name: PeerId) -> None:
        """Refuse data that has changed since: the model would be fitted to other numbers than those
        with which it was trained."""
        began, now = schema_of(self.states[name]), self.dataset.schema
        if began is not None and began != now:
            said = now.difference(began) or "its mean, deviation or median is another"
            raise RunDirError(
                f"{self.states[name]}: the data has changed since the last round: {said}; put it"
                " back to take the model out"
            )

    def privacy(self, name: PeerId) -> str:
        """What is said of ε; empty if nothing is private."""
        if not self.real:
            return Result(self.states[name], self.config).privacy
        from amity.net.accounts import privacy_of

        found = privacy_of(self.states[name], self.config)
        return "" if found is None else found.statement


def standing(path: Path, trust: bool = False) -> Standing:
    """Whatever a path holds: a run, a swarm, a peer's folder or its state. Its code is yours, or
    you trust it."""
    if (path / "peer.toml").is_file():
        return _of_peer(path, trust)
    if (path.parent / "peer.toml").is_file() and (path / "config.toml").is_file():
        return _of_peer(path.parent, trust)
    if (path / "config.toml").is_file() and (path / "peers").is_dir():
        return _of_swarm(path, trust)
    several = sorted(file.parent.name for file in path.glob("*/peer.toml"))
    if several and not (path / "config.toml").is_file():
        raise RunDirError(f"{path}: holds the folders of {', '.join(several)}; export one of them")
    return _of_run(path, trust)


def _of_run(path: Path, trust: bool, states: Mapping[PeerId, Path] | None = None) -> Standing:
    refuse_no_run(path)
    admit_code(path, trust)
    same_code(path, read_config(path))
    simulation = restored(path)
    if states:
        states = {name: at for name, at in states.items() if name in simulation.data}
    return Standing(
        config=simulation.config,
        dataset=load_data(simulation.config),
        data=simulation.data,
        shard=simulation.shard,
        units={name: unit for unit in simulation.units for name in unit},
        states=states or dict.fromkeys(simulation.names, path),
        company=f"{len(simulation.names)} {'real' if states else 'simulated'} peers",
        real=states is not None,
    )


def _of_swarm(path: Path, trust: bool) -> Standing:
    states = {at.name: at / "state" for at in sorted((path / "peers").iterdir()) if at.is_dir()}
    return _of_run(path, trust, states)


def _of_peer(folder: Path, trust: bool) -> Standing:
    with needs_peers():
        from amity.net.setup import read_setup
    whole = folder.resolve().parent.parent
    if folder.resolve().parent.name == "peers" and (whole / "config.toml").is_file():
        return _only(_of_swarm(whole, trust), folder.resolve().name)
    setup = read_setup(folder, trust=trust)
    if not (setup.state / "config.toml").is_file():
        raise RunDirError(f"{folder}: has finished no round yet; `amity peer run {folder}` does")
    admit_code(setup.state, trust)
    return _of_setup(setup)


def _only(swarm: Standing, name: PeerId) -> Standing:
    """One peer of a swarm."""
    return replace(swarm, states={name: swarm.states[name]}, alone=True)


def _of_setup(setup: Setup) -> Standing:
    """A real peer, with the data that peer.toml names and everything else as its state has it."""
    from amity.net.setup import data_of
    from amity.net.trust.identity import CA
    from amity.net.trust.passes import load_book
    from amity.net.trust.roster import Roster

    me, config = setup.who.name, read_config(setup.state).replace(device="cpu")
    same_code(setup.state, config)
    dataset, data = data_of(setup, load_data(setup.config))
    roster = Roster.load(setup.roster)
    shown = load_book(setup.book, setup.identity / CA, roster.network) if roster.any_signed else {}
    return Standing(
        config=config,
        dataset=dataset,
        data={me: data},
        shard=make_shard(config, dataset, (me,), {me: data}),
        units={me: (me,)},
        states={me: setup.state},
        company=f"{len({*roster.names, *shown})} members of the network {roster.network!r}",
        real=True,
        alone=True,
    )
