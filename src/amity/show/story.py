"""What a report tells of: one run, or several strategies over the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from amity.config import Config
from amity.core import PeerId, Reference
from amity.differences import leads, paired
from amity.round.build import deal_out, load_data
from amity.round.truth import Friendship
from amity.show.classes import classes_of
from amity.show.summary import Line, by_seed, summarise
from amity.show.tried import Tries
from amity.tasks import Metric
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
    tries: Tries | None = None
    """Of a sweep: all that was tried. Then the runs are those of the winners."""

    @property
    def config(self) -> Config:
        return next(iter(self.runs.values()))[0].config

    @property
    def single(self) -> Result | None:
        """The run, if there is only one."""
        everything = [run for runs in self.runs.values() for run in runs]
        return everything[0] if len(everything) == 1 else None

    @cached_property
    def references(self) -> set[str]:
        """Labels of what no real network could run."""
        return {
            label
            for label, runs in self.runs.items()
            if isinstance(runs[0].config.strategy.instance, Reference)
        }

    @cached_property
    def lines(self) -> list[Line]:
        """One line for each label."""
        top = self.runs[self.top] if len(self.runs) > 1 else ()
        return [summarise(label, runs, self.alone, top) for label, runs in self.runs.items()]

    @cached_property
    def _scores(self) -> dict[str, dict[int, float]]:
        """By label and seed, of what a real network could run (else of everything): the leading
        metric, so that more is better."""
        fair = [label for label in self.runs if label not in self.references] or list(self.runs)
        sign = self.metric.sign
        return {
            label: {seed: sign * value for seed, value in by_seed(self.runs[label]).items()}
            for label in fair
        }

    @cached_property
    def top(self) -> str:
        """The label with the best leading metric of those that a real network could run."""
        means = {label: sum(one.values()) / len(one) for label, one in self._scores.items()}
        return max(means, key=means.__getitem__)

    @cached_property
    def metric(self) -> Metric:
        """The one that leads."""
        return self.config.metric

    @property
    def _height(self) -> str:
        return "highest" if self.metric.more else "lowest"

    @cached_property
    def leader(self) -> str:
        """The top, if the intervals of its differences to all others exclude 0; else empty."""
        return self.top if leads(self.top, self._scores) else ""

    @property
    def standing(self) -> str:
        """Who leads, in a sentence; empty: there is nobody to compare with."""
        gaps = {
            label: paired(self._scores[self.top], other)
            for label, other in self._scores.items()
            if label != self.top
        }
        if not gaps:
            return ""
        if all(gap is None or gap.half is None for gap in gaps.values()):
            return (
                f"Nobody can be said to lead: one seed has no intervals. {self.top} is"
                f" {self._height}; seeds=0,1,2 gives intervals."
            )
        if self.leader:
            return (
                f"{self.top} leads: its differences to all others, paired by seed, have 95 %"
                " intervals that exclude 0."
            )
        level = [label for label, gap in gaps.items() if gap is None or gap.sign <= 0]
        return (
            f"{self.top} is {self._height}, but does not lead: its 95 % interval, paired by seed,"
            f" includes 0 against {', '.join(level)}."
        )

    @property
    def names(self) -> tuple[PeerId, ...]:
        return peer_names(self.config.peers)

    @cached_property
    def class_names(self) -> Mapping[int, str]:
        """By number; the number itself where the data gives none, or is not here."""
        dataset = None if self.config.data.absent else load_data(self.config)
        named = dict(enumerate(dataset.names)) if dataset is not None else {}
        seen = {c for runs in self.runs.values() for run in runs for c in classes_of(run)}
        return {c: named.get(c, str(c)) for c in sorted(seen)}

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
