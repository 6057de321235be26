"""Rows become models: the check of a row, the one definition of the weighted sum, and robust mixers
in its place.

Sums run one model after the other in sorted order of peer names, so that every runtime gives the
same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from pydantic import Field

from amity.core import START, Decision, PeerId, Row, Share
from amity.errors import RowError
from amity.lazy import torch
from amity.peer.fixed import read, term
from amity.registry import Registry


def check_row(row: Row, me: PeerId, arrived: Collection[PeerId]) -> None:
    """Weights are finite, > 0, sum to 1, and stand only on models that are here."""
    for j, weight in row.items():
        if j not in (me, START) and j not in arrived:
            raise RowError(
                f"row of {me}: puts weight on {j}, whose model never arrived; ask Pull() for it"
                " first"
            )
        if not (math.isfinite(weight) and weight > 0):
            raise RowError(
                f"row of {me}: weight of {j} is {weight}; weights must be finite and > 0"
            )
    total = math.fsum(row.values())
    if abs(total - 1) > 1e-6:
        raise RowError(f"row of {me}: weights sum to {total:.6g}; they must sum to 1")


def mix(row: Row, shares: Mapping[PeerId, Share]) -> Share:
    """Σ_j ϖ_j θ_j, and with masks (Σ_j ϖ_j m_j θ_j) / (Σ_j ϖ_j m_j) coordinate by coordinate.

    The mask of the result is True where at least one share offers the coordinate. Sums are taken a
    block of columns at a time, so that they stay in the cache.
    """
    names = sorted(row)
    chosen = [shares[j] for j in names]
    total = torch.empty_like(chosen[0].theta)
    masked = any(share.mask is not None for share in chosen)
    covered = torch.empty_like(total, dtype=torch.bool) if masked else None
    for at in range(0, len(total), BLOCK):
        part = slice(at, at + BLOCK)
        if covered is None:
            _sum(total[part], [row[j] for j in names], [share.theta[part] for share in chosen])
        else:
            masks = [None if share.mask is None else share.mask[part] for share in chosen]
            _masked_sum(
                total[part],
                covered[part],
                [row[j] for j in names],
                [s.theta[part] for s in chosen],
                masks,
            )
    return Share(total, covered)


BLOCK = 1 << 16
"""Columns summed at a time: 256 KB. A multiple of every vector width, so that blocks do not change
a bit."""


def _sum(total: torch.Tensor, weights: list[float], thetas: list[torch.Tensor]) -> None:
    torch.mul(thetas[0], weights[0], out=total)
    for weight, theta in zip(weights[1:], thetas[1:], strict=True):
        total.add_(theta, alpha=weight)


def _masked_sum(
    total: torch.Tensor,
    covered: torch.Tensor,
    weights: list[float],
    thetas: list[torch.Tensor],
    masks: list[torch.Tensor | None],
) -> None:
    weighed = torch.zeros_like(total)
    total.zero_()
    for weight, theta, mask in zip(weights, thetas, masks, strict=True):
        offered = torch.ones_like(total) if mask is None else mask.to(total.dtype)
        total.add_(theta if mask is None else torch.where(mask, theta, 0.0), alpha=weight)
        weighed.add_(offered, alpha=weight)
    covered.copy_(weighed > 0)
    total.copy_(torch.where(covered, total / weighed.clamp_min(1e-38), total))


def check_decision(
    decision: Decision, me: PeerId, arrived: Collection[PeerId], brought: Collection[PeerId]
) -> None:
    """Both rows, where the head has one of its own. `brought` are those whose model came back from
    a visit."""
    check_row(decision.row, me, arrived)
    if decision.head is None:
        return
    check_row(decision.head, me, arrived)
    if any(j in brought for j in standing_on(decision.row, decision.head)):
        raise RowError(
            f"row of {me}: a head has a row of its own, which models from visits do not allow; ask"
            " Pull() for models instead"
        )


def standing_on(row: Row, head: Row | None) -> tuple[PeerId, ...]:
    """Whose models a row and the row of a head need."""
    return tuple(sorted({*row, *(head or {})}))


def mix_parts(
    mixer: Mixer, row: Row, head: Row | None, shares: Mapping[PeerId, Share], part: slice
) -> Share:
    """The mixture that a row asks for, with the head (a part of theta) by a row of its own, if it
    has one."""
    mixed = mixer.mix(row, {j: shares[j] for j in row})
    if head is None:
        return mixed
    heads = mixer.mix(head, {j: _part(shares[j], part) for j in head})
    theta, mask = mixed.theta.clone(), None if mixed.mask is None else mixed.mask.clone()
    theta[part] = heads.theta
    if mask is not None:
        mask[part] = True if heads.mask is None else heads.mask
    return Share(theta, mask)


def _part(share: Share, part: slice) -> Share:
    return Share(share.theta[part], None if share.mask is None else share.mask[part])


# -- mixers ----------------------------------------------------------------------------------------


class Mixer(Protocol):
    """Turns a row and the models that it stands on into one model; its mask is True where somebody
    offered something."""

    def mix(self, row: Row, shares: Mapping[PeerId, Share]) -> Share: ...


mixers: Registry[Mixer] = Registry("mixer", "mix")


@mixers.register("mean")
@dataclass(frozen=True)
class Mean:
    """The weighted mean by the row: Σ_j ϖ_j ŵ_j."""

    def mix(self, row: Row, shares: Mapping[PeerId, Share]) -> Share:
        return mix(row, shares)


@mixers.register("fixed")
@dataclass(frozen=True)
class Fixed:
    """The weighted mean by the row, Σ_j ϖ_j ŵ_j, in fixed point: what real peers compute with
    `net.masked=true`, to the bit.

    Every term is rounded to a multiple of 2⁻²² and added modulo 2³². With masks each coordinate is
    divided by the weight of those who offer it, as by `mean`.
    """

    def mix(self, row: Row, shares: Mapping[PeerId, Share]) -> Share:
        names = sorted(row)
        first = shares[names[0]].theta
        total = np.zeros(len(first), np.uint32)
        for j in names:
            total += term(row[j], _offered(shares[j]))
        mixed = read(total).to(first.device)
        if all(shares[j].mask is None for j in names):
            return Share(mixed)
        weighed = torch.zeros_like(mixed)
        for j in names:
            mask = shares[j].mask
            weighed += row[j] * (torch.ones_like(mixed) if mask is None else mask.to(mixed.dtype))
        covered = weighed > 0
        return Share(torch.where(covered, mixed / weighed.clamp_min(1e-38), mixed), covered)


def _offered(share: Share) -> torch.Tensor:
    return share.theta if share.mask is None else torch.where(share.mask, share.theta, 0.0)


@mixers.register("median")
@dataclass(frozen=True)
class Median:
    """The median of every coordinate over all models of the row, each counting once (Yin et al.
    2018).

    With an even number of models the mean of the two in the middle. With masks: over those who
    offer the coordinate. A row with a single model is that model. Weights are ignored: a lie that
    obtains weight obtains no more than one voice.
    """

    def mix(self, row: Row, shares: Mapping[PeerId, Share]) -> Share:
        return _by_rank(row, shares, lambda count: (count - 1) // 2)


@mixers.register("trimmed")
@dataclass(frozen=True)
class Trimmed:
    """The mean of every coordinate without its largest and smallest values, each model counting
    once (Yin et al. 2018).

    Of n models ⌊`share`·n⌋ are cut off at each end, but never all: `share` = 0 is the plain mean,
    0.5 the median. With masks: of those who offer the coordinate.
    """

    share: Annotated[float, Field(ge=0, le=0.5)] = 0.3
    """Share of the values that is cut off at each end; 0 is the mean, 0.5 the median."""

    def mix(self, row: Row, shares: Mapping[PeerId, Share]) -> Share:
        return _by_rank(
            row, shares, lambda count: min(int(self.share * count + 1e-9), (count - 1) // 2)
        )


def _by_rank(row: Row, shares: Mapping[PeerId, Share], cut: Callable[[int], int]) -> Share:
    """Sort every coordinate, leave `cut(n)` of its n values out at each end, and take the mean of
    the rest."""
    chosen = [shares[j] for j in sorted(row)]
    total = torch.zeros_like(chosen[0].theta)
    masked = any(share.mask is not None for share in chosen)
    covered = torch.empty_like(total, dtype=torch.bool) if masked else None
    ends = torch.tensor(
        [cut(count) if count else 0 for count in range(len(chosen) + 1)], device=total.device
    )
    for at in range(0, len(total), BLOCK):
        part = slice(at, at + BLOCK)
        values = torch.stack([share.theta[part] for share in chosen])
        offers = torch.stack(
            [
                torch.ones_like(v, dtype=torch.bool) if s.mask is None else s.mask[part]
                for s, v in zip(chosen, values, strict=True)
            ]
        )
        # what is missing comes last
        ranked = torch.where(offers & ~values.isnan(), values, torch.inf).sort(0).values
        count = offers.sum(0)
        place = torch.arange(len(chosen), device=total.device)[:, None]
        inside = (place >= ends[count]) & (place < count - ends[count])
        total[part] = torch.where(inside, ranked, 0.0).sum(0) / inside.sum(0).clamp_min(1)
        if covered is not None:
            covered[part] = count > 0
    return Share(total, covered)
