"""Where a run's work is done: on this machine, or on a Ray cluster. The results are the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from amity.registry import Registry

if TYPE_CHECKING:
    from amity.core import PeerId
    from amity.data import Dataset
    from amity.peer import PeerData
    from amity.simulate.crew import Crew


class Engine(Protocol):
    def crew(self, config: Any, dataset: Dataset, names: tuple[PeerId, ...], data: Mapping[PeerId, PeerData]) -> Crew:
        """Those who do the jobs of this run."""


engines: Registry[Engine] = Registry("engine", "crew")


@engines.register("local")
@dataclass(frozen=True)
class Local:
    """All cores of this machine: `workers` processes that share the peers' models in memory (0: as many as cores)."""

    workers: Annotated[int, Field(ge=0, le=1024)] = 0

    def crew(self, config: Any, dataset: Dataset, names: tuple[PeerId, ...], data: Mapping[PeerId, PeerData]) -> Crew:
        from amity.simulate.build import make_shard, units_of
        from amity.simulate.crew import CAN_FORK, Inline, Workers, cores_for_me

        count = min(self.workers or cores_for_me(), len(units_of(config, data)))
        forked = count > 1 and CAN_FORK and config.device == "cpu"
        shard = make_shard(config, dataset, names, data, shared=forked)
        return Workers(shard, count) if forked else Inline(shard)
