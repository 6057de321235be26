"""The partitions: how the training pool is dealt out to peers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from amity.data.partition import Index, Pool, Sizes, partitions
from amity.errors import DataError


@partitions.register("iid")
@dataclass(frozen=True, kw_only=True)
class Iid(Sizes):
    """Everyone draws from the same distribution, disjoint as far as the data reaches."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        count = self.count(pool, peers)
        if count > len(pool.index):
            raise DataError(
                f"iid: samples must be <= {len(pool.index)}, the training pool, got {count}"
            )
        deck = _Deck(draw.permutation(pool.index), draw)
        return [deck.take(count) for _ in range(peers)]


class _Deck:
    """A pile of examples. When it runs out it is shuffled and starts anew: then peers share
    examples, but no peer holds one twice."""

    def __init__(self, cards: Index, draw: np.random.Generator) -> None:
        self._cards, self._draw, self._at = cards, draw, 0

    def take(self, count: int) -> Index:
        taken = self._cards[self._at : self._at + count]
        self._at += count
        if len(taken) < count:
            rest = np.setdiff1d(self._cards, taken)
            self._cards = np.concatenate(
                [self._draw.permutation(rest), self._draw.permutation(taken)]
            )
            self._at = count - len(taken)
            taken = np.concatenate([taken, self._cards[: self._at]])
        return taken


