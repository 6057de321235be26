"""Facts that try a model out on my own examples, without keeping any of them back.

A model that I have trained knows my examples, and so does one that I was mixed into. Both of these
look only at models that have not seen what they are tried on: others' models as they come, and my
own from one half of my examples, tried on the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amity.core import PeerId
from amity.facts import Mixture, ModelFact, mixture
from amity.lazy import torch

if TYPE_CHECKING:
    from amity.peer.peer import Peer


@dataclass(frozen=True)
class Alone(ModelFact):
    """How often I would be right if I learnt from nobody: a model trained from the initial one on
    one half of my examples, tried on the other half, both ways. Ask it of yourself."""

    raw = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        return [me.solo.right() for _ in models]


@dataclass(frozen=True)
class Agreement(ModelFact):
    r"""How often a mixture of others' models gives my answers, as it is, if it is told how often
    each class occurs here and forgets how often it expects each: the same number for each j.

        argmax_c  p(c | x) · P_i(c) / p̄(c),     p̄ = mean of p(· | x) over my examples

    Under label skew a crowd that knows my classes scores high, though it expects others too; one
    that sees another kind of input, or gives other answers to the same, scores as chance does.
    """

    row: Mixture
    raw = True
    together = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        data, learner, theta = me.data.train, me.world.learner, mixture(self.row, models)
        if theta is None or not len(data):
            return [math.nan for _ in models]
        x, y = data.pixels.batch(data.index)
        said = learner.probabilities(theta, x).double()
        learner.forward_examples += len(data)
        here = torch.bincount(y, minlength=said.shape[1]).double() / len(y)
        fair = said * (here / said.mean(0).clamp_min(1e-6))
        right = float((fair.argmax(1) == y).double().mean())
        return [right if bool(torch.isfinite(said).all()) else 0.0 for _ in models]
