"""One peer: its data, its models, what it computes. No I/O: a runtime moves what peers offer each other."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from amity.core import Card, Context, Fitted, Method, PeerId, R, Share, State, Stats, Training
from amity.errors import StrategyError
from amity.facts import Ledger, Losses, Offer
from amity.learn import Learner, Samples
from amity.proxy import CardSpec, Moment, Sketcher, proxy_of
from amity.rng import rng


@dataclass(frozen=True)
class PeerData:
    """What one peer holds: indices into the common dataset, and its label distribution over all classes."""

    train: Samples
    test: Samples
    validation: Samples
    labels: tuple[float, ...]
    origin: str = ""
    """Who this is in the data (a writer, a hospital), where the partition is natural."""


@dataclass(frozen=True)
class World:
    """What all peers of a run have in common."""

    seed: int
    rounds: int
    method: Method
    learner: Learner
    sketcher: Sketcher
    initial: torch.Tensor
    epochs: int
    epochs_head: int
    fact_examples: int
    """How many of its training examples a peer uses to answer facts about models (0: all)."""


@dataclass(frozen=True)
class Rows:
    """Where a peer's vectors live. They are written in place, so an engine may lay them out in shared memory."""

    start: torch.Tensor
    trained: torch.Tensor
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    next_state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    share: torch.Tensor | None = None
    """What others may have, where that is not `trained` as it stands."""
    mask: torch.Tensor | None = None


