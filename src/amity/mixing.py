"""Rows become models: the check of a row, and the one definition of the weighted sum.

Sums run one model after the other in sorted order of peer names, so that every runtime gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch

from amity.core import START, PeerId, Row, Share
from amity.errors import RowError


def check_row(row: Row, me: PeerId, arrived: Collection[PeerId]) -> None:
    """Weights are finite, > 0, sum to 1, and stand only on models that are here."""
    for j, weight in row.items():
        if j not in (me, START) and j not in arrived:
            raise RowError(f"row of {me}: puts weight on {j}, whose model never arrived; ask Pull() for it first")
        if not (math.isfinite(weight) and weight > 0):
            raise RowError(f"row of {me}: weight of {j} is {weight}; weights must be finite and > 0")
    total = math.fsum(row.values())
    if abs(total - 1) > 1e-6:
        raise RowError(f"row of {me}: weights sum to {total:.6g}; they must sum to 1")


def mix(row: Row, shares: Mapping[PeerId, Share]) -> Share:
    """Σ_j ϖ_j θ_j, and with masks (Σ_j ϖ_j m_j θ_j) / (Σ_j ϖ_j m_j) coordinate by coordinate.

    The mask of the result is True where at least one share offers the coordinate.
    """
    names = sorted(row)
    first = shares[names[0]]
    if all(shares[j].mask is None for j in names):
        total = first.theta * row[names[0]]
        for j in names[1:]:
            total.add_(shares[j].theta, alpha=row[j])
        return Share(total)
    total, weight = torch.zeros_like(first.theta), torch.zeros_like(first.theta)
    for j in names:
        mask = shares[j].mask
        offered = torch.ones_like(weight) if mask is None else mask.to(weight.dtype)
        total.add_(shares[j].theta * offered, alpha=row[j])
        weight.add_(offered, alpha=row[j])
    covered = weight > 0
    return Share(torch.where(covered, total / weight.clamp_min(1e-38), total), covered)
