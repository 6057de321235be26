"""DAC: decentralised adaptive clustering, by the inverse loss and by hearsay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless, finite
from amity.core import Answers, Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import MOST_SAID, Loss, Pull, Said
from amity.strategies.registry import strategies

LEAST = 1e-6
"""No loss counts as lower, so that every similarity is finite."""


@strategies.register("dac")
@dataclass(frozen=True)
class Dac(Cardless):
    r"""Prefer those whose models do well on my data, or on the data of somebody like me (Listo Zec
    et al. 2022).

    `k` neighbours C_i^t are drawn without replacement, with chances

        p_ij = exp(τ_t s_ij) / Σ_l exp(τ_t s_il),     τ_t = 2a / (1 + e^{−b(t−1)}) − a + 1

    with a = `tau` and b = `growth`. What I have measured, and what I have only heard of:

        s_ij ← 1 / F_i(ŵ_j)        for j ∈ C_i^t, on my own training data
        s_ij ← s_kj                for j whom I never drew, where k ∈ C_i^t is the one most like me
                                   (largest s_ik) that knows j; 0 while nobody does

    s_kj is what k said at the end of its last round (`Said`). Mixing: the mean over C_i^t and me,
    weighed by numbers of examples, or equally (`weights`): the number is what j says it is.

    `tau` = 0 is almost Gossip (τ = 1), a large `tau` draws the best alone. τ grows from 1 to a + 1;
    a large `growth` is the fixed temperature a + 1 of the paper's first variant, 0 leaves it at 1.
    The code's default is a = 1, its published pictures are of a = 20. It draws for round t with the
    τ of the round before, and so do we. There s_kj is read from k's memory while the round runs;
    here it is a round old. A loss that is not finite is neither used nor remembered, nor is a
    similarity that is not above 0. Who lies about s_kj sends me to j once: then I have measured it.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn in a round, by how well their models do; 0 is training alone."""
    tau: Annotated[float, Field(ge=0, le=1e6)] = 20.0
    """a: how sharp the draw becomes; 0 is almost uniform, a large value draws the best alone."""
    growth: Annotated[float, Field(ge=0, le=100)] = 0.2
    """b: how fast it becomes so, per round."""
    weights: Literal["examples", "uniform"] = "examples"
    """Of those drawn: by their numbers of examples, or equal."""

    def decide(self, view: View, row: Row) -> Plan:
        met: dict[PeerId, float] = dict(view.memory.get("met", {}))
        heard: dict[PeerId, float] = dict(view.memory.get("heard", {}))
        tau = self.temperature(view.round - 1)
        examples = yield Ask(Pull(), self._draw(view, heard | met, tau))
        losses = finite((yield Ask(Loss(), tuple(sorted(examples)))))
        met |= {j: 1 / max(loss, LEAST) for j, loss in losses.items()}
        said = yield Ask(Said(), tuple(sorted(losses)))
        heard |= _hearsay(view, met, sorted(said, key=lambda k: (-met[k], k)), said)
        known = {j: s for j, s in heard.items() if j not in met} | met
        loud = sorted(known, key=lambda j: (-known[j], j))[:MOST_SAID]
        counts = {view.me: view.examples} | {j: examples[j] for j in losses}
        return Decision(
            spread(counts if self.weights == "examples" else tuple(counts)),
            {"met": met, "heard": {j: s for j, s in known.items() if j not in met}},
            {"tau": tau, "heard_of": float(len(known) - len(met))},
            {j: known[j] for j in view.neighbours if j in known},
            {j: known[j] for j in loud},
        )

    def temperature(self, round: int) -> float:
        """τ at the end of a round."""
        return 2 * self.tau / (1 + math.exp(-self.growth * max(round, 0))) - self.tau + 1

    def _draw(self, view: View, known: Mapping[PeerId, float], tau: float) -> tuple[PeerId, ...]:
        """The largest of τ·s + Gumbel noise: a draw by p without replacement, in which no chance
        vanishes by rounding."""
        noise = view.rng.gumbel(size=len(view.neighbours)).tolist()
        keys = {
            j: tau * known.get(j, 0.0) + lot for j, lot in zip(view.neighbours, noise, strict=True)
        }
        return tuple(sorted(sorted(keys, key=lambda j: (-keys[j], j))[: self.k]))

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)


def _hearsay(
    view: View, met: Mapping[PeerId, float], tellers: list[PeerId], said: Answers
) -> dict[PeerId, float]:
    """What the first teller who knows them says of neighbours whom I have not met. Whatever is no
    similarity is not heard."""
    heard: dict[PeerId, float] = {}
    for j in view.neighbours:
        known = (said[k].get(j, 0.0) for k in tellers if j not in met)
        if found := next((s for s in known if 0 < s < math.inf), None):
            heard[j] = found
    return heard
