"""Shifts: hidden groups of peers that see another kind of input, or disagree about the answer.

A shift is laid over a dataset that has been dealt out. Every peer belongs to one group, by lot. All
examples of a group, for training and for testing alike, are changed in the same way; group 0 is
left as it is, unless the shift says otherwise. A group of one is a *loner*: nobody else sees the
world as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Protocol

import numpy as np
from pydantic import Field

from amity.core import PeerId
from amity.data.base import Dataset
from amity.data.partition import Partition, split
from amity.data.samples import PeerData, Pixels, Samples
from amity.errors import ConfigError, DataError
from amity.lazy import torch
from amity.registry import Registry
from amity.rng import rng


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
    images: ClassVar[bool]
    """Whether it can only be done to images."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Examples (as many as are given, raw) and their labels, changed. `noise` is one peer's."""


shifts: Registry[Shift] = Registry("shift", "apply", home="amity.data")


class Always:
    """What most shifts are: groups of anything, tables too."""

    plain: ClassVar[bool] = False
    images: ClassVar[bool] = False


class OfImages(Always):
    """A shift that only images can have."""

    images: ClassVar[bool] = True


@dataclass(frozen=True)
class Grouping:
    """Keys of `shift` beside those of the shift itself: who belongs together."""

    groups: Annotated[int, Field(ge=1, le=1_000_000)] = 4
    """So many groups of the same size."""
    sizes: str | tuple[int, ...] = ""
    """Or their sizes one by one, as `14,4,1,1`; they add up to the number of peers."""

    def counts(self, peers: int) -> tuple[int, ...]:
        """How many peers each group has."""
        if self.sizes == "":
            if self.groups > peers:
                raise ConfigError(
                    f"shift.groups: {self.groups} groups for {peers} peers; use"
                    f" shift.groups<={peers} or more peers"
                )
            each, more = divmod(peers, self.groups)
            return tuple(each + (group < more) for group in range(self.groups))
        try:
            parts = self.sizes.split(",") if isinstance(self.sizes, str) else self.sizes
            counts = tuple(int(part) for part in parts)
        except ValueError:
            counts = ()
        if not counts or min(counts) < 1:
            raise ConfigError(
                f"shift.sizes: expected whole numbers above 0 with commas between, as 14,4,1,1,"
                f" got {self.sizes!r}"
            )
        if sum(counts) != peers:
            raise ConfigError(
                f"shift.sizes: {','.join(map(str, counts))} adds up to {sum(counts)}, not to the"
                f" {peers} peers; use other sizes or peers={sum(counts)}"
            )
        return counts


def groups_of(grouping: Grouping, names: Sequence[PeerId], seed: int) -> dict[PeerId, int]:
    """Everyone's group, by lot."""
    numbers = np.repeat(np.arange(len(counts := grouping.counts(len(names)))), counts)
    mixed = rng(seed, "shift groups").permutation(numbers)
    return dict(zip(names, mixed.tolist(), strict=True))


def deal(
    dataset: Dataset,
    partition: Partition,
    shift: Shift,
    grouping: Grouping,
    names: tuple[PeerId, ...],
    seed: int,
) -> dict[PeerId, PeerData]:
    """Each peer's data, with the shift of its group."""
    peers = split(dataset, partition, names, seed)
    if shift.plain:
        return peers
    if shift.images and len(dataset.shape) != 3:
        raise DataError(
            f"shift: {type(shift).__name__.lower()} needs images, got examples of shape"
            f" {dataset.shape}; use shift=permute_labels, permute_pixels, invert or scale"
        )
    groups = groups_of(grouping, names, seed)
    count = max(groups.values()) + 1
    xs, ys, at = [], [], 0
    changed = {}
    for name in names:
        setting = Setting(groups[name], count, dataset, seed)
        parts = (peers[name].train, peers[name].test, peers[name].validation)
        index = torch.cat([part.index for part in parts])
        pixels = dataset.pixels
        x, y = shift.apply(
            pixels.x[index], pixels.y[index], setting, rng(seed, "shift noise", name)
        )
        xs.append(x)
        ys.append(y)
        changed[name] = (at, tuple(map(len, parts)), y)
        at += len(index)
    common = Pixels(torch.cat(xs), torch.cat(ys), dataset.pixels.mean, dataset.pixels.std)
    return {
        name: _moved(peers[name], common, start, sizes, groups[name], dataset.classes)
        for name, (start, sizes, _) in changed.items()
    }


def _moved(
    mine: PeerData,
    common: Pixels,
    start: int,
    sizes: tuple[int, ...],
    group: int,
    classes: int,
) -> PeerData:
    """The same examples, where they are now."""
    train, test, validation = (
        Samples(common, part)
        for part in torch.split(torch.arange(start, start + sum(sizes)), list(sizes))
    )
    held = torch.cat([train.index, validation.index])
    counts = torch.bincount(common.y[held], minlength=classes).double()
    labels = tuple((counts / counts.sum()).tolist())
    return replace(mine, train=train, test=test, validation=validation, labels=labels, group=group)
