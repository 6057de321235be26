"""What a peer will receive in a run, before it starts: from what its strategy says of itself, the
graph, and the sizes of a model and a card. Nothing is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from amity.config import Config
from amity.core import (
    Band,
    Card,
    Context,
    Fit,
    Fitted,
    Method,
    PeerId,
    R,
    Share,
    Traffic,
    Training,
)
from amity.data import Dataset
from amity.data.samples import PeerData
from amity.learn.learner import Learner
from amity.peer.proxies import Vectors
from amity.peer.proxy import CardSpec
from amity.rng import rng
from amity.round.build import make_learner
from amity.round.discovery import HEAD_BYTES
from amity.simulate.desk import is_central
from amity.topology import Discover, Network

LOOKS = 5
"""Rounds at which we look, where the network changes from round to round."""


class Effort(NamedTuple):
    """Of a method: the epochs that it trains, those before it is measured, and the bytes of a model
    as it is shared."""

    train: float
    tune: float
    nbytes: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One peer of a run, and how many neighbours its peers have."""

    learner: Learner
    theta: torch.Tensor
    data: PeerData
    near: Mapping[int, float]
    """The share of peers and rounds with so many neighbours."""
    served: Mapping[int, float]
    """The same, where everyone is a neighbour who is there."""

    @classmethod
    def of(cls, config: Config, dataset: Dataset, data: Mapping[PeerId, PeerData]) -> Sample:
        learner = make_learner(config, dataset.shape, dataset.target)
        return cls(
            learner=learner,
            theta=learner.initial(),
            data=data[next(iter(data))],
            near=_degrees(config, tuple(data), everyone=False),
            served=_degrees(config, tuple(data), everyone=True),
        )

    def method(self, config: Config) -> Effort:
        """What the method asks for, mean over a few rounds. Its code is run with fits that train
        nothing."""
        rounds = sorted({round(share * (config.rounds - 1)) for share in (0, 0.25, 0.5, 0.75, 1)})
        try:
            tries = [self._try(config, t) for t in rounds]
        except Exception:  # anybody's method; if it is wrong, the run itself will say so
            return Effort(config.train.epochs, 1.0, Share(self.theta).nbytes)
        return Effort(*(sum(column) / len(tries) for column in zip(*tries, strict=True)))

    def _try(self, config: Config, round: int) -> Effort:
        method: Method = config.method.instance
        ctx = Context(
            learner=self.learner,
            train=self.data.train,
            rng=rng(config.seed, "estimate"),
            epochs=config.train.epochs,
            epochs_head=config.train.epochs_head,
            round=round,
            rounds=config.rounds,
            seed=config.seed,
            purpose="estimate",
        )
        train, (state, theta, _) = _asked(
            method.train(method.init(self.theta, ctx), self.theta, ctx)
        )
        shared = method.share(state, theta, ctx)
        return Effort(train, _asked(method.model(state, theta, ctx))[0], shared.nbytes)

    def traffic(self, config: Config) -> Traffic:
        """What a peer receives in a round. Of messages that are lost, an answer and the question
        before it may both be needed."""
        central = is_central(config.strategy.instance)
        kept = 1.0 if central else 1 - config.topology.common.drop
        parts = [
            (share, count, Traffic.of(config.decider.pulls(count)))
            for count, share in (self.served if central else self.near).items()
        ]
        models = total((share, part.models) for share, _, part in parts)
        cards = total((share, part.cards or Band(n, n)) for share, n, part in parts)
        return Traffic(
            Band(models.least * kept**2, models.most * kept),
            Band(cards.least * kept, cards.most * kept),
        )

    def sketch(self, spec: CardSpec, examples: int) -> tuple[Vectors, int]:
        """What a card is computed from, and its bytes."""
        theta, whole = self.theta, Share(self.theta)
        at = Vectors(theta, theta, theta, shared=whole, shared_start=whole)
        data = self.data.train.first(0 if spec.kind.whole else examples)
        numbers = spec.numbers(len(spec.phi(at, data, self.learner)))
        kind = {1: torch.int8, 16: torch.float16, 32: torch.float32}[spec.bits]
        return at, Card("", 0, 0, 0, torch.empty(numbers, dtype=kind)).nbytes

    def received(self, config: Config) -> Band:
        """Bytes that a peer receives in a whole run, mean over peers."""
        traffic, rounds, spec = self.traffic(config), config.rounds, config.decider.card
        models = total([(rounds * self.method(config).nbytes, traffic.models)])
        if spec is None:
            return models
        nbytes = self.sketch(spec, config.facts.examples)[1]
        models = total([(1, models), (rounds * _exchanged(config, nbytes), Band(1, 1))])
        seen, times = traffic.cards or Band(0, 0), rounds
        if spec.once:  # and of whoever comes later
            degree = sum(count * share for count, share in self.near.items())
            most = config.peers - 1 if changes(config) else degree
            seen, times = Band(min(seen.least, degree), most), 1
        return total([(1, models), (times * nbytes, seen)])


def _exchanged(config: Config, nbytes: int) -> float:
    """Bytes of cards that a peer receives in a round in search of neighbours, at most in the mean:
    one exchange that it starts, and one that it answers."""
    rule = config.topology.instance
    return 2.0 * rule.cards * (nbytes + HEAD_BYTES) if isinstance(rule, Discover) else 0.0


def total(parts: Iterable[tuple[float, Band]]) -> Band:
    """A weighted sum."""
    parts = list(parts)
    return Band(
        sum(weight * band.least for weight, band in parts),
        sum(weight * band.most for weight, band in parts),
    )


def changes(config: Config) -> bool:
    """Whether a peer has other neighbours in later rounds."""
    own = config.topology.common
    found = isinstance(config.topology.instance, Discover)
    return found or bool(own.redraw or own.trace or own.online < 1 or own.speed)


def _degrees(config: Config, names: tuple[PeerId, ...], *, everyone: bool) -> dict[int, float]:
    """How many neighbours peers have, by the first rounds."""
    own = config.topology.common
    network = Network(
        config.topology.instance,
        names,
        config.seed,
        own.redraw,
        own.online,
        own.trace,
        speed=own.speed,
    )
    rounds = range(min(config.rounds, LOOKS if changes(config) else 1))
    found = Counter(
        len(near) for t in rounds for near in network.neighbours(t, everyone=everyone).values()
    )
    return {count: number / found.total() for count, number in sorted(found.items())}


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
