"""The page to read first: what a strategy sees, what it may ask, and what it decides.

Each round every **peer** trains, shows its neighbours a small **card**, asks a few **facts** about
them and decides one **row** of a mixing matrix. A **strategy** decides the row, a **method**
decides what is trained, shared and kept, and a **runtime** carries the asks: in one process (the
simulator) or over a network.

A strategy is a generator. It yields an `Ask`, is sent the answers, and returns a `Decision`::

    def decide(self, view, row):
        losses = yield Ask(Loss(), view.neighbours)      # a missing key is a lost message
        best = min(losses, key=losses.__getitem__, default=view.me)
        return Decision({view.me: 0.5, best: 0.5} if best != view.me else {view.me: 1.0})

It does no I/O, holds no tensors of other peers and knows nothing of the whole network. So the same
lines of code run in the simulator and between machines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import numpy as np

from amity.lazy import torch
from amity.registry.shape import no_yield
from amity.rng import rng

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.facts import Fact
    from amity.learn.learner import Learner
    from amity.peer.proxy import CardSpec

PeerId = str
"""The name of a peer."""

START: Final[PeerId] = "<start>"
"""Key of a row, and of asks that measure models: my own model as it was before this round's
training."""

Row = Mapping[PeerId, float]
"""Weights > 0 that sum to 1. Keys: me, START, and peers whose model arrived this round."""

Answers = Mapping[PeerId, Any]
"""What came back, by peer; who did not answer in time is missing."""

Memory = Mapping[str, Any]
"""A strategy's notebook: plain JSON-able data, committed only when the round completes."""


@dataclass(frozen=True)
class Ask:
    """A question to some peers. Asking myself is allowed: nothing is transferred, and nothing is
    lost."""

    fact: Fact
    peers: tuple[PeerId, ...]


@dataclass(frozen=True)
class Card:
    """What a peer publishes every round without moving its model: a few hundred bytes to a few
    kilobytes."""

    peer: PeerId
    round: int
    examples: int
    degree: int
    sketch: torch.Tensor

    @property
    def nbytes(self) -> int:
        """As it travels: two or four bytes per number, or one bit if only signs (int8) are
        shown."""
        if self.sketch.dtype == torch.int8:
            return (self.sketch.numel() + 7) // 8 + 16
        return self.sketch.element_size() * self.sketch.numel() + 16


@dataclass(frozen=True)
class Share:
    """A model as it is published. Coordinates where `mask` is False are not sent at all."""

    theta: torch.Tensor
    mask: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        """As it travels: four bytes per number, and with a mask one bit more per coordinate."""
        if self.mask is None:
            return 4 * self.theta.numel()
        return 4 * int(self.mask.sum()) + (self.mask.numel() + 7) // 8


@dataclass(frozen=True, kw_only=True)
class View:
    """All that a strategy ever sees. Peers are sorted by name."""

    me: PeerId
    round: int
    rounds: int
    neighbours: tuple[PeerId, ...]
    """Those whom I can reach in this round (B_i)."""
    examples: int
    """How many training examples I hold."""
    card: Card | None
    """My own card of this round, if the strategy publishes one."""
    rng: np.random.Generator
    """Mine alone: a function of (seed, round, me)."""
    common_rng: np.random.Generator
    """The same for every peer: a function of (seed, round)."""
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The row, the notebook for the next round, and notes that go into the metrics.

    `scores` ranks the neighbours as the strategy sees them; only the metrics (AUC) read it.
    """

    row: Row
    memory: Memory = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[PeerId, float] = field(default_factory=dict)
    says: Mapping[str, float] = field(default_factory=dict)
    """A few finite numbers by name that whoever asks `Said()` may have in the next round."""
    head: Row | None = None
    """A row of its own for the head of the model; None: the head goes with the rest."""
    why: Mapping[str, Mapping[PeerId, float]] = field(default_factory=dict)
    """What was learnt about others on the way, by fact and peer. The runtime fills it in; only the
    records read it."""


Plan = Generator[Ask, Answers, Decision]
"""What `decide` is: it yields asks, is sent their answers, and returns a decision."""


class Strategy(Protocol):
    """Decides one row per round. A frozen dataclass: its fields are its hyper-parameters.

    A strategy may need examples that nobody trains on, to measure on. It says how large a share of
    the training examples it wants by a class variable: `held_out: ClassVar[float] = 0.1`.
    """

    @property
    def card(self) -> CardSpec | None:
        """Which proxy to publish; None publishes and pays nothing."""

    def decide(self, view: View, row: Row) -> Plan:
        """Turn the row of the stage before into a new one. The first stage gets a row with only
        me."""

    def pulls(self, neighbours: int) -> float | Traffic:
        """How many models a peer with this many neighbours pulls per round, mean over the run: for
        estimates only. A `Traffic` where that depends on what it finds."""


class Band(NamedTuple):
    """From so many to so many."""

    least: float
    most: float


@dataclass(frozen=True)
class Traffic:
    """What a peer receives in a round, mean over the run, as far as that is known beforehand."""

    models: Band
    cards: Band | None = None
    """None: the cards of all neighbours, if the strategy has any."""

    @classmethod
    def of(cls, pulls: float | Traffic) -> Traffic:
        """What a strategy says, in one form."""
        return pulls if isinstance(pulls, Traffic) else cls(Band(pulls, pulls))


@runtime_checkable
class Explains(Protocol):
    """What a strategy may have besides: words for its notes, so that people see why it decided as
    it did. Reports show them."""

    def explain(self, notes: Mapping[str, float]) -> str:
        """One peer's notes of one round as a sentence; empty: they say nothing."""

    def sum_up(self, notes: Sequence[Mapping[str, float]]) -> str:
        """All peers' notes of one round in a line; empty: they say nothing."""


