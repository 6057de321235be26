"""The weighted mean in fixed point: sums of whole numbers modulo 2^32, which have the same bits in
every order, and of which masks can be added and taken away without a trace."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from amity.errors import RowError
from amity.lazy import torch

SCALE = 2.0**22
"""Steps in 1: a term is rounded by at most half of one, 1.2e-7."""
LARGEST = 2.0**31 / SCALE - 1
"""No number of a model may be larger: a mean of such numbers has room in 32 bits."""
Words: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]


def term(weight: float, theta: torch.Tensor) -> Words:
    """weight · theta in fixed point. A number of theta that has no room is a RowError."""
    values = theta.detach().cpu().numpy()
    if not bool(np.all(np.abs(values) <= LARGEST)):  # NaN is not
        raise RowError(
            f"mixer fixed: a model has a number above {LARGEST:.0f}, or none that is finite; lower"
            " train.lr, or use mixer=mean"
        )
    steps = np.multiply(values, weight * SCALE, dtype=np.float64)
    words: Words = np.rint(steps, out=steps).astype(np.int64).astype(np.uint32)
    return words


def read(total: Words) -> torch.Tensor:
    """The sum of terms as numbers."""
    return torch.from_numpy((total.view(np.int32) / SCALE).astype(np.float32))
