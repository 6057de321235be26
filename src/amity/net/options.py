"""How a peer behaves on a network: keys `net.*` of `amity peer` and `amity swarm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Seconds = Annotated[float, Field(gt=0, le=86400), "seconds"]
Count = Annotated[int, Field(ge=1, le=2**31)]


@dataclass(frozen=True, kw_only=True)
class Net:
    """Waiting, transfer and limits. What one neighbour may cause is bounded by the last group."""

    link: str = "zenoh"
    """What carries the messages: an entry of `amity.net.link`, or your own, `mine.py:Class`."""
    sync: Literal["round", "none"] = "round"
    """`round`: wait for the cards of the round. `none`: everyone at its own pace, with the newest
    of each neighbour."""
    deadline: Seconds = 60.0
    """How long a round waits for the others' cards. A peer that is later is missing in that
    round."""
    patience: Seconds = 30.0
    """So long an ask may take, with all its repetitions."""
    gather: Seconds = 30.0
    """So long the first round waits for members to appear."""
    least: Annotated[int, Field(ge=0, le=2**31)] = 1
    """No round begins with fewer neighbours present; it waits for them. 0: goes on alone."""
    staleness: Annotated[int, Field(ge=0)] = 3
    """With sync=none: cards that are more rounds behind mine are not used."""
    transfer: Literal["fp32", "bf16", "int8"] = "fp32"
    """How my models travel."""
    lease: Seconds = 2.0
    """A neighbour that is silent for so long counts as gone. On a slow line signs of life queue
    behind models: raise it where a model takes seconds."""
    chunk: Annotated[int, Field(ge=1024, le=2**20)] = 2**18
    """Bytes of a model that are sent at a time."""
    max_norm: Annotated[float, Field(gt=0)] = 10.0
    """Models whose norm is more than so many times that of mine are refused."""
    max_age: Seconds = 86400.0
    """Messages that were signed longer ago are refused."""
    masked: bool = False
    """Whether models travel only in sums of several, each under masks that only cancel in the sum:
    for strategies that decide by cards alone. All members say the same."""
    crowd: Annotated[int, Field(ge=3, le=32)] = 3
    """With masked=true: a sum has so many members at least; with fewer a round is spent alone."""
    show: Literal["nothing", "names"] = "nothing"
    """What members may see of my progress, for their pages. `names`: round, accuracy, bytes, and
    whom I took with what weight, to members that ask; and I ask them."""
    links: Annotated[int, Field(ge=1, le=1000)] = 100
    """With topology=discover: links that others may open to me. Who finds none free looks for
    others; I open one to each member of my circle, and keep those who left it for a round."""
    requests: Count = 100
    """Asks per second that one neighbour may make; three seconds' worth at once."""
    transfers: Count = 4
    """Models that one neighbour may be sent at a time."""
    bandwidth: Count = 2**28
    """Bytes per second that one neighbour may be sent; three seconds' worth at once."""
    visits: Count = 4
    """Probes and visits that one neighbour may make in a round."""
