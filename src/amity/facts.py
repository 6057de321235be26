"""Everything that one peer can learn about another, what it costs, and where it is computed.

This list is the privacy boundary and the cost table. A fact says what must travel (`moves`),
whether my model travels to the neighbour first (`sends`), and whether it tells something about raw
data that the noise on the training does not protect (`raw`).

| fact | answer | moves | computed |
|---|---|---|---|
| `Pull()` | examples of j; its model may now stand in my row | model | - |
| `Similarity()` | cos(φ_i, φ_j) of the cards | card | me |
| `Likeness()` | how alike any two are, chance set aside, from cards with two halves | card | me |
| `Loss()` | F_i(ŵ_j): loss of j's model on my data, training or validation | model | me: a pass |
| `Distance()` | ‖ŵ_j − w_i‖ from my model after (or before) this round's training | model | me |
| `Distances()` | ‖ŵ_j − ŵ_k‖ for all pairs of those asked | model | me |
| `Cosine()` | cos(ŵ_j, w_i), of the models or of what they learned since the start | model | me |
| `Slope()` | ⟨∇F_i, ŵ_j − w_i⟩: how my loss changes towards j's model | model | me: a gradient |
| `MixtureLoss()` | F_i(Σ_j ϖ_j ŵ_j): losses of mixtures of those asked | model | me: a pass each |
| `Agreement()` | how often a mixture of models gives my answers | model | me: a pass |
| `Alone()` | how often I would be right if I learnt from nobody | - | me: training |
| `Degree()` | how many neighbours j reaches | - (it comes with j's sign of life) | - |
| `Reported()` | j's own losses before and after training | reply | j: two passes per round |
| `Said()` | what j's strategy said at the end of its last round | reply | - |
| `Probe()` | φ_j and F_j at my model | my model there, card and reply back | j: a pass |
| `Visit()` | as Probe, then j trains a copy of my model | my model there, all back | j: training |
| `Labels()` | j's label distribution: a reference, simulator only | - | - |
| `Groups()` | j's hidden group, None in a world without: a reference, simulator only | - | - |

The passes of `Loss`, `MixtureLoss`, `Agreement` and `Reported` go forward only; those of `Reported`
are shared by all askers. `Agreement` and `Alone` stand in `peer/trials.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from amity.core import Answers, Card, PeerId, Share
from amity.geometry import cosines, squared_distances, units
from amity.lazy import torch

if TYPE_CHECKING:
    from amity.peer.peer import Peer
    from amity.peer.proxy import CardSpec

Kind = Literal["card", "model", "reply"]
Split = Literal["train", "validation"]
Mixture = tuple[tuple[PeerId, float], ...]
"""A row as a fact can hold it: whose models, and with what weights."""


@dataclass(frozen=True)
class Losses:
    """F before and after local training (the paper's F_j(w^t) and F_j(w^{t,K}))."""

    before: float
    after: float


@dataclass(frozen=True)
class Reading:
    """The answer to a `Probe` or a `Visit`. If only a card was seen, it has no losses."""

    similarity: float
    losses: Losses | None


class Offer(NamedTuple):
    """What came from one neighbour: exactly the pieces that the fact moves."""

    examples: int = 0
    card: Card | None = None
    share: Share | None = None
    losses: Losses | None = None
    labels: tuple[float, ...] = ()
    degree: int = 0
    says: Mapping[str, float] | None = None
    group: int | None = None


class Asker(Protocol):
    """The peer that asks, as far as a fact needs it."""

    @property
    def card(self) -> Card | None: ...

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        """What a fact says about these peers' models; nothing is computed twice in a round."""


@dataclass(frozen=True)
class Fact:
    """Base of all facts. Facts are frozen values, so they can be compared, logged and sent."""

    moves: ClassVar[frozenset[Kind]] = frozenset()
    sends: ClassVar[bool] = False
    raw: ClassVar[bool] = False
    reference: ClassVar[bool] = False

    def name_of(self, spec: CardSpec | None) -> str:
        """The name of the fact in reports on privacy. For cards it names the proxy on them."""
        cards = "card" in self.moves and not self.sends and spec is not None
        return f"{type(self).__name__} of {spec.proxy}" if cards and spec else type(self).__name__

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        """At the neighbour, for facts that send: compute on the guest's model."""
        raise NotImplementedError

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        """At the asker: turn what arrived into answers."""
        raise NotImplementedError


@dataclass(frozen=True)
class Pull(Fact):
    """j's model as published after its training."""

    moves = frozenset({"model"})

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.examples for j, offer in offers.items()}


