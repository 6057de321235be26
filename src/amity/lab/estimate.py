"""What a run will take, before it starts: time, memory and bytes, from a short trial of its own
model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from amity.config import Config
from amity.core import Card, Context, Fit, Fitted, Method, PeerId, R, Share, Training
from amity.data import Dataset
from amity.data.samples import PeerData
from amity.learn.learner import DpSgd, Learner
from amity.learn.stacked import FitJob, Stack
from amity.peer.proxies import Vectors
from amity.peer.proxy import CardSpec
from amity.peer.solo import Solo
from amity.rng import rng
from amity.round.build import deal_out, load_data, make_learner, one_thread, settled, units_of
from amity.topology import Network, peer_names
from amity.units import duration, size

CardCost = Callable[[CardSpec, int, int], tuple[float, int]]


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


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One peer of a run, tried out: seconds of what it does again and again."""

    learner: Learner
    theta: torch.Tensor
    data: PeerData
    degree: float
    """Neighbours of a peer, on average."""
    epoch: float
    score: float
    loss: float

    @classmethod
    def of(cls, config: Config, dataset: Dataset, data: Mapping[PeerId, PeerData]) -> Trial:
        learner = make_learner(config, dataset.shape, dataset.classes)
        theta, mine = learner.initial(), data[next(iter(data))]
        near = Network(config.topology.instance, tuple(data), config.seed).neighbours(0)
        probe = mine.train.first(config.facts.examples)
        return cls(
            learner=learner,
            theta=theta,
            data=mine,
            degree=sum(map(len, near.values())) / len(near),
            epoch=_epoch(config, learner, data),
            score=_timed(lambda: learner.score(theta, mine.test)),
            loss=_timed(lambda: learner.loss(theta, probe)),
        )

    def card(self, spec: CardSpec, examples: int, planned: int) -> tuple[float, int]:
        """Seconds and bytes of a card, where the run trains for so many epochs."""
        theta, whole = self.theta, Share(self.theta)
        at = Vectors(theta, theta, theta, shared=whole, shared_start=whole)
        data = self.data.train.first(0 if spec.kind.whole else examples)
        numbers = spec.numbers(len(spec.phi(at, data, self.learner)))

        def once() -> object:
            solo = Solo(data, theta, self.learner, planned)
            return spec.phi(replace(at, solo=solo), data, self.learner)

        seconds = _timed(once)
        kind = {1: torch.int8, 16: torch.float16, 32: torch.float32}[spec.bits]
        return seconds, Card("", 0, 0, 0, torch.empty(numbers, dtype=kind)).nbytes

    def epochs(self, config: Config) -> tuple[float, float]:
        """How many epochs the method asks for, to train and before it is measured. Its code is run
        with fits that train nothing."""
        method: Method = config.method.instance
        ctx = Context(
            learner=self.learner,
            train=self.data.train,
            rng=rng(config.seed, "estimate"),
            epochs=config.train.epochs,
            epochs_head=config.train.epochs_head,
            round=0,
            rounds=config.rounds,
            seed=config.seed,
            purpose="estimate",
        )
        try:
            state = method.init(self.theta, ctx)
            train, (state, theta, _) = _asked(method.train(state, self.theta, ctx))
            return train, _asked(method.model(state, theta, ctx))[0]
        except Exception:  # anybody's method; if it is wrong, the run itself will say so
            return config.train.epochs, 1.0


def _asked(training: Training[R]) -> tuple[float, R]:
    """The epochs that a training asks for, and what it returns if no fit changes theta."""
    epochs = 0.0
    try:
        request = next(training)
        while True:
            epochs += request.epochs if isinstance(request, Fit) else 0
            request = training.send(Fitted(request.theta, 0.0))
    except StopIteration as stop:
        return epochs, stop.value


def _of_a_peer(config: Config, trial: Trial, card: CardCost) -> tuple[float, float]:
    """Seconds of one peer in a whole run, and the bytes that it receives."""
    pulled = config.decider.pulls(round(trial.degree))
    train, tune = trial.epochs(config)
    measured = (tune * trial.epoch + 3 * trial.score) / config.eval.every
    seconds = config.rounds * (train * trial.epoch + measured + pulled * trial.loss)
    moved = config.rounds * pulled * trial.learner.layout.size * 4
    spec = config.decider.card
    if spec is not None:
        planned = config.rounds * config.train.epochs
        each, nbytes = card(spec, config.facts.examples, planned)
        seconds += each * (1 if spec.lasting else config.rounds)
        moved += (1 if spec.once else config.rounds) * trial.degree * nbytes
    return seconds, moved


def estimate(configs: Sequence[Config], jobs: int) -> Estimate:
    """For runs that share data, model and sizes, and differ in strategy, method and seed."""
    dataset = load_data(configs[0])
    config = settled(configs[0], dataset)
    data = deal_out(config, dataset, peer_names(config.peers))
    with one_thread():
        trial = Trial.of(config, dataset, data)
        card = cache(trial.card)
        costs = [(one.peers, *_of_a_peer(one, trial, card)) for one in configs]
    at_once = max(jobs, config.engine.instance.hands(len(units_of(config, data))))
    kept = len(config.optimiser.instance.remembers) if config.train.keep else 0
    matrices = 2 * (1 + kept) * config.peers * trial.learner.layout.size * 4
    places = {id(x): x for x in (dataset.pixels.x, *(d.train.pixels.x for d in data.values()))}
    held = sum(x.numel() * x.element_size() for x in places.values())
    return Estimate(
        sum(peers * seconds for peers, seconds, _ in costs) / at_once,
        held + jobs * (matrices + 250_000_000),
        sum(moved for _, _, moved in costs) / len(configs),
    )
