"""Where a run's work is done: on this machine, or on a Ray cluster. The results are the same
bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field

from amity.registry import Registry

if TYPE_CHECKING:
    from amity.core import PeerId
    from amity.data import Dataset
    from amity.data.samples import PeerData
    from amity.simulate.crew import Crew


class Engine(Protocol):
    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        """Those who do the jobs of this run."""


engines: Registry[Engine] = Registry("engine", "crew")


@engines.register("local")
@dataclass(frozen=True)
class Local:
    """All cores of this machine: `workers` processes that share the peers' models in memory (0: as
    many as cores)."""

    workers: Annotated[int, Field(ge=0, le=1024)] = 0

    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        from amity.processes import CAN_FORK, cores_for_me
        from amity.round.build import make_shard, units_of
        from amity.simulate.crew import Inline, Workers

        count = min(self.workers or cores_for_me(), len(units_of(config, data)))
        forked = count > 1 and CAN_FORK and config.device == "cpu"
        shard = make_shard(config, dataset, names, data, shared=forked)
        return Workers(shard, count) if forked else Inline(shard)


@engines.register("ray")
@dataclass(frozen=True)
class Ray:
    """A Ray cluster at `address` (empty: one on this machine): `actors` with one CPU each (0: as
    many as it has CPUs).

    Needs the extra `amity[cluster]` on every node, and the data where AMITY_DATA says. An answer
    that takes longer than `timeout` seconds counts as the loss of a node.
    """

    address: str = ""
    actors: Annotated[int, Field(ge=0, le=100_000)] = 0
    timeout: Annotated[float, Field(gt=0)] = 600.0

    def crew(
        self,
        config: Any,
        dataset: Dataset,
        names: tuple[PeerId, ...],
        data: Mapping[PeerId, PeerData],
    ) -> Crew:
        from amity.simulate.cluster import RayCrew

        return RayCrew(config, names, data, self.address, self.actors, self.timeout)
