"""The vectors of all peers as m x P matrices, one row per peer. If there are forked workers, they
share this memory."""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from types import MappingProxyType

import torch

from amity.core import PeerId
from amity.peer.peer import Rows


class Matrices:
    """`start`, `trained`, and the slots that a method declares by its first state and share.

    A state has two matrices, before and after the training of the round, because visits see the
    state before it. What an optimiser keeps (`moments`, with the length of each) has two as well,
    so that a training can be repeated. The published model has its own matrices only if it differs
    from the trained model.
    """

    def __init__(
        self,
        names: tuple[PeerId, ...],
        size: int,
        state: Mapping[str, torch.Tensor],
        share: torch.Tensor | None,
        mask: torch.Tensor | None,
        *,
        device: torch.device,
        shared: bool,
        moments: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._row = {name: i for i, name in enumerate(names)}

        def matrix(
            dtype: torch.dtype = torch.float32, rows: int = len(names), columns: int = size
        ) -> torch.Tensor:
            return (
                _shared(rows, columns, dtype)
                if shared
                else torch.zeros(rows, columns, dtype=dtype, device=device)
            )

        self.start, self.trained = matrix(), matrix()
        self.state = {key: matrix(value.dtype) for key, value in state.items()}
        self.next_state = {key: matrix(value.dtype) for key, value in state.items()}
        self.share = None if share is None else matrix()
        self.mask = None if mask is None else matrix(torch.bool)
        self.moments = {key: matrix(columns=length) for key, length in moments.items()}
        self.next_moments = {key: matrix(columns=length) for key, length in moments.items()}
        self.alone = _shared(len(names), 2, torch.float64).fill_(math.nan)
        self.common = matrix(rows=1)[0]
        """One vector for everyone: the point at which gradients are measured."""

    def rows(self, name: PeerId) -> Rows:
        """The vectors of one peer, as views."""
        i = self._row[name]
        return Rows(
            self.start[i],
            self.trained[i],
            {key: value[i] for key, value in self.state.items()},
            {key: value[i] for key, value in self.next_state.items()},
            None if self.share is None else self.share[i],
            None if self.mask is None else self.mask[i],
            {key: value[i] for key, value in self.moments.items()},
            {key: value[i] for key, value in self.next_moments.items()},
            self.alone[i],
        )


def _shared(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros in memory that this process shares with its forked processes. Pages are taken when they
    are first written."""
    size = rows * columns * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, max(size, 1)), dtype=dtype, count=rows * columns).view(
        rows, columns
    )


def scratch(rows: int, columns: int) -> torch.Tensor:
    """A shared matrix for passing vectors between processes."""
    return _shared(rows, columns, torch.float32)
