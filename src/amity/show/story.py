"""What a report tells of: one run, or several strategies over the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from amity.config import Config
from amity.core import PeerId
from amity.data import PeerData
from amity.round.build import deal_out, load_data
from amity.round.quality import overlap_matrix
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.lab.result import Result

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Story:
    """Runs by label, each with its seeds."""

    runs: Mapping[str, Sequence[Result]]
    alone: Sequence[Result] = ()
    """Local's runs, if it takes part: what gains are measured against."""
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        return next(iter(self.runs.values()))[0].config

    @property
    def single(self) -> Result | None:
        """The run, if there is only one."""
        everything = [run for runs in self.runs.values() for run in runs]
        return everything[0] if len(everything) == 1 else None

    @property
    def names(self) -> tuple[PeerId, ...]:
        return peer_names(self.config.peers)

    @cached_property
    def _split(self) -> tuple[Array, Array]:
        return label_shares(deal_out(self.config, load_data(self.config), self.names))

    @property
    def labels(self) -> Array:
        """Label distributions of the first seed, peers x classes."""
        return self._split[0]

    @property
    def overlap(self) -> Array:
        """How much every two of them overlap."""
        return self._split[1]


def label_shares(data: Mapping[PeerId, PeerData]) -> tuple[Array, Array]:
    """Label distributions (peers x classes), and how much every two of them overlap."""
    labels = {name: mine.labels for name, mine in data.items()}
    return np.array(list(labels.values())), overlap_matrix(labels)