class Peer:
    """One peer within a run. `start` and `trained` frame the local training of the round."""

    def __init__(self, name: PeerId, data: PeerData, world: World, rows: Rows) -> None:
        self.name, self.data, self.world, self.rows = name, data, world, rows
        self.round = 0
        self.ledger = Ledger()
        self.stats = Stats()

    def reset(self) -> None:
        """The state before the first round."""
        self.round = 0
        self.start.copy_(self.world.initial)
        self._keep(self.rows.state, self.world.method.init(self.start, self.context("init")))

    @property
    def start(self) -> torch.Tensor:
        return self.rows.start

    @property
    def trained(self) -> torch.Tensor:
        return self.rows.trained

    def context(self, purpose: str, *names: str) -> Context:
        world = self.world
        stream = rng(world.seed, purpose, self.round, self.name, *names)
        return Context(world.learner, self.data.train, stream, world.epochs, world.epochs_head, self.round, world.rounds)

    @property
    def probe_data(self) -> Samples:
        return self.data.train.first(self.world.fact_examples)

    @contextmanager
    def paying(self) -> Iterator[None]:
        """Book the passes of the block on me."""
        forward, backward = self.world.learner.costs()
        yield
        after = self.world.learner.costs()
        self.ledger.forward += after[0] - forward
        self.ledger.backward += after[1] - backward

    def _keep(self, rows: Mapping[str, torch.Tensor], state: State) -> None:
        if rows.keys() != state.keys():
            raise StrategyError(
                f"method {type(self.world.method).__name__}: its state must keep the names that init gave it, "
                f"{sorted(rows)}, got {sorted(state)}"
            )
        for key, value in state.items():
            rows[key].copy_(value)

    # -- the round -------------------------------------------------------------------------------------------------

    def training(self, ctx: Context) -> Training[None]:
        """Local training from `start`, as a generator; at its end the rows hold what came of it."""
        self.stats = Stats()
        training = self._generator("train", self.world.method.train(self.rows.state, self.start, ctx))
        state, trained, self.stats = yield from training
        self._keep(self.rows.next_state, state)
        self.trained.copy_(trained)
        self._publish(state)

    def _publish(self, state: State) -> None:
        share, rows = self.world.method.share(state, self.trained, self.context("share")), self.rows
        if rows.share is None:
            if share.mask is not None or share.theta.data_ptr() != self.trained.data_ptr():
                raise StrategyError(f"method {type(self.world.method).__name__}: shares theta in one round, not in another")
            return
        if rows.mask is None and share.mask is not None:
            raise StrategyError(
                f"method {type(self.world.method).__name__}: its first share must have a mask, as later ones do"
            )
        rows.share.copy_(share.theta)
        if rows.mask is not None:
            rows.mask.copy_(torch.ones_like(rows.mask) if share.mask is None else share.mask)

    def _generator(self, verb: str, training: Training[R]) -> Training[R]:
        """A method is anybody's code: does it train as methods train?"""
        if not isinstance(training, Generator):
            raise StrategyError(
                f"method {type(self.world.method).__name__}: {verb} must be a generator that asks for its training, "
                f"`fitted = yield Fit(theta, ctx.epochs)`, got {type(training).__name__}"
            )
        return training

    def alone(self, training: Training[R], ctx: Context) -> R:
        """Run a generator of fits, one after the other."""
        try:
            fit = next(training)
            while True:
                fitted = self.world.learner.fit(fit.theta, ctx.train, ctx.rng, fit.epochs, fit.part, ctx.round)
                fit = training.send(Fitted(*fitted))
        except StopIteration as stop:
            result: R = stop.value
            return result

    def sketch(self, spec: CardSpec) -> torch.Tensor:
        """φ of this round, as it goes onto the card."""
        at = Moment(self.start, self.trained, self.world.initial)
        return self._sketched(proxy_of(spec.proxy, at, self.probe_data, self.world.learner), spec)

    def _sketched(self, phi: torch.Tensor, spec: CardSpec | None) -> torch.Tensor:
        return self.world.sketcher(phi, spec.sketch if spec else 0)

    @property
    def share(self) -> Share:
        """My model as published after training."""
        return Share(self.trained) if self.rows.share is None else Share(self.rows.share, self.rows.mask)

    @property
    def share_start(self) -> Share:
        """My model of the round's start, as it goes on a visit."""
        return self.world.method.share(self.rows.state, self.start, self.context("share"))

    def settle(self, mixed: Share) -> None:
        """End of the round: the mixed model becomes the next start. Reads `trained` and what the training left, so
        that it can be done again if it was cut short."""
        method = self.world.method
        state, start = method.absorb(self.rows.next_state, self.trained, mixed, self.context("absorb"))
        self._keep(self.rows.state, state)
        self.start.copy_(start)

    def finishing(self, ctx: Context) -> Training[torch.Tensor]:
        """What is evaluated: the method's own model after this round's mixing."""
        return self._generator("model", self.world.method.model(self.rows.state, self.start, ctx))

    # -- answers to facts ------------------------------------------------------------------------------------------

    def own_losses(self) -> Losses:
        """My losses before and after this round's training."""
        learner, data = self.world.learner, self.probe_data
        with self.paying():
            return Losses(learner.loss(self.start, data), learner.loss(self.trained, data))

    def adopt(self, share: Share) -> torch.Tensor:
        """A model of my own with the guest's coordinates in place of mine, wherever it offers some."""
        if share.mask is None:
            return share.theta
        return torch.where(share.mask, share.theta, self.trained)

    def probe(self, guest: Share, spec: CardSpec | None, degree: int) -> Offer:
        """φ and F of a guest's model on my data, with my own part of the start of the round (Alg. 1, line 6)."""
        return self._probe(guest, spec, degree)[2]

    def _probe(self, guest: Share, spec: CardSpec | None, degree: int) -> tuple[State, torch.Tensor, Offer]:
        with self.paying():
            state, theta = self.world.method.absorb(self.rows.state, self.start, guest, self.context("absorb"))
            learner = self.world.learner
            phi, loss = learner.gradient(theta, self.probe_data, learner.layout.proxy)
        card = Card(self.name, self.round, len(self.data.train), degree, self._sketched(phi, spec).cpu())
        return state, theta, Offer(len(self.data.train), card, None, Losses(loss, loss))

    def host_visit(self, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int) -> Offer:
        """Alg. 1, lines 6 to 8: probe the guest, train a scratch copy of it, hand back model and losses.

        The scratch copy has a scratch head too: only my own training changes what I keep.
        """
        state, theta, offer = self._probe(guest, spec, degree)
        before = offer.losses.before if offer.losses else float("nan")
        method, learner, ctx = self.world.method, self.world.learner, self.context("visit", visitor)
        with self.paying():
            state, trained, _ = self.alone(self._generator("train", method.train(state, theta, ctx)), ctx)
            after = learner.loss(trained, self.probe_data)
        share = method.share(state, trained, self.context("share"))
        return Offer(offer.examples, offer.card, share, Losses(before, after))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, torch.Tensor]:
        """What a checkpoint must hold of me, besides the notebook."""
        return {"start": self.start, **{f"state.{key}": value for key, value in self.rows.state.items()}}

    def resume(self, round: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """The opposite of `snapshot`: stand where a checkpoint left off."""
        self.round = round - 1
        self.start.copy_(tensors["start"])
        self.trained.copy_(tensors["start"])
        state = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
        self._keep(self.rows.state, state)
        self._keep(self.rows.next_state, state)
