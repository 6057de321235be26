"""Shifts: hidden groups of peers that see another kind of input, or disagree about the answer.

A shift is laid over a dataset that has been dealt out. Every peer belongs to one group, by lot. All
examples of a group, for training and for testing alike, are changed in the same way; group 0 is
left as it is, unless the shift says otherwise. A group of one is a *loner*: nobody else sees the
world as it does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import BeforeValidator, Field

from amity.core import PeerId
from amity.data.base import Dataset
from amity.data.inputs import described, each, joined, kind_of, tensors_of
from amity.data.partition import Partition, split
from amity.data.samples import PeerData, Pixels, Samples
from amity.errors import ConfigError, DataError
from amity.lazy import torch
from amity.registry import Registry
from amity.rng import rng

SOME = 100
"""Examples on which it is tried whether groups differ."""


@dataclass(frozen=True)
class Setting:
    """Which group is to be changed, in which world."""

    group: int
    groups: int
    dataset: Dataset
    seed: int

    def draw(self, *names: str) -> np.random.Generator:
        """The same for all peers of the group."""
        return rng(self.seed, "shift", *names, self.group)


class Shift(Protocol):
    """Changes the examples of one group."""

    plain: ClassVar[bool]
    """Whether there are no groups at all."""

    def refusal(self, dataset: Dataset, groups: int) -> str:
        """Why this data cannot have it in so many groups, and what would be right; empty: it
        can."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Examples (as many as are given, raw) and their labels, changed. `noise` is one peer's."""


shifts: Registry[Shift] = Registry(
    "shift", "apply", "refusal", attributes=("plain",), home="amity.data"
)
"""What makes hidden groups see or answer otherwise, by name."""


class Always:
    """What most shifts are: groups of anything, tables too."""

    plain: ClassVar[bool] = False

    def refusal(self, dataset: Dataset, groups: int) -> str:
        return ""


class OfNumbers(Always):
    """A shift of one input that is numbers, not names of tokens."""

    def refusal(self, dataset: Dataset, groups: int) -> str:
        if kind_of(dataset.shape) not in ("tokens", "several"):
            return ""
        return (
            f"needs one input of numbers, got {described(dataset.shape)}; use {_beside(OfNumbers)}"
        )


class OfImages(OfNumbers):
    """A shift that only images can have."""

    def refusal(self, dataset: Dataset, groups: int) -> str:
        if len(dataset.sides) == 3:
            return ""
        return super().refusal(dataset, groups) or (
            f"needs images, got examples of shape {dataset.shape}; use {_beside(OfImages)}"
        )


def _beside(kind: type[OfNumbers]) -> str:
    """Shifts for data that can have none of a kind."""
    return " or ".join(e.name for e in shifts if not e.cls.plain and not issubclass(e.cls, kind))


def _sizes(given: object) -> str:
    """`14,4,1,1` (or with + between, which a sweep takes for one value) or a list, as one text."""
    listed = given if isinstance(given, list | tuple) else re.split("[,+]", str(given))
    parts = [str(part).strip() for part in listed]
    if parts in ([], [""]):
        return ""
    if not all(part.isdecimal() and len(part) < 8 and int(part) > 0 for part in parts):
        raise ValueError(
            f"sizes: expected whole numbers above 0 with commas between, as 14,4,1,1, got {given!r}"
        )
    return ",".join(str(int(part)) for part in parts)


@dataclass(frozen=True)
class Grouping:
    """Keys of `shift` beside those of the shift itself: who belongs together."""

    groups: Annotated[int, Field(ge=1, le=1_000_000)] = 4
    """So many groups of the same size."""
    sizes: Annotated[str, BeforeValidator(_sizes)] = ""
    """Or their sizes one by one, as `14,4,1,1`; they add up to the number of peers."""

    def __post_init__(self) -> None:
        if self.groups != Grouping.groups:  # which a config has beside any sizes
            self.agree()

    def agree(self) -> None:
        """Refuse a number of groups that is not that of the sizes."""
        count = len(self.sizes.split(","))
        if self.sizes and count != self.groups:
            raise ValueError(
                f"groups={self.groups}, but sizes={self.sizes} makes {count}; leave one of the two"
                " out"
            )

    def counts(self, peers: int) -> tuple[int, ...]:
        """How many peers each group has."""
        crowd = "1 peer" if peers == 1 else f"{peers} peers"
        if not self.sizes:
            if self.groups > peers:
                raise ConfigError(
                    f"shift.groups: {self.groups} groups for {crowd}; use shift.groups<={peers} or"
                    f" peers>={self.groups}"
                )
            each, more = divmod(peers, self.groups)
            return tuple(each + (group < more) for group in range(self.groups))
        counts = tuple(map(int, self.sizes.split(",")))
        if sum(counts) != peers:
            among = " (in a list of values write + between sizes)" if len(counts) == 1 else ""
            raise ConfigError(
                f"shift.sizes: {self.sizes} adds up to {sum(counts)}, not to {crowd}; use other"
                f" sizes{among} or peers={sum(counts)}"
            )
        return counts


