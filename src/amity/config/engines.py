"""Where a run's work is done. The registry is here, so that a config can name an engine without
loading it. The engines themselves are in `amity.simulate.places`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from amity.registry import Registry

if TYPE_CHECKING:
    from amity.core import PeerId
    from amity.data import Dataset
    from amity.data.samples import PeerData
    from amity.simulate.crew import Crew


class Engine(Protocol):
    """Does the work of a run. The results have the same bits with every engine."""

    here: ClassVar[bool]
    """Whether all work is done on this machine, so that several runs share it."""

    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        """The workers for the jobs of this run."""

    def hands(self, units: int) -> int:
        """How many of these units (a peer, or a group that trains in one step) are trained at the
        same time: for estimates only."""


engines: Registry[Engine] = Registry(
    "engine", "crew", "hands", attributes=("here",), home="amity.simulate.places"
)
