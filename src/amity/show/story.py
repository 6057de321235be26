"""What a report tells of: one run, or several strategies over the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from amity.config import Config
from amity.core import PeerId
from amity.round.build import deal_out, load_data
from amity.round.truth import Friendship
from amity.topology import peer_names

if TYPE_CHECKING:
    from amity.lab.result import Result


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
    def friendship(self) -> Friendship | None:
        """Who is a friend of whom in the world of the first seed; None where that cannot be known
        here, because a part of the world was passed as an object to another process."""
        config = self.config
        if config.data.absent or config.partition.absent or config.shift.absent:
            return None
        data = deal_out(config, load_data(config), self.names)
        return Friendship.of(data, config.eval.friend)

    @property
    def said(self) -> str:
        """What a friend is in this world; empty where that cannot be known."""
        return self.friendship.said if self.friendship is not None else ""
