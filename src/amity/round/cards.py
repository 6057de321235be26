"""Cards: a sketch is computed every round, or only once if its proxy does not change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from amity.core import Card, PeerId
from amity.peer.proxy import CardSpec


class Sketches:
    """What goes onto the cards of some peers."""

    def __init__(self, spec: CardSpec | None) -> None:
        self._spec = spec
        self._kept: dict[PeerId, torch.Tensor] = {}

    @property
    def lasting(self) -> bool:
        """Whether a sketch never changes: it is computed and paid for once."""
        return self._spec is not None and self._spec.lasting

    @property
    def once(self) -> bool:
        """Whether peers look at a card only once."""
        return self._spec is not None and self._spec.once

    def wanted(self, names: Iterable[PeerId]) -> CardSpec | None:
        """What has to be sketched in this round's training of some peers. None if nothing is
        needed, or all is known."""
        return None if self.lasting and self._kept.keys() >= set(names) else self._spec

    def card(
        self,
        found: np.ndarray[Any, Any] | None,
        *,
        peer: PeerId,
        round: int,
        examples: int,
        degree: int,
    ) -> Card | None:
        """A peer's card of this round. `found` is the sketch made in its training, if there is
        one."""
        sketch = None if found is None else torch.tensor(found)
        if self.lasting:
            if sketch is not None:
                self._kept.setdefault(peer, sketch)
            sketch = self._kept[peer]
        return None if sketch is None else Card(peer, round, examples, degree, sketch)
