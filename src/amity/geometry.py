"""Distances and cosines of vectors, in double precision: the same bits for one pair and for all at
once."""

from __future__ import annotations

import math

from amity.lazy import torch

NUMBERS = 1 << 22
"""At most so many numbers of a matrix are held in double precision at a time."""


def squared_distances(rows_MP: torch.Tensor, shared: torch.Tensor | None = None) -> torch.Tensor:
    """‖g_i − g_j‖² of all pairs over the shared columns, in double precision, a block of columns at
    a time."""
    count = len(rows_MP)
    gram = torch.zeros(count, count, dtype=torch.float64)
    for part in torch.split(torch.arange(rows_MP.shape[1]), max(1, NUMBERS // count)):
        block = _block(rows_MP, part, shared)
        gram += block @ block.T
    square = gram.diagonal()
    return (square[:, None] + square[None, :] - 2 * gram).clamp_min(0)


def _block(rows_MP: torch.Tensor, part: torch.Tensor, shared: torch.Tensor | None) -> torch.Tensor:
    block = rows_MP[:, part[0] : part[-1] + 1].double().cpu()
    return block if shared is None else block[:, shared[part[0] : part[-1] + 1].cpu()]


def units(vectors: torch.Tensor) -> torch.Tensor:
    """Rows scaled to length 1, in double precision; rows that vanish stay 0."""
    rows = vectors.double()
    norms = rows.norm(dim=1, keepdim=True)
    return torch.where(norms > 1e-20, rows / norms.clamp_min(1e-20), torch.zeros_like(rows))


def cosines(mine: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """cos(φ_i, φ_j) for every row j of `others`: one product in double precision, rounded once; 0
    for vectors of 0."""
    return as_cosines(units(others) @ units(mine[None])[0], mine.dtype)


def as_cosines(products: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Products of units as cosines. Of signs (int8, ±1) a product is 2a − 1 for a share a of equal
    ones, and says that the vectors which had these signs have a cosine of cos(π(1 − a))."""
    if kind == torch.int8:
        products = torch.sin(products * (math.pi / 2))
    return products.float().clamp(-1, 1)
