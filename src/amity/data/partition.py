"""How a dataset is dealt out to peers, and the test sets that match.

A partition says which training examples each peer holds. The test set of a peer is drawn from the
test pool with the class shares of its training set (test examples are reused between peers); a
validation share is cut off the training examples before any strategy sees them, the same in all
runs of a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from pydantic import Field

from amity.core import PeerId
from amity.data.base import Dataset
from amity.data.samples import PeerData, Samples
from amity.errors import DataError
from amity.lazy import torch
from amity.registry import Registry
from amity.rng import rng

Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Pool:
    """The training pool: dataset indices, their labels, and the number of classes."""

    index: Index
    labels: Index
    classes: int
    writers: Index | None = None
    tested: Index | None = None
    """Writers who have test examples."""

    def of_class(self, label: int, draw: np.random.Generator) -> Index:
        """All of one class, shuffled."""
        return np.asarray(draw.permutation(self.index[self.labels == label]))


class Partition(Protocol):
    """Deals the training pool out: one index array per peer."""

    @property
    def test(self) -> int: ...

    @property
    def validation(self) -> float: ...

    natural: ClassVar[bool]
    """Whether peers are those of the data, with their own test examples."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]: ...


partitions: Registry[Partition] = Registry("partition", "deal", home="amity.data")
"""How examples are dealt out to peers, by name."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What every partition has: training examples per peer (0: an equal share of all), test
    examples a peer (0: an equal share of the test pool), and the share of the training examples
    that is set aside for validation."""

    natural: ClassVar[bool] = False

    samples: Annotated[int, Field(ge=0)] = 0
    """Training examples of a peer; 0: an equal share of all."""
    test: Annotated[int, Field(ge=0)] = 100
    """Test examples of a peer; 0: an equal share of all."""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a peer's training examples that is set aside for validation: nobody trains on
    them."""

    def count(self, pool: Pool, peers: int) -> int:
        """Training examples a peer."""
        if len(pool.index) < peers:
            raise DataError(
                f"partition: {len(pool.index)} training examples for {peers} peers; use fewer peers"
            )
        return self.samples or len(pool.index) // peers


def split(
    dataset: Dataset, partition: Partition, names: tuple[PeerId, ...], seed: int
) -> dict[PeerId, PeerData]:
    """Each peer's data."""
    labels, writers = dataset.labels, dataset.writers
    pool = Pool(dataset.train, labels[dataset.train], dataset.classes)
    if writers is not None:
        pool = replace(
            pool, writers=writers[dataset.train], tested=np.unique(writers[dataset.test])
        )
    hands = partition.deal(pool, len(names), rng(seed, "partition"))
    test_of = (
        _own_tests(dataset) if partition.natural else _matched_tests(dataset, partition, len(names))
    )
    peers = {}
    for name, hand in zip(names, hands, strict=True):
        shuffled = rng(seed, "shuffle", name).permutation(hand)
        held_out = round(partition.validation * len(shuffled))
        train, validation = shuffled[held_out:], shuffled[:held_out]
        if len(train) == 0:
            raise DataError(
                f"partition: {name} has no training examples left; use fewer peers or a smaller"
                " validation"
            )
        counts = np.bincount(labels[hand], minlength=dataset.classes)
        test = test_of(hand, counts / counts.sum(), rng(seed, "test", name))
        if len(test) == 0:
            raise DataError(f"partition: the test pool has no examples of the classes of {name}")
        share = tuple((counts / counts.sum()).tolist())
        peers[name] = PeerData(
            samples_of(dataset, train),
            samples_of(dataset, test),
            samples_of(dataset, validation),
            share,
        )
        if partition.natural:
            one, groups = int(hand[0]), dataset.groups
            group = None if groups is None else int(groups[one])
            peers[name] = replace(peers[name], origin=dataset.writer_name(one), group=group)
    return peers


def samples_of(dataset: Dataset, index: Index) -> Samples:
    """Some examples of a dataset."""
    return Samples(dataset.pixels, torch.from_numpy(np.ascontiguousarray(index)))


TestDraw = Callable[[Index, np.ndarray[Any, np.dtype[Any]], np.random.Generator], Index]


def _matched_tests(dataset: Dataset, partition: Partition, peers: int) -> TestDraw:
    """⌈share·quota⌉ test examples of every class, without replacement, independently for each
    peer."""
    quota = partition.test or max(1, len(dataset.test) // peers)
    test_labels = dataset.labels[dataset.test]
    by_class = [dataset.test[test_labels == c] for c in range(dataset.classes)]

    def draw_test(
        _hand: Index, share: np.ndarray[Any, np.dtype[Any]], draw: np.random.Generator
    ) -> Index:
        parts = [
            draw.choice(pool, min(len(pool), math.ceil(share[c] * quota - 1e-9)), replace=False)
            for c, pool in enumerate(by_class)
            if share[c] > 0
        ]
        return np.asarray(np.concatenate(parts))

    return draw_test


def _own_tests(dataset: Dataset) -> TestDraw:
    """The test examples of the same writer, as the dataset gives them."""

    def draw_test(
        hand: Index, _share: np.ndarray[Any, np.dtype[Any]], _draw: np.random.Generator
    ) -> Index:
        writers = dataset.writers
        return (
            dataset.test
            if writers is None
            else dataset.test[writers[dataset.test] == writers[hand[0]]]
        )

    return draw_test
