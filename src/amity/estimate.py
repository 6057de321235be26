"""What a run will take, before it starts: time, memory and bytes, from a short trial of its own model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amity.config import Config
from amity.data import split
from amity.rng import rng
from amity.run import load_data
from amity.simulate.build import make_learner, one_thread, settled
from amity.topology import Network, peer_names


@dataclass(frozen=True)
class Estimate:
    seconds: float
    """Wall clock for all runs on so many processes."""
    memory: int
    """Bytes at the peak, data included, over all processes."""
    moved: float
    """Bytes that a peer receives in a run, mean over the runs."""

    def __str__(self) -> str:
        return (
            f"about {duration(self.seconds)}, {size(self.memory)} of memory, {size(self.moved)} received by a peer in a run"
        )


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def _timed(work: Callable[[], object], least: float = 0.05) -> float:
    """Seconds of one call, repeated for at least `least` seconds after one call to warm up."""
    work()
    began, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < least:
        work()
        calls += 1
    return spent / calls


def estimate(configs: Sequence[Config], jobs: int) -> Estimate:
    """For runs that share data, model and sizes, and differ in strategy and seed."""
    dataset = load_data(configs[0])
    config = settled(configs[0], dataset)
    names = peer_names(config.peers)
    peer = split(dataset, config.partition.thing, names, config.seed)[names[0]]
    with one_thread():
        learner = make_learner(config, dataset.shape, dataset.classes)
        theta, draw = learner.initial(), rng(0, "estimate")
        batch = peer.train.first(config.train.batch)
        step = _timed(lambda: learner.fit(theta, batch, draw, 1))
        look = _timed(lambda: learner.score(theta, peer.test))
        loss = _timed(lambda: learner.loss(theta, peer.train.first(config.facts.examples)))
    near = Network(config.topology.thing, names, config.seed).neighbours(0)
    degree = sum(map(len, near.values())) / len(near)
    epochs = config.train.epochs + (config.train.epochs_head if config.method.name == "head" else 0)
    steps = math.ceil(len(peer.train) / config.train.batch) * (epochs + 1 / config.eval.every)
    seconds = moved = 0.0
    for one in configs:
        pulled = one.strategy.thing.pulls(round(degree))
        card = one.strategy.thing.card
        per_peer = step * steps + 3 * look / one.eval.every + loss * pulled + (2 * loss if card else 0)
        seconds += per_peer * one.peers * one.rounds
        moved += pulled * one.rounds * learner.layout.size * 4 + (
            degree * one.rounds * (4 * card.sketch + 16) if card else 0
        )
    matrices = 4 * config.peers * learner.layout.size * 4
    held = dataset.pixels.x.numel() * dataset.pixels.x.element_size()
    return Estimate(seconds / jobs, held + jobs * (matrices + 250_000_000), moved / len(configs))
