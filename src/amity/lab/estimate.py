"""What a run will take, before it starts: time, memory and bytes, from a short trial of its own
model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from amity.config import Config
from amity.core import PeerId
from amity.data import split
from amity.data.samples import PeerData
from amity.learn.learner import DpSgd, Learner
from amity.learn.stacked import FitJob, Stack
from amity.processes import cores
from amity.rng import rng
from amity.round.build import load_data, make_learner, one_thread, settled, units_of
from amity.topology import Network, peer_names
from amity.units import duration as duration
from amity.units import size as size


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
            f"about {duration(self.seconds)}, {size(self.memory)} of memory, {size(self.moved)}"
            " received by a peer in a run"
        )


def _timed(work: Callable[[], object], least: float = 0.05) -> float:
    """Seconds of one call, repeated for at least `least` seconds after one call to warm up."""
    work()
    began, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < least:
        work()
        calls += 1
    return spent / calls


def _epoch(config: Config, learner: Learner, data: Mapping[PeerId, PeerData]) -> float:
    """Seconds that an epoch of one peer takes: alone, or as its part of a group."""
    theta, draw = learner.initial(), rng(0, "estimate")
    unit = units_of(config, data)[0]
    if config.engine.common.vectorise == "on" and len(unit) > 1:
        stack, jobs = Stack(learner), [FitJob(theta, data[name].train, draw) for name in unit]
        return _timed(lambda: stack.fit(jobs, 1, None, 0)) / len(unit)
    train = data[unit[0]].train
    batch = train.first(config.train.batch)
    mechanism = config.privacy.instance
    noise = DpSgd(mechanism.sigma, mechanism.clip) if mechanism.trains else None
    return _timed(lambda: learner.fit(theta, batch, draw, 1, noise=noise)) * math.ceil(
        len(train) / config.train.batch
    )


def estimate(configs: Sequence[Config], jobs: int) -> Estimate:
    """For runs that share data, model and sizes, and differ in strategy and seed."""
    dataset = load_data(configs[0])
    config = settled(configs[0], dataset)
    names = peer_names(config.peers)
    data = split(dataset, config.partition.instance, names, config.seed)
    peer = data[names[0]]
    with one_thread():
        learner = make_learner(config, dataset.shape, dataset.classes)
        theta = learner.initial()
        epoch = _epoch(config, learner, data)
        look = _timed(lambda: learner.score(theta, peer.test))
        loss = _timed(lambda: learner.loss(theta, peer.train.first(config.facts.examples)))
    near = Network(config.topology.instance, names, config.seed).neighbours(0)
    degree = sum(map(len, near.values())) / len(near)
    epochs = config.train.epochs + (config.train.epochs_head if config.method.name == "head" else 0)
    epochs += int(config.method.options.get("epochs", 0)) if config.method.name == "ditto" else 0
    at_once = (
        max(jobs, min(cores(), len(units_of(config, data))))
        if config.engine.name == "local"
        else jobs
    )
    seconds = moved = 0.0
    for one in configs:
        pulled = one.decider.pulls(round(degree))
        card = one.decider.card
        per_peer = (
            epoch * (epochs + 1 / one.eval.every)
            + 3 * look / one.eval.every
            + loss * pulled
            + (2 * loss if card else 0)
        )
        seconds += per_peer * one.peers * one.rounds
        moved += pulled * one.rounds * learner.layout.size * 4 + (
            degree * one.rounds * (4 * card.sketch + 16) if card else 0
        )
    matrices = 2 * config.peers * learner.layout.size * 4
    held = dataset.pixels.x.numel() * dataset.pixels.x.element_size()
    return Estimate(seconds / at_once, held + jobs * (matrices + 250_000_000), moved / len(configs))
