"""The engines: all cores of this machine, or a Ray cluster. The results are the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from amity.config.engines import engines
from amity.errors import ConfigError
from amity.processes import CAN_FORK, cores_for_me

if TYPE_CHECKING:
    from amity.core import PeerId
    from amity.data import Dataset
    from amity.data.samples import PeerData
    from amity.simulate.crew import Crew


@engines.register("local")
@dataclass(frozen=True)
class ThisMachine:
    """All cores of this machine: `workers` processes that share the peers' models in memory (0: as
    many as cores)."""

    here: ClassVar[bool] = True
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    """Processes; 0: as many as cores."""

    def hands(self, units: int) -> int:
        return min(self.workers or cores_for_me(), units)

    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        # torch loads here, so that `amity list` shows this engine at once
        from amity.round.build import make_shard, units_of
        from amity.simulate.crew import Inline, Workers

        count = self.hands(len(units_of(config, data)))
        forked = count > 1 and CAN_FORK and config.device == "cpu"
        shard = make_shard(config, dataset, names, data, shared=forked)
        return Workers(shard, count) if forked else Inline(shard)


@engines.register("ray")
@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster at `address` (empty: one on this machine): `actors` with one CPU each (0: as
    many as it has CPUs).

    Needs the extra `amity[cluster]` on every node, and the data where AMITY_DATA says. An answer
    that takes longer than `timeout` seconds counts as the loss of a node.
    """

    here: ClassVar[bool] = False
    address: str = ""
    """HOST:PORT of the cluster; empty: one on this machine."""
    actors: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Actors with a CPU each; 0: as many as the cluster has CPUs."""
    timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after which an answer that has not come counts as the loss of a node."""

    def hands(self, units: int) -> int:
        return max(1, min(self.actors, units))

    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        from amity.simulate.cluster import RayCrew

        for what in config.in_memory:
            raise ConfigError(
                f"engine ray: {what} lies in no file, and other processes cannot load it; put it"
                " into one (file.py:NAME), or use engine=local"
            )
        return RayCrew(config, names, data, self.address, self.actors, self.timeout)
