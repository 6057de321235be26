"""What a card is worth: how well it tells friends from strangers, and what it tells of its peer's
labels (`leakage` says how that is measured).

It is not a table of runs: half of the peers of one run read the cards of the other half, in some of
its rounds. So it has its own way of running.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from amity.config import Config, resolve
from amity.errors import ConfigError, Failure, RunDirError
from amity.files import write_atomically
from amity.lab.cells import Cell
from amity.lab.compare import check_seeds
from amity.reproduce.experiment import Experiment, Say, Scope
from amity.reproduce.kinds import kinds_of_cards
from amity.reproduce.leakage import Leak, measure
from amity.reproduce.leaks import Leaks
from amity.reproduce.presets import FASHION, PRESETS, Layer, changed
from amity.reproduce.registry import experiments
from amity.sinks.stream import Wanted
from amity.store import refuse_foreign, refuse_unusable

BASE: Layer = {**FASHION, "peers": 60, "rounds": 10, "strategy": {"name": "gossip", "k": 5}}
GROUPS: Layer = {
    **changed(BASE, train={"epochs": 2}),
    "peers": 40,
    "partition": {"name": "dirichlet", "alpha": 1.0, "samples": 100, "test": 20},
    "model": {"name": "mlp", "hidden": 64},
}
"""Four groups of ten, with labels that differ a little from peer to peer in all of them: cards can
tell both."""
SHIFTS = ("permute_labels", "rotate", "permute_pixels", "invert")
WORLDS: Mapping[str, Layer] = {
    "label_skew": BASE,
    **{shift: {**GROUPS, "shift": {"name": shift, "groups": 4}} for shift in SHIFTS},
}
SMALL: Layer = {
    "data": "digits",
    "model": "mlp",
    "peers": 12,
    "rounds": 2,
    "partition": {"samples": 24, "test": 20},
}
"""What `smoke` sets on top."""
FEWEST = 8
"""Half of the peers read the others' cards, and must have something to learn from."""


@experiments.register("labels")
@dataclass(frozen=True)
class LabelInference(Experiment):
    """How well does a card find friends, and how well does it tell my label distribution?"""

    title = "What a card tells of its peer: friends and labels"
    place = 150
    presets = ("smoke", "cpu")
    in_all = ("smoke",)
    takes = ()

    def prepare(self, scope: Scope) -> LabelsTodo:
        preset = PRESETS[scope.preset]
        on_top = (preset.pick({}, smoke=SMALL), *scope.given)
        worlds = {name: resolve([world, *on_top]) for name, world in WORLDS.items()}
        for config in worlds.values():
            if config.peers < FEWEST or not config.engine.instance.here:
                raise ConfigError(
                    f"labels: needs at least {FEWEST} peers (half of them read the others' cards),"
                    " and engine=local"
                )
        seeds, path = scope.seeds or preset.seeds, scope.root / scope.folder
        check_seeds(seeds)
        refuse_unusable(path)
        kept = {
            (world, seed): _kept(_file(path, world, seed), config.replace(seed=seed))
            for seed in seeds
            for world, config in worlds.items()
        }
        return LabelsTodo(
            title=self.title, worlds=worlds, path=path, kept=kept, stand_in=preset.stand_in
        )


@dataclass(frozen=True, kw_only=True)
class LabelsTodo:
    """Worlds and seeds to measure, and what was measured before."""

    title: str
    worlds: Mapping[str, Config]
    path: Path
    kept: Mapping[tuple[str, int], list[Leak] | None]
    """By world and seed; none where it is still to be measured."""
    stand_in: str = ""
    """What is wrong with the numbers, where other data stand in."""
    cells: Sequence[Cell] = ()
    done: frozenset[Path] = frozenset()

    def run(self, jobs: int = 0, sinks: Wanted = None, say: Say | None = None) -> Leaks:
        files = {key: _file(self.path, *key) for key in self.kept}
        refuse_foreign(self.path, "labels.csv", *(file.name for file in files.values()))
        found: dict[tuple[str, int], list[Leak]] = {}
        for (world, seed), kept in self.kept.items():
            if kept is None:
                config = self.worlds[world].replace(seed=seed)
                last = config.rounds - 1
                rounds = {0, min(4, last), last}
                kept = measure(world, config, rounds, say or (lambda line: None))
                record = {"config": config.digest, "readings": [asdict(leak) for leak in kept]}
                write_atomically(files[world, seed], json.dumps(record, indent=1).encode())
            found[world, seed] = kept
        return self._leaks(found)

    def so_far(self) -> Leaks:
        found = {key: kept for key, kept in self.kept.items() if kept is not None}
        if not found:
            raise Failure(f"no seed of these is finished in {self.path}")
        return self._leaks(found)

    def _leaks(self, found: Mapping[tuple[str, int], list[Leak]]) -> Leaks:
        leaks = [leak for kept in found.values() for leak in kept]
        seeds = tuple(dict.fromkeys(seed for _, seed in found))
        return Leaks(
            title=self.title,
            worlds=self.worlds,
            seeds=seeds,
            leaks=leaks,
            stand_in=self.stand_in,
        )


def _file(path: Path, world: str, seed: int) -> Path:
    return path / f"{world}-seed-{seed}.json"


def _kept(file: Path, config: Config) -> list[Leak] | None:
    """What was measured before with this config and seed; None if that is not whole, as where
    a kind of card is newer than the file."""
    try:
        record = json.loads(file.read_bytes())
        found = [Leak(**leak) for leak in record["readings"]]
        if record["config"] != config.digest:
            raise RunDirError(f"{file.parent}: holds labels of another config; choose another out=")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    measured = {leak.kind for leak in found}
    return found if measured.issuperset(kinds_of_cards(grouped=True)) else None
