"""Facts for which models travel: to have them, and what I measure on those that have arrived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from amity.core import Answers, PeerId
from amity.facts.base import Asker, Fact, Offer
from amity.geometry import cosines, squared_distances
from amity.lazy import torch

if TYPE_CHECKING:
    from amity.peer.peer import Peer

Split = Literal["train", "validation"]
Mixture = tuple[tuple[PeerId, float], ...]
"""A row as a fact can hold it: whose models, and with what weights."""


@dataclass(frozen=True)
class Pull(Fact):
    """j's model as published after its training."""

    moves = frozenset({"model"})

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.examples for j, offer in offers.items()}


@dataclass(frozen=True)
class ModelFact(Fact):
    """Base of facts that I compute on models that have arrived. Each model is measured as I would
    have it if I took it alone. If a model came back from a visit, it replaces the published one.
    START may be asked about too."""

    moves = frozenset({"model"})
    single = True
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