def groups_of(grouping: Grouping, names: Sequence[PeerId], seed: int) -> dict[PeerId, int]:
    """Everyone's group, by lot."""
    numbers = np.repeat(np.arange(len(counts := grouping.counts(len(names)))), counts)
    mixed = rng(seed, "shift groups").permutation(numbers)
    return dict(zip(names, mixed.tolist(), strict=True))


def members(data: Mapping[PeerId, PeerData]) -> dict[int, tuple[PeerId, ...]]:
    """Who belongs to each group; empty where the world has none."""
    named = [(mine.group, name) for name, mine in data.items() if mine.group is not None]
    return {
        group: tuple(sorted(name for other, name in named if other == group))
        for group in sorted({group for group, _ in named})
    }


def deal(
    dataset: Dataset,
    partition: Partition,
    shift: Shift,
    grouping: Grouping,
    names: tuple[PeerId, ...],
    seed: int,
) -> dict[PeerId, PeerData]:
    """Each peer's data, with the shift of its group. The examples are changed on the CPU, so that
    they are the same on every device."""
    if shift.plain:
        return split(dataset, partition, names, seed)
    count = len(grouping.counts(len(names)))
    if reason := shift.refusal(dataset, count):
        raise DataError(f"shift={name_of(shift)}: {reason}")
    peers = split(dataset, partition, names, seed)
    if members(peers):
        raise DataError(
            f"shift={name_of(shift)}: the data names groups of its own; use shift=none, or another"
            " partition than natural"
        )
    groups = groups_of(grouping, names, seed)
    here = replace(dataset, pixels=dataset.pixels.to("cpu"))
    _refuse_equals(shift, here, count, seed)
    parts = []
    for name in names:
        mine = peers[name]
        index = torch.cat([part.index for part in (mine.train, mine.test, mine.validation)])
        setting = Setting(groups[name], count, here, seed)
        x, y = here.pixels.x[index], here.pixels.y[index]
        parts.append(shift.apply(x, y, setting, rng(seed, "shift noise", name)))
    return _moved(peers, groups, parts, dataset)


def _refuse_equals(shift: Shift, dataset: Dataset, groups: int, seed: int) -> None:
    """Groups that see the same are none. Whether they do depends on the data, too: pixels that are
    always black may change places. So it is tried, on some examples of every class."""
    train = dataset.train[:SOME]
    firsts = dataset.train[np.unique(dataset.labels[dataset.train], return_index=True)[1]]
    index = torch.from_numpy(np.concatenate([train, firsts]))
    x, y = dataset.pixels.x[index], dataset.pixels.y[index]
    found: dict[str, int] = {}
    for group in range(groups):
        noise = rng(seed, "shift noise")
        seen = shift.apply(x, y, Setting(group, groups, dataset, seed), noise)
        digest = hashlib.sha256()
        for part in (tensor for one in seen for tensor in tensors_of(one)):
            digest.update(part.contiguous().numpy().tobytes())
        other = found.setdefault(digest.hexdigest(), group)
        if other != group:
            raise DataError(
                f"shift={name_of(shift)}: groups {other} and {group} would see the same; use a"
                " larger shift.strength or fewer groups"
            )


def name_of(shift: Shift) -> str:
    """As it is registered; its class for one's own."""
    return next((e.name for e in shifts if e.cls is type(shift)), type(shift).__name__)


def _moved(
    peers: Mapping[PeerId, PeerData],
    groups: Mapping[PeerId, int],
    parts: Sequence[tuple[Any, torch.Tensor]],
    dataset: Dataset,
) -> dict[PeerId, PeerData]:
    """The same peers with the changed examples, which lie one after the other in one place."""
    xs, ys = (joined(list(column)) for column in zip(*parts, strict=True))
    old = dataset.pixels
    common = Pixels(
        each(xs, lambda part: part.to(old.x.device)), ys.to(old.y.device), old.mean, old.std
    )
    out, at = {}, 0
    for (name, mine), (_, y) in zip(peers.items(), parts, strict=True):
        sizes = [len(part) for part in (mine.train, mine.test, mine.validation)]
        places = torch.split(torch.arange(at, at + len(y)), sizes)
        train, test, validation = (Samples(common, index) for index in places)
        if dataset.strata is None:
            trained, _, held = torch.split(y, sizes)
            counts = torch.bincount(torch.cat([trained, held]), minlength=dataset.classes).double()
        else:  # what stands for a label is not changed
            counts = torch.tensor(mine.labels, dtype=torch.float64)
        out[name] = replace(
            mine,
            train=train,
            test=test,
            validation=validation,
            labels=tuple((counts / counts.sum()).tolist()),
            group=groups[name],
        )
        at += len(y)
    return out