@dataclass(frozen=True)
class Similarity(Fact):
    """Cosine of the cards' sketches; `centered` first subtracts the mean over mine and all that
    arrived."""

    centered: bool = False
    moves = frozenset({"card"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        cards = {j: offer.card.sketch for j, offer in offers.items() if offer.card is not None}
        if me.card is None or not cards:
            return {}
        names = sorted(cards)
        mine, others = me.card.sketch, torch.stack([cards[j] for j in names])
        # two vectors about their mean are opposite, whatever they are
        if self.centered and len(names) > 1:
            others, mine = others.float(), mine.float()
            centre = torch.cat([others, mine[None]]).mean(0)
            mine, others = mine - centre, others - centre
        return dict(zip(names, cosines(mine, others).tolist(), strict=True))


@dataclass(frozen=True)
class Likeness(Fact):
    r"""How alike any two of those asked are, chance set aside: 1 for peers with the same
    distribution, 0 for peers that have nothing in common. For cards with two halves (`twins`).

    With units a_i, b_i of the two halves of i's card, ρ_i = a_i·b_i tells how much of a half is
    more than chance (its reliability), and

        ℓ_ij = ¼ (a_i + b_i)·(a_j + b_j) / √(ρ_i ρ_j)

    is Spearman's correction of a cosine for attenuation. It estimates a cosine, so by chance it may
    be above 1. Who shows a card that is nearer to mine than my own halves are to each other
    (a_i·a_j or b_i·b_j above ½ (1 + ρ_i), or both a_i·b_j and b_i·a_j) has copied it, and is like
    nobody: 0. The answer for j maps k to ℓ_jk.
    """

    moves = frozenset({"card"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        cards = {j: offer.card.sketch for j, offer in offers.items() if offer.card is not None}
        names = sorted(cards)
        if not names:
            return {}
        alike = likeness(torch.stack([cards[j] for j in names]))
        if me.card is not None:
            copied = [
                at
                for at, j in enumerate(names)
                if j != me.card.peer and is_copy(cards[j], me.card.sketch)
            ]
            alike[copied], alike[:, copied] = 0.0, 0.0
        return {
            j: dict(zip(names, row, strict=True))
            for j, row in zip(names, alike.tolist(), strict=True)
        }


LEAST_RELIABLE = 0.1
"""Below this a card says nothing, and dividing by less would make a friend of chance."""


def likeness(cards_MD: torch.Tensor) -> torch.Tensor:
    """ℓ of any two cards, 1 on the diagonal."""
    a, b = (units(half) for half in cards_MD.chunk(2, dim=1))
    own = (a * b).sum(1)
    reliable = own.clamp(LEAST_RELIABLE, 1.0)
    both = (a + b) @ (a + b).T / 4
    alike = both / (reliable[:, None] * reliable[None]).sqrt()
    return alike.fill_diagonal_(1.0).float()


def is_copy(card: torch.Tensor, mine: torch.Tensor) -> bool:
    """Whether a card is nearer to mine than chance lets another peer's be."""
    (a, b), (mine_a, mine_b) = (units(one.reshape(2, -1)) for one in (card, mine))
    as_it_is = max(float(a @ mine_a), float(b @ mine_b))
    swapped = min(float(a @ mine_b), float(b @ mine_a))
    return max(as_it_is, swapped) > (1 + float(mine_a @ mine_b)) / 2


@dataclass(frozen=True)
class ModelFact(Fact):
    """Base of facts that I compute on models that have arrived. Each model is measured as I would
    have it if I took it alone. If a model came back from a visit, it replaces the published one.
    START may be asked about too."""

    moves = frozenset({"model"})
    together: ClassVar[bool] = False
    """Whether an answer depends on who else is asked about."""

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        """One answer per model, in order."""
        raise NotImplementedError

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return me.measured(self, [j for j, offer in offers.items() if offer.share is not None])


@dataclass(frozen=True)
class Loss(ModelFact):
    """Mean loss of j's model (with my own part where j keeps its own) on my training or validation
    data."""

    split: Split = "train"
    raw = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        data = me.examples(self.split)
        return [me.world.learner.loss(theta, data) for theta in models.values()]


@dataclass(frozen=True)
class Distance(ModelFact):
    """‖ŵ_j − w_i‖ in L1 or L2, where w_i is my own model after this round's training, or at the
    round's start."""

    of: Literal["trained", "start"] = "trained"
    norm: Literal["l2", "l1"] = "l2"

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        mine = me.adopt(me.mine if self.of == "trained" else me.share_start)
        order = 2 if self.norm == "l2" else 1
        return [
            float(torch.linalg.vector_norm((theta - mine).double(), order))
            for theta in models.values()
        ]


@dataclass(frozen=True)
class Distances(ModelFact):
    """‖ŵ_j − ŵ_k‖ for all k that are asked about: a mapping for each j."""

    together = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        apart = squared_distances(torch.stack(list(models.values()))).sqrt()
        return [dict(zip(models, row.tolist(), strict=True)) for row in apart]


@dataclass(frozen=True)
class Cosine(ModelFact):
    """cos(ŵ_j, w_i) over the coordinates that I share, where w_i is my own model after this round's
    training; or of what both have learned since the initial model, cos(ŵ_j − w⁰, w_i − w⁰). A
    model that has diverged has none: NaN."""

    of: Literal["model", "update"] = "model"

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        mine, origin, shared = me.adopt(me.mine), me.world.initial, me.mine.mask

        def vector(theta: torch.Tensor) -> torch.Tensor:
            moved = theta if self.of == "model" else theta - origin
            return moved if shared is None else moved[shared]

        def cosine(theta: torch.Tensor) -> float:
            if not bool(torch.isfinite(theta).all()):
                return math.nan
            return float(cosines(vector(mine), vector(theta)[None]))

        return [cosine(theta) for theta in models.values()]


@dataclass(frozen=True)
class Slope(ModelFact):
    """⟨∇F_i(w̄), ŵ_j − w_i⟩: how fast my loss changes as a mixture w̄ of those asked about goes
    towards j's model. Without a mixture w̄ = w_i, my own model after this round's training."""

    at: Mixture = ()
    split: Split = "validation"
    raw = True
    together = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        mine = me.adopt(me.mine)
        where = mixture(self.at, models) if self.at else mine
        if where is None:
            return [math.nan for _ in models]
        gradient = me.world.learner.gradient(where, me.examples(self.split))[0].double()
        return [float(gradient @ (theta - mine).double()) for theta in models.values()]


@dataclass(frozen=True)
class MixtureLoss(ModelFact):
    """Mean loss of mixtures of the models asked about, on my training or validation data: the same
    tuple for each j, one loss a row. A row that stands on a model which is not here has none: NaN.
    With `heads`, one for each row, the heads of the models are mixed by these.

    Models are mixed as I would have each of them alone. Where masks differ from peer to peer, a
    mixer would weigh anew coordinate by coordinate, which this does not.
    """

    rows: tuple[Mixture, ...]
    split: Split = "validation"
    heads: tuple[Mixture, ...] = ()
    raw = True
    together = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        data, learner = me.examples(self.split), me.world.learner
        mixed = (self._mixed(at, models, learner.layout.head) for at in range(len(self.rows)))
        losses = tuple(math.nan if theta is None else learner.loss(theta, data) for theta in mixed)
        return [losses for _ in models]

    def _mixed(
        self, at: int, models: Mapping[PeerId, torch.Tensor], part: slice
    ) -> torch.Tensor | None:
        theta = mixture(self.rows[at], models)
        if theta is None or not self.heads:
            return theta
        head = mixture(self.heads[at], {j: model[part] for j, model in models.items()})
        if head is None:
            return None
        theta[part] = head
        return theta


def mixture(row: Mixture, models: Mapping[PeerId, torch.Tensor]) -> torch.Tensor | None:
    """Σ_j ϖ_j ŵ_j in sorted order of names; None if one of them is not here."""
    if not row or any(j not in models for j, _ in row):
        return None
    (first, weight), *others = sorted(row)
    total = models[first] * weight
    for j, share in others:
        total.add_(models[j], alpha=share)
    return total


@dataclass(frozen=True)
class Degree(Fact):
    """How many neighbours j reaches in this round, as j says. It travels with the sign of life that
    every peer gives anyway, so it costs nothing."""

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.degree for j, offer in offers.items()}


@dataclass(frozen=True)
class Reported(Fact):
    """What j says about its own losses on its own data. j may lie."""

    moves = frozenset({"reply"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.losses for j, offer in offers.items() if offer.losses is not None}


@dataclass(frozen=True)
class Said(Fact):
    """What j's strategy said at the end of its last round: small numbers by name (`Decision.says`),
    none before its first. They may follow from raw data, and j may say anything."""

    moves = frozenset({"reply"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.says for j, offer in offers.items() if offer.says is not None}


@dataclass(frozen=True)
class Probe(Fact):
    """φ_j and F_j at my model of the round's start, with j's own head."""

    moves = frozenset({"card", "reply"})
    sends = True
    raw = True

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        return host.probe(guest, visitor, spec, degree)

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        similar = Similarity().read(me, offers)
        return {j: Reading(similar[j], offers[j].losses) for j in similar}


@dataclass(frozen=True)
class Visit(Probe):
    """Algorithm 1 as printed: j probes my model, trains a scratch copy of it on its data, and
    returns that model."""

    moves = frozenset({"card", "reply", "model"})

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        return host.host_visit(guest, visitor, spec, degree)


@dataclass(frozen=True)
class Labels(Fact):
    """The true label distribution of j: only the oracle asks, only the simulator answers."""

    reference = True
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.labels for j, offer in offers.items()}


@dataclass(frozen=True)
class Groups(Fact):
    """The hidden group of j, None where the world has no groups: only the oracle asks, only the
    simulator answers."""

    reference = True
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.group for j, offer in offers.items()}


REPLY_BYTES = 16
"""Two float64 losses."""
MOST_SAID = 1024
"""Numbers that a strategy may say in a round."""


@dataclass
class Ledger:
    """What one peer moved and computed in a round."""

    card_in: int = 0
    card_out: int = 0
    model_in: int = 0
    model_out: int = 0
    reply_in: int = 0
    reply_out: int = 0
    forward: int = 0
    backward: int = 0

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def plus(self, other: Ledger) -> Ledger:
        """Both together."""
        return Ledger(**{key: value + getattr(other, key) for key, value in vars(self).items()})


def transfer(kind: Kind, size: int, source: Ledger, target: Ledger) -> None:
    """Book `size` bytes of a kind as leaving `source` and reaching `target`."""
    setattr(source, f"{kind}_out", getattr(source, f"{kind}_out") + size)
    setattr(target, f"{kind}_in", getattr(target, f"{kind}_in") + size)