class Reference:
    """Base of strategies that no real network could run, as they see everyone, or the labels.
    Simulator only."""

    ignores_graph: ClassVar[bool] = False
    """Whether everyone who is online counts as a neighbour."""


State = Mapping[str, "torch.Tensor"]
"""What a method keeps beside theta: named vectors of P numbers (a personal model, a mask)."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a method may use: the learner, its own peer's data, and where in the run we are."""

    learner: Learner
    train: Samples
    rng: np.random.Generator
    epochs: int
    """K_w: epochs on the body (or on everything)."""
    epochs_head: int
    """K_β: epochs on the head."""
    round: int
    rounds: int
    seed: int
    purpose: str
    visiting: bool = False
    """Whether the model at hand is a guest's: what I keep for myself alone need not be trained
    along."""

    @property
    def common(self) -> np.random.Generator:
        """The same for all peers: a function of (seed, purpose, round)."""
        return rng(self.seed, self.purpose, self.round)


@dataclass(frozen=True)
class Stats:
    """What is reported about a training: the mean loss over its last epoch."""

    loss: float = float("nan")


Moments = Mapping[str, "torch.Tensor"]
"""What an optimiser remembers of a fit, by name, and the number of its steps."""


@dataclass(frozen=True)
class Fit:
    """What a method asks the engine for: some epochs of training on a part of theta (None: all of
    it), with the peer's own data."""

    theta: torch.Tensor
    epochs: int
    part: slice | None = None
    _: KW_ONLY
    anchor: torch.Tensor | None = None
    """A model that theta is drawn to: every step's gradient gets `pull` · (theta − anchor) added,
    before the optimiser sees it."""
    pull: float = 0.0
    mask: torch.Tensor | None = None
    """Coordinates where it is False are 0 after every step."""
    kept: bool = False
    """Whether the result never leaves this peer, nor alters anything that does: it needs no
    differential privacy."""
    moments: Moments | None = None
    """Where the optimiser keeps what it remembers, with `train.keep`. The peer says it, not the
    method: each fit of a round's training has its own."""


@dataclass(frozen=True)
class Gradient:
    """The other thing a method may ask for: the gradient of the loss at theta, on one random batch
    of its peer's data."""

    theta: torch.Tensor


class Fitted(NamedTuple):
    """The answer to a `Fit`: a new theta, and the mean loss of the last epoch (NaN if there was
    none). To a `Gradient`: the gradient, as long as theta, and the loss of the batch."""

    theta: torch.Tensor
    loss: float


R = TypeVar("R")
TrainingRequest = Fit | Gradient
Training = Generator[TrainingRequest, Fitted, R]
"""Training as a generator: it yields each request and is sent its `Fitted`, so that an engine can
train many peers at once, and privacy can be had for all methods in one place."""