def _deal_classes(
    pool: Pool, holds: list[Index], count: int, where: str, draw: np.random.Generator
) -> list[Index]:
    """Peer i gets `count` examples in equal parts from the classes holds[i]."""
    widest = max(map(len, holds))
    if count < widest:
        raise DataError(
            f"{where}: {count} samples cannot hold {widest} classes; use"
            f" partition.samples>={widest}"
        )
    decks, sizes = {}, np.bincount(pool.labels, minlength=pool.classes)
    for label in range(pool.classes):
        decks[label] = _Deck(pool.of_class(label, draw), draw)
    hands = []
    for classes in holds:
        each = [count // len(classes) + (k < count % len(classes)) for k in range(len(classes))]
        for label, need in zip(classes, each, strict=True):
            if need > sizes[label]:
                raise DataError(
                    f"{where}: class {label} has {sizes[label]} examples, a peer needs {need}; use"
                    " smaller partition.samples"
                )
        hands.append(
            np.concatenate([decks[c].take(n) for c, n in zip(classes.tolist(), each, strict=True)])
        )
    return hands


def _check_classes(where: str, wanted: int, pool: Pool) -> None:
    if wanted > pool.classes:
        raise DataError(
            f"{where}: classes must be <= {pool.classes}, the number that exist, got {wanted}"
        )


@partitions.register("pathological")
@dataclass(frozen=True, kw_only=True)
class Pathological(Sizes):
    """Each peer holds `classes` classes drawn at random, in equal parts; a used-up class is dealt
    anew."""

    classes: Annotated[int, Field(ge=1)] = 2
    """Classes that a peer holds, in equal parts."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        _check_classes("pathological", self.classes, pool)
        holds = [
            np.sort(draw.choice(pool.classes, self.classes, replace=False)) for _ in range(peers)
        ]
        return _deal_classes(pool, holds, self.count(pool, peers), "pathological", draw)


@partitions.register("shards")
@dataclass(frozen=True, kw_only=True)
class Shards(Sizes):
    """Each class is cut into equal shards and every peer gets `classes` shards: disjoint, at most
    `classes` classes."""

    classes: Annotated[int, Field(ge=1)] = 2
    """Shards that a peer gets, each of a single class."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        _check_classes("shards", self.classes, pool)
        count = min(self.count(pool, peers), len(pool.index) // peers)
        per_class = math.ceil(self.classes * peers / pool.classes)
        shards = [
            part
            for c in range(pool.classes)
            for part in np.array_split(pool.of_class(c, draw), per_class)
        ]
        order = draw.permutation(len(shards))[: self.classes * peers].reshape(peers, self.classes)
        each = max(1, count // self.classes)
        hands = [np.concatenate([shards[k][:each] for k in mine]) for mine in order]
        if any(len(hand) == 0 for hand in hands):
            raise DataError(
                f"shards: {len(pool.index)} examples are too few for {peers} peers x {self.classes}"
                " shards"
            )
        return hands


@partitions.register("groups")
@dataclass(frozen=True, kw_only=True)
class ByGroups(Sizes):
    """Latent groups: peers of the same of `groups` groups hold the same classes, other groups hold
    others."""

    groups: Annotated[int, Field(ge=1)] = 2
    """How many groups there are; each holds classes of its own."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        if self.groups > pool.classes:
            raise DataError(
                f"groups: must be <= {pool.classes}, the number of classes, got {self.groups}"
            )
        sets = [
            np.sort(part) for part in np.array_split(draw.permutation(pool.classes), self.groups)
        ]
        return _deal_classes(
            pool,
            [sets[i % self.groups] for i in range(peers)],
            self.count(pool, peers),
            "groups",
            draw,
        )


@partitions.register("labels")
@dataclass(frozen=True, kw_only=True)
class ByLabels(Sizes):
    """Told outright: peer i holds the classes `labels[i]` in equal parts (more peers: from the
    start again)."""

    labels: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3))
    """The classes of every peer, one list each."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        for classes in self.labels:
            if (
                not classes
                or len(set(classes)) < len(classes)
                or not all(0 <= c < pool.classes for c in classes)
            ):
                raise DataError(
                    f"labels: expected lists of different classes from 0 to {pool.classes - 1}, got"
                    f" {classes}"
                )
        holds = [np.array(self.labels[i % len(self.labels)], dtype=np.int64) for i in range(peers)]
        return _deal_classes(pool, holds, self.count(pool, peers), "labels", draw)


@partitions.register("dirichlet")
@dataclass(frozen=True, kw_only=True)
class Dirichlet(Sizes):
    r"""Peer i draws its class shares π_i ~ Dir(α·1) and then `samples` disjoint examples by them.

    Peers draw in random order, one example at a time. A class that is used up is struck from π_i,
    which is renormalised (where nothing is left of it: equal shares of what remains), so it ends
    for every α > 0. α → 0: one class each; α → ∞: iid.
    """

    alpha: Annotated[float, Field(gt=0)] = 0.5
    """α: towards 0 every peer holds a single class, towards ∞ all hold the same shares."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        count = self.count(pool, peers)
        if count * peers > len(pool.index):
            raise DataError(
                f"dirichlet: {peers} peers x {count} samples exceed the {len(pool.index)} training"
                f" examples; use partition.samples<={len(pool.index) // peers}"
            )
        piles = [pool.of_class(c, draw).tolist() for c in range(pool.classes)]
        left = np.array([len(pile) for pile in piles], dtype=float)
        shares = _dirichlet(self.alpha, pool.classes, peers, draw)
        hands: list[list[int]] = [[] for _ in range(peers)]
        turns = draw.permutation(np.repeat(np.arange(peers), count))
        for i, u in zip(turns.tolist(), draw.random(len(turns)).tolist(), strict=True):
            weights = shares[i] * (left > 0)
            total = weights.sum()
            if total <= 1e-300:
                weights = (left > 0).astype(float)
                total = weights.sum()
            label = int(np.searchsorted(np.cumsum(weights), u * total, side="right"))
            label = min(label, pool.classes - 1)
            while left[label] == 0:
                label -= 1
            hands[i].append(piles[label].pop())
            left[label] -= 1
        return [np.array(hand, dtype=np.int64) for hand in hands]


def _dirichlet(
    alpha: float, size: int, count: int, draw: np.random.Generator
) -> np.ndarray[Any, np.dtype[Any]]:
    """Rows of Dir(α·1); where α is so small that all gammas underflow, one class takes all."""
    rows = draw.dirichlet([alpha] * size, count)
    for row in rows:
        if not np.isfinite(row).all() or row.sum() < 0.5:
            row[:] = 0
            row[draw.integers(size)] = 1
    return np.asarray(rows)


@partitions.register("dirichlet_class")
@dataclass(frozen=True, kw_only=True)
class DirichletClass(Sizes):
    r"""Each class is divided among the peers by Dir(α·1): unequal sizes, at least `least` examples
    each.

    Peers below `least` are filled up from the largest ones. `samples` is only an upper bound here.
    """

    alpha: Annotated[float, Field(gt=0)] = 0.5
    """α: towards 0 a class belongs to a single peer, towards ∞ all have as much of it."""
    least: Annotated[int, Field(ge=1)] = 10
    """Training examples that every peer has at least."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        if len(pool.index) < peers * self.least:
            raise DataError(
                f"dirichlet_class: {len(pool.index)} training examples cannot give {peers} peers"
                f" {self.least} each; use partition.least<={len(pool.index) // peers}"
            )
        hands: list[list[int]] = [[] for _ in range(peers)]
        for label in range(pool.classes):
            pile = pool.of_class(label, draw)
            cuts = (np.cumsum(_dirichlet(self.alpha, peers, 1, draw)[0])[:-1] * len(pile)).astype(
                int
            )
            for hand, part in zip(hands, np.split(pile, cuts), strict=True):
                hand.extend(part.tolist())
        hands = [draw.permutation(hand).tolist() for hand in hands]
        for hand in hands:
            while len(hand) < self.least:
                hand.append(max(hands, key=len).pop())
        return [np.array(hand[: self.samples or None], dtype=np.int64) for hand in hands]


@partitions.register("natural")
@dataclass(frozen=True, kw_only=True)
class Natural(Sizes):
    """Peers as they are in the data (writers); who has fewer than `least` training or no test
    examples is passed over."""

    natural: ClassVar[bool] = True
    least: Annotated[int, Field(ge=1)] = 10
    """Training examples that a peer must have to take part."""

    def deal(self, pool: Pool, peers: int, draw: np.random.Generator) -> list[Index]:
        if pool.writers is None or pool.tested is None:
            raise DataError(
                "natural: this data does not say whose each example is (in a table:"
                " data.peer=COLUMN); use another partition"
            )
        ids, counts = np.unique(pool.writers, return_counts=True)
        able = ids[(counts >= self.least) & np.isin(ids, pool.tested)]
        if len(able) < peers:
            way = f"peers={len(able)} or a smaller" if len(able) else "a smaller"
            raise DataError(
                f"natural: of {len(ids)} peers in the data, {len(able)} have at least {self.least}"
                f" training examples and some for testing; use {way} partition.least, got"
                f" peers={peers}"
            )
        chosen = np.sort(draw.choice(able, peers, replace=False))
        return [
            draw.permutation(pool.index[pool.writers == w])[: self.samples or None] for w in chosen
        ]
