"""The jobs that the engine gives to its crew: one frozen value for each kind of work in a shard.

A job names the peer in whose shard it is done (`at`), whose published models it reads there
(`needs`), and whose models of the round's start (`guests`). It goes through a pipe in a few bytes,
and may be done twice with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amity.core import START, PeerId, Row
from amity.errors import AmityError, Failure, brief
from amity.facts import Fact, ModelFact
from amity.peer.mixing import standing_on
from amity.peer.proxy import CardSpec
from amity.records import Scores
from amity.round.shard import Answered, Hosted, Shard, Trained


@dataclass(frozen=True, kw_only=True)
class Job:
    """Base of all jobs."""

    at: PeerId
    round: int

    @property
    def verb(self) -> str:
        """What it is called in messages."""
        return type(self).__name__.removesuffix("Job").lower()

    @property
    def needs(self) -> tuple[PeerId, ...]:
        return ()

    @property
    def guests(self) -> tuple[PeerId, ...]:
        return ()

    @property
    def repeatable(self) -> bool:
        """Whether it can be done again after it was interrupted."""
        return True

    def on(self, shard: Shard) -> Any:
        """Do it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class TrainJob(Job):
    """Local training of a group that trains in one step, and their sketches."""

    unit: tuple[PeerId, ...]
    spec: CardSpec | None
    allowed: tuple[int | None, ...]

    def on(self, shard: Shard) -> list[Trained]:
        return shard.train(self.unit, self.round, self.spec, self.allowed)


@dataclass(frozen=True, kw_only=True)
class WorkOnJob(Job):
    """A peer that is still at work has nothing new to show."""

    def on(self, shard: Shard) -> None:
        shard.work_on(self.at)


@dataclass(frozen=True, kw_only=True)
class MeasureJob(Job):
    """What a fact says of others' models."""

    fact: ModelFact
    others: tuple[PeerId, ...]

    @property
    def needs(self) -> tuple[PeerId, ...]:
        return tuple(j for j in self.others if j != START)

    def on(self, shard: Shard) -> Answered:
        return shard.measure(self.at, self.fact, self.others, self.round)


@dataclass(frozen=True, kw_only=True)
class OwnLossesJob(Job):
    """A peer's losses before and after its training."""

    def on(self, shard: Shard) -> Answered:
        return shard.own_losses(self.at, self.round)


@dataclass(frozen=True, kw_only=True)
class HostJob(Job):
    """Answer a fact about a guest's model."""

    fact: Fact
    visitor: PeerId
    spec: CardSpec | None
    degree: int
    allowed: int | None

    @property
    def guests(self) -> tuple[PeerId, ...]:
        return (self.visitor,)

    def on(self, shard: Shard) -> Hosted:
        return shard.host(
            self.at, self.fact, self.visitor, self.spec, self.degree, self.allowed, self.round
        )


@dataclass(frozen=True, kw_only=True)
class SettleJob(Job):
    """Mix by a row, and take the result in."""

    row: Row
    head: Row | None = None

    @property
    def needs(self) -> tuple[PeerId, ...]:
        return tuple(j for j in standing_on(self.row, self.head) if j != START)

    @property
    def repeatable(self) -> bool:
        """A row that uses the peer's own model of the start overwrites what it reads."""
        return START not in standing_on(self.row, self.head)

    def on(self, shard: Shard) -> None:
        shard.settle(self.at, self.row, self.head, self.round)


@dataclass(frozen=True, kw_only=True)
class EvaluateJob(Job):
    """Test accuracies of a group."""

    unit: tuple[PeerId, ...]

    def on(self, shard: Shard) -> list[Scores]:
        return shard.evaluate(self.unit, self.round)


@dataclass(frozen=True, kw_only=True)
class TrainAloneJob(Job):
    """Training of the shadows of a group, which learn from nobody."""

    unit: tuple[PeerId, ...]

    def on(self, shard: Shard) -> list[Trained]:
        return shard.train_alone(self.unit, self.round)


@dataclass(frozen=True, kw_only=True)
class SettleAloneJob(Job):
    """Let the shadows of a group keep what they have trained, and measure them if that is due."""

    unit: tuple[PeerId, ...]
    trained: bool
    due: bool

    def on(self, shard: Shard) -> list[float | None]:
        return shard.settle_alone(self.unit, self.round, self.trained, self.due)


@dataclass(frozen=True, kw_only=True)
class GradientJob(Job):
    """The gradient at the common point, left in the row of `trained`."""

    def on(self, shard: Shard) -> None:
        shard.gradient(self.at)


def perform(job: Job, shard: Shard) -> Any:
    """Do a job. A method may be a user's code, so an error inside it names the method."""
    try:
        return job.on(shard)
    except AmityError:
        raise
    except (Exception, SystemExit) as error:
        raise Failure(f"{job.verb} of {job.at}: {brief(error)}") from error
