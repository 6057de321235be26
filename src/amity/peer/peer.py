"""One peer: its data, its models, what it computes. No I/O: a runtime moves what peers offer each
other.

What leaves a peer goes through one place each (`_publish`, `_sketched`, `host_visit`), where
privacy adds its noise and, in the simulator, attackers tamper with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from amity.core import (
    Card,
    Context,
    Fit,
    Fitted,
    Gradient,
    Method,
    Moments,
    PeerId,
    R,
    Share,
    State,
    Stats,
    Training,
    TrainingRequest,
    in_force,
)
from amity.data.samples import PeerData, Samples
from amity.errors import RunDirError, StrategyError
from amity.facts import Ledger, Losses, Offer
from amity.lazy import torch
from amity.learn.learner import Bounds, DpSgd, Learner
from amity.learn.stepping import kept_of
from amity.peer.attacks import Attack, NoAttack
from amity.peer.mixing import Mean, Mixer
from amity.peer.privacy import Mechanism, NoPrivacy
from amity.peer.proxies import Vectors
from amity.peer.proxy import CardSpec, Sketcher, directions_of, signs_of
from amity.peer.solo import Solo, nothing_known
from amity.rng import rng

SHADOW = "shadow."
"""Before the names of a shadow's vectors in a checkpoint."""


@dataclass(frozen=True, kw_only=True)
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
    later: tuple[tuple[int, tuple[int, int]], ...] = ()
    """From which round on there are other numbers of epochs."""
    extended: tuple[tuple[int, int], ...] = ()
    """Before which round the run was extended, and how many rounds it had until then."""
    fact_examples: int
    """How many of its training examples a peer uses to answer facts about models (0: all)."""
    privacy: Mechanism = field(default_factory=NoPrivacy)
    mixer: Mixer = field(default_factory=Mean)
    attack: Attack = field(default_factory=NoAttack)
    attackers: frozenset[PeerId] = frozenset()
    judged: bool = False
    """Whether losses on validation examples are told: the run may end early."""
    secret: bool = False
    """Whether privacy draws from the operating system, as real peers do, and not from the seed that
    all members know."""

    def epochs_at(self, round: int) -> tuple[int, int]:
        """Epochs of a round: K_w, K_β."""
        return in_force((self.epochs, self.epochs_head), self.later, round)

    def horizon(self, round: int) -> int:
        """How many rounds were planned when a round was done."""
        return next((before for at, before in self.extended if round < at), self.rounds)


@dataclass(frozen=True)
class Rows:
    """Where a peer's vectors live. They are written in place, so an engine may lay them out in
    shared memory."""

    start: torch.Tensor
    trained: torch.Tensor
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    next_state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    share: torch.Tensor | None = None
    """What others may have, where that is not `trained` as it stands."""
    mask: torch.Tensor | None = None
    moments: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """What the optimiser remembers of each fit of a round's training, as `NUMBER.NAME`; empty: it
    begins every fit afresh."""
    next_moments: Mapping[str, torch.Tensor] = field(default_factory=dict)
    alone: torch.Tensor = field(default_factory=nothing_known)
    """How often I am right if I learn from nobody, once I know it."""


MOMENTS = "optimiser."
"""What a checkpoint calls what the optimiser remembers."""


def copy_all(vectors: Mapping[str, torch.Tensor], to: Mapping[str, torch.Tensor]) -> None:
    for key, vector in vectors.items():
        to[key].copy_(vector)


def _unguessable() -> np.random.Generator:
    """A generator that nobody can foresee: 256 bits of the operating system's randomness."""
    return np.random.default_rng(secrets.randbits(256))


