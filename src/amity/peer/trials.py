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
    from amity.data.samples import Samples
    from amity.learn.learner import Learner
    from amity.peer.peer import Peer
    from amity.tasks import Rightness


@dataclass(frozen=True)
class Alone(ModelFact):
    """How right I would be if I learnt from nobody: a model trained from the initial one on
    one half of my examples, tried on the other half, both ways. The answer is a `Rightness`: a
    share, and the skill beyond chance. Ask it of yourself."""

    raw = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        return [me.solo.right() for _ in models]


@dataclass(frozen=True)
class Agreement(ModelFact):
    r"""How right a mixture of others' models is on my examples, as it is, if it is told how often
    each answer occurs here and forgets how often it expects each (`Task.fair`): the same number
    for each j. Of classes it is how often the mixture gives mine:

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
        return [_tried(theta, data, learner).right] * len(models)


@dataclass(frozen=True)
class Skill(ModelFact):
    r"""How much better each model is, by itself, on a few of my examples, than the best answer that
    is the same for all, by the same corrected answers as `Agreement`. Of classes:

        (share that is right − max_c P_i(c)) / (1 − max_c P_i(c))

    1 is all right, 0 is as good as knowing nothing, and −1 the least that is said. A model that is
    no numbers is never right.
    """

    examples: int = 32
    raw = True

    def on(self, me: Peer, models: Mapping[PeerId, torch.Tensor]) -> list[Any]:
        data, learner = me.data.train.first(self.examples), me.world.learner
        if not len(data):
            return [math.nan for _ in models]
        return [_tried(theta, data, learner).skill for theta in models.values()]


def _tried(theta: torch.Tensor, data: Samples, learner: Learner) -> Rightness:
    """How right a model is on these examples, told how often each answer occurs here."""
    x, y = data.pixels.batch(data.index)
    learner.forward_examples += len(data)
    return learner.task.fair(learner.outputs(theta, x), y, learner.target)
