r"""The equations of AFIND+ as pure functions on plain numbers: p, h, θ and ϖ.

`s` maps neighbours to similarities s_ij ∈ [−1, 1]. All sums run in sorted order of names.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Literal

from amity.core import PeerId

Threshold = Literal[
    "normalised", "literal", "softmax_p", "mean", "mean_similarity", "remark", "fixed_k"
]
Table = Mapping[PeerId, float]

SLACK = 1e-9
"""p ≥ θ up to rounding: equal similarities with τ = 1 + 1/n meet exactly."""


def temperature(s: Table, upsilon: float | Literal["auto"]) -> float:
    """υ, or with "auto" half the standard deviation of the similarities (at least 0.001)."""
    if upsilon != "auto":
        return upsilon
    return max(0.5 * statistics.pstdev(s.values()), 1e-3) if len(s) > 1 else 1.0


def softmax(s: Table, upsilon: float) -> dict[PeerId, float]:
    """exp(s_ij/υ) / Σ_k exp(s_ik/υ), with the largest subtracted first."""
    if not s:
        return {}
    highest = max(s.values())
    powers = {j: math.exp((s[j] - highest) / upsilon) for j in sorted(s)}
    total = math.fsum(powers.values())
    return {j: power / total for j, power in powers.items()}


def redistribute(p: Table, s: Table, upsilon: float) -> dict[PeerId, float]:
    r"""Eq. (practical sampling): those in `s` share anew the probability that they had together;
    others keep theirs.

        p_ij ← softmax_j(s_ij/υ) · Σ_{k ∈ s} p_ik      for j ∈ s

    The printed factor 1 − Σ_{k ∉ s} p_ik is the same number when p sums to 1.
    """
    mass = math.fsum(p[j] for j in sorted(s))
    return dict(p) | {j: share * mass for j, share in softmax(s, upsilon).items()}


def over(p: Table, present: Iterable[PeerId]) -> dict[PeerId, float]:
    """p renormalised over those present, for the test only; equal shares where all of it has
    vanished."""
    names = sorted(present)
    total = math.fsum(p[j] for j in names)
    return {j: p[j] / total if total > 0 else 1 / len(names) for j in names}


def entropy(s: Table, threshold: Threshold, p: Table) -> float:
    r"""h_i. With e_ij = (s_ij + 1)/2:

    - normalised, remark: −Σ q ln q with q = e/Σe, so that exp(h) is the effective number of
      neighbours
    - softmax_p: the same with q = p
    - literal: −Σ e ln e as printed (e is no distribution; the sum grows with the number of
      neighbours)
    - mean: the literal sum divided by the number of neighbours
    """
    e = {j: (s[j] + 1) / 2 for j in sorted(s)}
    if threshold in ("literal", "mean"):
        h = -math.fsum(x * math.log(x) for x in e.values() if x > 0)
        return h / max(len(e), 1) if threshold == "mean" else h
    weights = {j: p[j] for j in sorted(s)} if threshold == "softmax_p" else e
    total = math.fsum(weights.values())
    if total <= 0:
        return math.log(max(len(weights), 1))
    q = [x / total for x in weights.values()]
    return -math.fsum(x * math.log(x) for x in q if x > 0)


def confidence(h: float) -> float:
    """C̃ = 1 − σ(h) = 1/(1 + e^h), safe for large h."""
    return math.exp(-h) / (1 + math.exp(-h)) if h > 0 else 1 / (1 + math.exp(h))


def theta_of(s: Table, p: Table, tau: float, threshold: Threshold) -> tuple[float, float]:
    r"""The threshold θ_i on p_ij, and the effective number of neighbours exp(h_i).

    θ = τ·C̃ = τ/(1 + e^h), except: remark θ = τ·H̃ = τ·(1 − C̃); mean_similarity θ = (τ/n)·2·(1 −
    mean e), the only one that sees absolute similarity in the direction of the prose.
    """
    if not s:
        return 0.0, 0.0
    if threshold == "mean_similarity":
        mean_e = math.fsum((s[j] + 1) / 2 for j in sorted(s)) / len(s)
        return tau / len(s) * 2 * (1 - mean_e), float(len(s))
    h = entropy(s, threshold, p)
    c = confidence(h)
    return tau * (1 - c if threshold == "remark" else c), math.exp(min(h, 700.0))


def admitted(p: Table, theta: float) -> tuple[PeerId, ...]:
    """C_i = { j : p_ij ≥ θ_i }."""
    return tuple(j for j in sorted(p) if p[j] * (1 + SLACK) >= theta)


def boltzmann(losses: Table, temperature: float) -> dict[PeerId, float]:
    r"""ϖ_ij = exp(−F̃_j/T) / Σ_k exp(−F̃_k/T); a loss that is not finite gets no weight."""
    finite = {j: -loss for j, loss in losses.items() if math.isfinite(loss)}
    return softmax(finite, temperature)
