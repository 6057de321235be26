"""What a run will take, before it starts: time, memory and bytes, from a short trial of its own
model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from amity.config import Config
from amity.core import Band, PeerId
from amity.data.inputs import tensors_of
from amity.data.samples import PeerData
from amity.lab.traffic import Sample
from amity.learn.learner import DpSgd, Learner
from amity.learn.stacked import FitJob, Stack
from amity.peer.proxy import CardSpec
from amity.peer.solo import Solo
from amity.rng import rng
from amity.round.build import deal_out, load_data, one_thread, settled, units_of
from amity.topology import peer_names
from amity.units import duration, size

CardCost = Callable[[CardSpec, int, int], float]


@dataclass(frozen=True)
class Estimate:
    seconds: float
    """Wall clock for all runs on so many processes."""
    memory: int
    """Bytes at the peak, data included, over all processes."""
    moved: Band
    """Bytes that a peer receives in a run, mean over its peers: in the run where they are fewest,
    and at most in the one where they are most. Of one run both are its own, apart only where that
    depends on whom a peer takes."""

    def __str__(self) -> str:
        least, most = size(self.moved.least), size(self.moved.most)
        return (
            f"about {duration(self.seconds)}, {size(self.memory)} of memory,"
            f" {most if least == most else f'{least} to {most}'} received by a peer in a run"
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


@dataclass(frozen=True)
class Trial:
    """One peer of a run, tried out: seconds of what it does again and again."""

    sample: Sample
    epoch: float
    score: float
    loss: float

    @classmethod
    def of(cls, config: Config, sample: Sample, data: Mapping[PeerId, PeerData]) -> Trial:
        learner, theta, mine = sample.learner, sample.theta, sample.data
        probe = mine.train.first(config.facts.examples)
        return cls(
            sample,
            _epoch(config, learner, data),
            _timed(lambda: learner.score(theta, mine.test)),
            _timed(lambda: learner.loss(theta, probe)),
        )

    def card(self, spec: CardSpec, examples: int, planned: int) -> float:
        """Seconds of a card, where the run trains for so many epochs."""
        at, learner = self.sample.sketch(spec, examples)[0], self.sample.learner
        data = self.sample.data.train.first(0 if spec.kind.whole else examples)

        def once() -> object:
            solo = Solo(data, self.sample.theta, learner, planned)
            return spec.phi(replace(at, solo=solo), data, learner)

        return _timed(once)

    def seconds(self, config: Config, card: CardCost) -> float:
        """Of one peer in a whole run."""
        rounds, method = config.rounds, self.sample.method(config)
        pulled = sum(self.sample.traffic(config).models) / 2
        measured = (method.tune * self.epoch + 3 * self.score) / config.eval.every
        seconds = rounds * (method.train * self.epoch + measured + pulled * self.loss)
        spec = config.decider.card
        if spec is not None:
            each = card(spec, config.facts.examples, rounds * config.train.epochs)
            seconds += each * (1 if spec.lasting else rounds)
        return seconds


def estimate(configs: Sequence[Config], jobs: int) -> Estimate:
    """For runs that share data, model and sizes, and differ in strategy, method and seed."""
    dataset = load_data(configs[0])
    config = settled(configs[0], dataset)
    data = deal_out(config, dataset, peer_names(config.peers))
    with one_thread():
        sample = Sample.of(config, dataset, data)
        trial = Trial.of(config, sample, data)
        card = cache(trial.card)
        seconds = sum(one.peers * trial.seconds(one, card) for one in configs)
        moved = [sample.received(one) for one in configs]
    at_once = max(jobs, config.engine.instance.hands(len(units_of(config, data))))
    kept = len(config.optimiser.instance.remembers) if config.train.keep else 0
    matrices = 2 * (1 + kept) * config.peers * sample.learner.layout.size * 4
    places = {id(x): x for x in (dataset.pixels.x, *(d.train.pixels.x for d in data.values()))}
    tensors = [part for x in places.values() for part in tensors_of(x)]
    held = sum(part.numel() * part.element_size() for part in tensors)
    return Estimate(
        seconds / at_once,
        held + jobs * (matrices + 250_000_000),
        Band(min(one.least for one in moved), max(one.most for one in moved)),
    )