class Method(Protocol):
    """Personalisation in five functions. They change nothing in place: a visit runs them and
    discards the state.

    The two functions that train are generators::

        def train(self, state, theta, ctx):
            fitted = yield Fit(theta, ctx.epochs)
            return state, fitted.theta, Stats(fitted.loss)

    One that keeps the head and shares the body says so by a class variable, `splits:
    ClassVar[bool] = True`: then a model is refused of which one of the two is frozen.
    """

    def init(self, theta: torch.Tensor, ctx: Context) -> State:
        """The state before the first round."""

    def train(
        self, state: State, theta: torch.Tensor, ctx: Context
    ) -> Training[tuple[State, torch.Tensor, Stats]]:
        """One round of local training, from theta. The state keeps the names that `init` gave
        it."""

    def share(self, state: State, theta: torch.Tensor, ctx: Context) -> Share:
        """What others may have of theta."""

    def absorb(
        self, state: State, theta: torch.Tensor, mixed: Share, ctx: Context
    ) -> tuple[State, torch.Tensor]:
        """Take over a mixed model. Where `mixed.mask` is False nobody offered a value, and mine
        stays."""

    def model(self, state: State, theta: torch.Tensor, ctx: Context) -> Training[torch.Tensor]:
        """The model that is evaluated and exported (fine-tuning lives here)."""


def advance(plan: Plan, answers: Answers | None = None) -> Ask | Decision:
    """Send a plan its answers (None at the start). Returns its next ask or its decision."""
    if not isinstance(plan, Generator):
        raise TypeError(no_yield("decide"))
    try:
        return next(plan) if answers is None else plan.send(answers)
    except StopIteration as stop:
        if not isinstance(stop.value, Decision):
            raise TypeError(
                f"a plan must return a Decision, got {type(stop.value).__name__}"
            ) from None
        return stop.value


def drive(plan: Plan, answer: Callable[[Ask], Answers]) -> Decision:
    """Run a plan to its decision, with `answer` carrying its asks."""
    step = advance(plan)
    while not isinstance(step, Decision):
        step = advance(plan, answer(step))
    return step


@dataclass(frozen=True)
class Chain:
    """Strategies one after the other: each stage refines the row of the one before, with its own
    notebook and rng.

    One card is published: that of the first stage that has one.
    """

    stages: tuple[Strategy, ...]

    @property
    def card(self) -> CardSpec | None:
        return next((stage.card for stage in self.stages if stage.card is not None), None)

    def pulls(self, neighbours: int) -> Traffic:
        """A stage looks at the cards of those in the row, the first of all at whom it likes."""
        parts = [Traffic.of(stage.pulls(neighbours)) for stage in self.stages]
        models = Band(max(p.models.least for p in parts), max(p.models.most for p in parts))
        return Traffic(models, models if self.stages[0].card is None else parts[0].cards)

    def decide(self, view: View, row: Row) -> Plan:
        memory: dict[str, Any] = {}
        notes: dict[str, float] = {}
        scores: Mapping[PeerId, float] = {}
        says: dict[str, float] = {}
        head: Row | None = None
        streams = view.rng.spawn(len(self.stages))
        for at, (stage, stream) in enumerate(zip(self.stages, streams, strict=True)):
            mine = replace(view, memory=view.memory.get(str(at), {}), rng=stream)
            decision = yield from stage.decide(mine, row)
            head = decision.head or (None if head is None else follow(head, row, decision.row))
            row, memory[str(at)] = decision.row, decision.memory
            notes |= decision.notes
            scores, says = scores or decision.scores, says | dict(decision.says)
        return Decision(row, memory, notes, scores, says, head)


def chain(*stages: Strategy) -> Strategy:
    """`chain(Gossip(), MyGate())`: the first chooses, the others re-weigh."""
    return stages[0] if len(stages) == 1 else Chain(stages)


def spread(peers: Mapping[PeerId, float] | tuple[PeerId, ...]) -> dict[PeerId, float]:
    """A row from non-negative weights (or, for a tuple, equal ones), in sorted order of names."""
    weights = dict(peers) if isinstance(peers, Mapping) else dict.fromkeys(peers, 1.0)
    total = sum(weights[j] for j in sorted(weights))
    return {j: weights[j] / total for j in sorted(weights) if weights[j] > 0}


def follow(head: Row, before: Row, after: Row) -> Row:
    """A head's row, after a stage has turned the row `before` into `after`: everyone keeps as much
    of it as of the row. If nobody is left, the head goes with the rest."""
    kept = {j: w * after.get(j, 0.0) / before[j] for j, w in head.items() if j in before}
    return spread(kept) or after


def in_force(first: R, later: Sequence[tuple[int, R]], round: int) -> R:
    """What holds in a round: the first, until something later does. `later` says from which round
    on, in order."""
    return next((value for start, value in reversed(later) if start <= round), first)


def taken_from(row: Row, me: PeerId) -> dict[PeerId, float]:
    """The part of a row that belongs to others."""
    return {j: weight for j, weight in row.items() if j not in (me, START)}