class Peer:
    """One peer within a run. `start` and `trained` frame the local training of the round."""

    def __init__(self, name: PeerId, data: PeerData, world: World, rows: Rows) -> None:
        self.name, self.data, self.world, self.rows = name, data, world, rows
        self.round = 0
        self.ledger = Ledger()
        self.stats = Stats()
        self.attacking = name in world.attackers
        planned = world.horizon(0) * world.epochs
        self.solo = Solo(data.train, world.initial, world.learner, planned, rows.alone)
        self.allowed: int | None = None
        """How many more private steps (or uploads) the budget has room for; None: any number."""
        self.spent = 0
        """Private steps (or uploads) since a runtime last took them down."""
        self.shadow: Peer | None = None
        """What I would be if I learnt from nobody, where that is looked at. It never leaves me."""

    def reset(self) -> None:
        """The state before the first round."""
        self.round = 0
        self.start.copy_(self.world.initial)
        self._keep(self.rows.state, self.world.method.init(self.start, self.context("init")))
        for vector in self.rows.moments.values():
            vector.zero_()
        if self.shadow is not None:
            self.shadow.reset()

    @property
    def start(self) -> torch.Tensor:
        return self.rows.start

    @property
    def trained(self) -> torch.Tensor:
        return self.rows.trained

    def context(self, purpose: str, *names: str, visiting: bool = False) -> Context:
        world = self.world
        stream = rng(world.seed, purpose, self.round, self.name, *names)
        if world.secret and world.privacy.trains:
            stream = _unguessable()  # who knows the batches knows better than ε says
        epochs, epochs_head = world.epochs_at(self.round)
        return Context(
            learner=world.learner,
            train=self.data.train,
            rng=stream,
            epochs=epochs,
            epochs_head=epochs_head,
            round=self.round,
            rounds=world.horizon(self.round),
            seed=world.seed,
            purpose=purpose,
            visiting=visiting,
        )

    def _noise(self, *names: str | int) -> np.random.Generator:
        """What privacy and attackers draw from."""
        return (
            _unguessable()
            if self.world.secret
            else rng(self.world.seed, "noise", self.name, *names)
        )

    @property
    def probe_data(self) -> Samples:
        return self.data.train.first(self.world.fact_examples)

    def examples(self, split: Literal["train", "validation"]) -> Samples:
        """What losses of others' models are measured on; without validation examples, on those for
        training."""
        data = self.data.validation if split == "validation" else self.data.train
        return data.first(self.world.fact_examples) if len(data) else self.probe_data

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
                f"method {type(self.world.method).__name__}: its state must keep the names that"
                f" init gave it, {sorted(rows)}, got {sorted(state)}"
            )
        for key, value in state.items():
            rows[key].copy_(value)

    # -- the round ---------------------------------------------------------------------------------

    def training(self, ctx: Context) -> Training[None]:
        """Local training from `start`, as a generator; at its end the rows hold what came of it."""
        self.stats = Stats()
        training = self._generator(
            "train", self.world.method.train(self.rows.state, self.start, ctx)
        )
        if self.rows.moments:
            training = self._remembering(training)
        state, trained, self.stats = yield from training
        self._keep(self.rows.next_state, state)
        self.trained.copy_(trained)
        self._publish(state)

    def _remembering(self, training: Training[R]) -> Training[R]:
        """The same training, whose fits go on from what their optimiser was in the last round: the
        first from the first, the second from the second."""
        copy_all(self.rows.moments, self.rows.next_moments)
        fits = 0
        try:
            request = next(training)
            while True:
                if isinstance(request, Fit):
                    request = replace(request, moments=self._moments(fits, request.part))
                    fits += 1
                request = training.send((yield request))
        except StopIteration as stop:
            result: R = stop.value
            return result

    def _moments(self, at: int, part: slice | None) -> Moments:
        """Where the optimiser of a fit keeps what it remembers."""
        here = f"{at}."
        mine = {
            key.removeprefix(here): row
            for key, row in self.rows.next_moments.items()
            if key.startswith(here)
        }
        layout, optimiser = self.world.learner.layout, self.world.learner.recipe.optimiser
        lengths = kept_of(optimiser, layout, part or layout.everything)
        if {key: len(row) for key, row in mine.items()} != lengths:
            raise StrategyError(
                f"method {type(self.world.method).__name__}: with train.keep its fits must be the"
                f" same parts in the same order in all rounds, and number {at + 1} is another than"
                " in the first; use train.keep=false"
            )
        return mine

    def _honest(self, state: State) -> Share:
        """What I have to offer after training, as privacy lets it go."""
        share = self.world.method.share(state, self.trained, self.context("share"))
        return self._released(share, self.start, "share") if self.world.privacy.uploads else share

    def _released(self, share: Share, base: torch.Tensor, *names: str) -> Share:
        """An update with noise; nothing but the base once the budget is spent."""
        if self.allowed == 0:
            return Share(
                base if share.mask is None else torch.where(share.mask, base, 0.0), share.mask
            )
        return self.world.privacy.upload(share, base, self._noise("upload", self.round, *names))

    def _pay_privacy(self, steps: int) -> None:
        self.spent += steps
        self.allowed = None if self.allowed is None else max(0, self.allowed - steps)

    def _publish(self, state: State) -> None:
        share, rows, world = self._honest(state), self.rows, self.world
        self._pay_privacy(1 if world.privacy.uploads and self.allowed != 0 else 0)
        if self.attacking:
            share = world.attack.share(
                share, self.start, world.initial, self._noise("attack", self.round)
            )
        if rows.share is None:
            if share.mask is not None or share.theta.data_ptr() != self.trained.data_ptr():
                raise StrategyError(
                    f"method {type(self.world.method).__name__}: shares theta in one round, not in"
                    " another"
                )
            return
        if rows.mask is None and share.mask is not None:
            raise StrategyError(
                f"method {type(self.world.method).__name__}: its first share must have a mask, as"
                " later ones do"
            )
        rows.share.copy_(share.theta)
        if rows.mask is not None:
            rows.mask.copy_(torch.ones_like(rows.mask) if share.mask is None else share.mask)

    def _generator(self, verb: str, training: Training[R]) -> Training[R]:
        """A method is anybody's code: does it train as methods train?"""
        if not isinstance(training, Generator):
            raise StrategyError(
                f"method {type(self.world.method).__name__}: {verb} must be a generator that asks"
                " for its training, `fitted = yield Fit(theta, ctx.epochs)`, got"
                f" {type(training).__name__}"
            )
        return training

    def alone(self, training: Training[R], ctx: Context) -> R:
        """Run a generator of requests, one after the other."""
        try:
            request = next(training)
            while True:
                request = training.send(self.fulfil(request, ctx))
        except StopIteration as stop:
            result: R = stop.value
            return result

    def fulfil(self, request: TrainingRequest, ctx: Context) -> Fitted:
        """What a method asks for: by DP-SGD where training is private and the result may leave."""
        learner, privacy = self.world.learner, self.world.privacy
        if not isinstance(request, Fit | Gradient):
            raise StrategyError(
                f"a method must yield Fit(theta, epochs), got {type(request).__name__}"
            )
        private = privacy.trains and not (isinstance(request, Fit) and request.kept)
        noise = DpSgd(privacy.sigma, privacy.clip, self.allowed) if private else None
        before = learner.private_steps
        if isinstance(request, Gradient):
            fitted = learner.slope(request.theta, ctx.train, ctx.rng, noise)
        else:
            bounds = Bounds(request.anchor, request.pull, request.mask)
            fitted = learner.fit(
                request.theta,
                ctx.train,
                ctx.rng,
                request.epochs,
                request.part,
                ctx.round,
                bounds,
                noise,
                rounds=ctx.rounds,
                moments=request.moments,
            )
        self._pay_privacy(learner.private_steps - before)
        return fitted

    def sketch(self, spec: CardSpec) -> torch.Tensor:
        """φ of this round, as it goes onto the card."""
        phi = self._phi(spec, self.mine, self.solo)
        return self._sketched(phi, spec, 0 if spec.lasting else self.round)

    def card_length(self, spec: CardSpec) -> int:
        """How many numbers my cards have. Nothing is trained to know it, and nothing published."""
        return spec.numbers(len(self._phi(spec, self.share_start, None)))

    def _phi(self, spec: CardSpec, mine: Share, solo: Solo | None) -> torch.Tensor:
        shared = {"shared": mine, "shared_start": self.share_start}
        at = Vectors(self.start, self.trained, self.world.initial, **shared, solo=solo)
        data = self.data.train if spec.kind.whole else self.probe_data
        return spec.phi(at, data, self.world.learner)

    def _sketched(
        self, phi: torch.Tensor, spec: CardSpec | None, *names: str | int
    ) -> torch.Tensor:
        lot = self.world.learner.recipe.batch
        sketch = self.world.privacy.card(
            phi, lambda v: self._small(v, spec), lot, self._noise("card", *names)
        )
        if spec is None or spec.bits == 32:
            return sketch
        if spec.bits == 16:
            return directions_of(sketch, spec.kind.parts)
        return signs_of(sketch, rng(self.world.seed, "coins", self.name, *names))

    def _small(self, phi: torch.Tensor, spec: CardSpec | None) -> torch.Tensor:
        """φ as it is sent: whole if nothing is said of its size."""
        sketcher = self.world.sketcher
        return sketcher(phi, 0) if spec is None else spec.small(phi, sketcher)

    @property
    def share(self) -> Share:
        """My model as published after training."""
        return (
            Share(self.trained)
            if self.rows.share is None
            else Share(self.rows.share, self.rows.mask)
        )

    @property
    def mine(self) -> Share:
        """My model as I mix it myself: what I published, unless I tampered with that."""
        return (
            self._honest(self.rows.next_state)
            if self.attacking and self.rows.share is not None
            else self.share
        )

    @property
    def share_start(self) -> Share:
        """My model of the round's start, as it goes on a visit."""
        return self.world.method.share(self.rows.state, self.start, self.context("share"))

    def settle(self, mixed: Share) -> None:
        """End of the round: the mixed model becomes the next start. Reads `trained` and what the
        training left, so that it can be done again if it was cut short."""
        method = self.world.method
        state, start = method.absorb(
            self.rows.next_state, self._kept(), mixed, self.context("absorb")
        )
        self._keep(self.rows.state, state)
        copy_all(self.rows.next_moments, self.rows.moments)
        self.start.copy_(start)

    def finishing(self, ctx: Context) -> Training[torch.Tensor]:
        """What is evaluated: the method's own model after this round's mixing."""
        return self._generator("model", self.world.method.model(self.rows.state, self.start, ctx))

    # -- answers to facts --------------------------------------------------------------------------

    def own_losses(self) -> Losses:
        """My losses before and after this round's training."""
        learner, data = self.world.learner, self.probe_data
        with self.paying():
            return Losses(learner.loss(self.start, data), learner.loss(self.trained, data))

    def adopt(self, share: Share) -> torch.Tensor:
        """The model that I would have if I took this share alone."""
        return self.world.method.absorb(
            self.rows.next_state, self._kept(), share, self.context("absorb")
        )[1]

    def _kept(self) -> torch.Tensor:
        """What is mine where nobody offers anything: my trained model. With private uploads that is
        as it was published wherever it was, because it will be published again as the base of the
        next update."""
        if not self.world.privacy.uploads:
            return self.trained
        mine = self.mine
        return mine.theta if mine.mask is None else torch.where(mine.mask, mine.theta, self.trained)

    def probe(self, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int) -> Offer:
        """φ and F of a guest's model on my data, with my own part of the start of the round (Alg.
        1, line 6)."""
        return self._probe(guest, visitor, spec, degree)[2]

    def _probe(
        self, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> tuple[State, torch.Tensor, Offer]:
        with self.paying():
            ctx = self.context("absorb", visiting=True)
            state, theta = self.world.method.absorb(self.rows.state, self.start, guest, ctx)
            learner = self.world.learner
            phi, loss = learner.gradient(theta, self.probe_data, learner.layout.proxy)
        sketch = self._sketched(phi, spec, self.round, visitor).cpu()
        card = Card(self.name, self.round, len(self.data.train), degree, sketch)
        return state, theta, Offer(len(self.data.train), card, None, Losses(loss, loss))

    def host_visit(
        self, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        """Alg. 1, lines 6 to 8: probe the guest, train a scratch copy of it, hand back model and
        losses.

        The scratch copy has a scratch head too: only my own training changes what I keep.
        """
        state, theta, offer = self._probe(guest, visitor, spec, degree)
        before = offer.losses.before if offer.losses else float("nan")
        world, method, ctx = (
            self.world,
            self.world.method,
            self.context("visit", visitor, visiting=True),
        )
        with self.paying():
            state, trained, _ = self.alone(
                self._generator("train", method.train(state, theta, ctx)), ctx
            )
            after = world.learner.loss(trained, self.probe_data)
        share = method.share(state, trained, self.context("share"))
        if world.privacy.uploads:
            share = self._released(share, theta, "visit", visitor)
            self._pay_privacy(1 if self.allowed != 0 else 0)
        if self.attacking:
            share = world.attack.share(
                share, theta, world.initial, self._noise("attack", self.round, visitor)
            )
        return Offer(offer.examples, offer.card, share, Losses(before, after))

    # -- checkpoints -------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, torch.Tensor]:
        """What a checkpoint must hold of me, besides the notebook."""
        shadow = {} if self.shadow is None else self.shadow.snapshot()
        return {
            "start": self.start,
            **{f"state.{key}": value for key, value in self.rows.state.items()},
            **{f"{MOMENTS}{key}": value for key, value in self.rows.moments.items()},
            **{f"{SHADOW}{key}": value for key, value in shadow.items()},
        }

    def resume(self, round: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """The opposite of `snapshot`: stand where a checkpoint left off."""
        self.round = round - 1
        self.start.copy_(tensors["start"])
        self.trained.copy_(tensors["start"])
        state = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
        self._keep(self.rows.state, state)
        self._keep(self.rows.next_state, state)
        kept = {k.removeprefix(MOMENTS): v for k, v in tensors.items() if k.startswith(MOMENTS)}
        if kept.keys() != self.rows.moments.keys():
            raise RunDirError(
                f"the checkpoint of {self.name} keeps {sorted(kept) or 'nothing'} of its"
                f" optimiser, expected {sorted(self.rows.moments)}; it is not of this run"
            )
        copy_all(kept, self.rows.moments)
        shadow = {k.removeprefix(SHADOW): v for k, v in tensors.items() if k.startswith(SHADOW)}
        if self.shadow is not None and shadow:
            self.shadow.resume(round, shadow)
