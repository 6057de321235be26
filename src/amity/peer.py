"""One peer: its data, its models, its notebook. No I/O: a runtime moves what peers offer each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from amity.core import Card, Context, Memory, Method, PeerId, Share, State, Stats
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


class Peer:
    """The state of one peer within a run. `start` and `trained` frame the local training of the round."""

    def __init__(self, name: PeerId, data: PeerData, world: World) -> None:
        self.name, self.data, self.world = name, data, world
        self.start = world.initial.clone()
        self.trained = self.start
        self.memory: Memory = {}
        self.round = 0
        self.degree = 0
        self.card: Card | None = None
        self.spec: CardSpec | None = None
        self.ledger = Ledger()
        self.stats = Stats()
        self.state: State = world.method.init(self.start, self._context("init"))
        self.next_state: State = self.state
        self._share: Share | None = None
        self._losses: Losses | None = None
        self._reference: torch.Tensor | None = None
        self._loss_of: dict[PeerId, float] = {}

    def _context(self, purpose: str, *names: str) -> Context:
        world = self.world
        stream = rng(world.seed, purpose, self.round, self.name, *names)
        return Context(world.learner, self.data.train, stream, world.epochs, world.epochs_head, self.round, world.rounds)

    @property
    def _probe_data(self) -> Samples:
        return self.data.train.first(self.world.fact_examples)

    @contextmanager
    def _paying(self) -> Iterator[None]:
        """Book the passes of the block on me."""
        forward, backward = self.world.learner.costs()
        yield
        after = self.world.learner.costs()
        self.ledger.forward += after[0] - forward
        self.ledger.backward += after[1] - backward

    # -- the round -------------------------------------------------------------------------------------------------

    def begin(self, round: int, degree: int, spec: CardSpec | None) -> None:
        """A new round: nothing of the last one's answers is kept."""
        self.round, self.degree, self.spec = round, degree, spec
        self.ledger, self.card, self._share, self._losses = Ledger(), None, None, None
        self._loss_of.clear()

    def train(self) -> None:
        """Local training from `start`."""
        with self._paying():
            self.next_state, self.trained, self.stats = self.world.method.train(
                self.state, self.start, self._context("train")
            )

    def publish(self) -> None:
        """Make this round's card. The gradient at the common reference never changes, so it is paid for once."""
        if self.spec is None:
            return
        if self.spec.proxy == "grad_ref" and self.round > 0:
            self.card = self._card(self._proxy(self.spec))
            return
        with self._paying():
            self.card = self._card(self._proxy(self.spec))

    def _proxy(self, spec: CardSpec) -> torch.Tensor:
        at = Moment(self.start, self.trained, self.world.initial)
        if spec.proxy != "grad_ref":
            return proxy_of(spec.proxy, at, self._probe_data, self.world.learner)
        if self._reference is None:
            self._reference = proxy_of("grad_ref", at, self._probe_data, self.world.learner)
        return self._reference

    def _card(self, phi: torch.Tensor) -> Card:
        bins = self.spec.sketch if self.spec else 0
        return Card(self.name, self.round, len(self.data.train), self.degree, self.world.sketcher(phi, bins))

    @property
    def share(self) -> Share:
        """My model as published after training."""
        if self._share is None:
            self._share = self.world.method.share(self.next_state, self.trained, self._context("share"))
        return self._share

    @property
    def share_start(self) -> Share:
        """My model of the round's start, as it goes on a visit."""
        return self.world.method.share(self.state, self.start, self._context("share"))

    def settle(self, mixed: Share, memory: Memory) -> None:
        """End of the round: the mixed model becomes the next start, the notebook is committed."""
        self.state, self.start = self.world.method.absorb(self.next_state, self.trained, mixed, self._context("absorb"))
        self.memory = memory

    def final_model(self) -> torch.Tensor:
        """What is evaluated: the method's own model after this round's mixing."""
        return self.world.method.model(self.state, self.start, self._context("model"))

    # -- answers to facts ------------------------------------------------------------------------------------------

    @property
    def losses(self) -> Losses:
        """My losses before and after this round's training; computed when first asked for."""
        if self._losses is None:
            with self._paying():
                learner, data = self.world.learner, self._probe_data
                self._losses = Losses(learner.loss(self.start, data), learner.loss(self.trained, data))
        return self._losses

    def loss_of(self, peer: PeerId, share: Share) -> float:
        """F_i of another's model on my data; no loss is computed twice in a round."""
        if peer not in self._loss_of:
            with self._paying():
                theta = self._adopt(share)
                self._loss_of[peer] = self.world.learner.loss(theta, self._probe_data)
        return self._loss_of[peer]

    def _adopt(self, share: Share) -> torch.Tensor:
        """A model of my own with the guest's coordinates in place of mine, wherever it offers some."""
        if share.mask is None:
            return share.theta
        return torch.where(share.mask, share.theta, self.trained)

    def probe(self, guest: Share) -> Offer:
        """φ and F of a guest's model on my data, with my own part of the start of the round (Alg. 1, line 6)."""
        return self._probe(guest)[2]

    def _probe(self, guest: Share) -> tuple[State, torch.Tensor, Offer]:
        with self._paying():
            state, theta = self.world.method.absorb(self.state, self.start, guest, self._context("absorb"))
            learner = self.world.learner
            phi, loss = learner.gradient(theta, self._probe_data, learner.layout.proxy)
            offer = Offer(len(self.data.train), self._card(phi), None, Losses(loss, loss))
        return state, theta, offer

    def host_visit(self, guest: Share, visitor: PeerId) -> Offer:
        """Alg. 1, lines 6 to 8: probe the guest, train a scratch copy of it, hand back model and losses.

        The scratch copy has a scratch head too: only my own training changes what I keep.
        """
        state, theta, offer = self._probe(guest)
        before = offer.losses.before if offer.losses else float("nan")
        method, learner = self.world.method, self.world.learner
        with self._paying():
            state, trained, _ = method.train(state, theta, self._context("visit", visitor))
            after = learner.loss(trained, self._probe_data)
        share = method.share(state, trained, self._context("share"))
        return Offer(offer.examples, offer.card, share, Losses(before, after))

    def snapshot(self) -> Mapping[str, torch.Tensor]:
        """What a checkpoint must hold of me, besides the notebook."""
        return {"start": self.start, **{f"state.{key}": value for key, value in self.state.items()}}

    def resume(self, round: int, tensors: Mapping[str, torch.Tensor], memory: Memory) -> None:
        """The opposite of `snapshot`: stand where a checkpoint left off."""
        self.round, self.memory = round - 1, memory
        self.start = self.trained = tensors["start"]
        self.state = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
        self.next_state = self.state
