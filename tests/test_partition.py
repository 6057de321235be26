from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.data import build, partitions, split
from amity.data.base import Dataset
from amity.errors import DataError
from amity.tasks.classify import Classify
from amity.topology import peer_names


def a_dataset(
    train: int = 1000, test: int = 500, classes: int = 10, writers: bool = False
) -> Dataset:
    draw = np.random.default_rng(0)
    y = draw.integers(classes, size=train + test)
    y[:classes] = np.arange(classes)
    x = draw.normal(size=(train + test, 1, 2, 2))
    ids = draw.integers(30, size=train + test) if writers else None
    return build(
        "made up",
        x,
        y,
        np.arange(train),
        np.arange(train, train + test),
        mean=0.0,
        std=1.0,
        writers=ids,
    )


def deal(
    name: str, dataset: Dataset | None = None, peers: int = 10, seed: int = 0, **options: Any
) -> Any:
    dataset = dataset or a_dataset()
    return dataset, split(dataset, partitions[name].build(options), peer_names(peers), seed)


@pytest.mark.parametrize("entry", list(partitions), ids=lambda entry: entry.name)
def test_every_partition_gives_everyone_examples_within_the_pools_without_repeats(
    entry: Any,
) -> None:
    dataset, peers = deal(entry.name, a_dataset(writers=True))
    train, test = set(dataset.train.tolist()), set(dataset.test.tolist())
    for data in peers.values():
        assert len(data.train) > 0
        assert len(data.test) > 0
        held = data.train.index.tolist()
        assert len(set(held)) == len(held)
        assert set(held) <= train
        assert set(data.test.index.tolist()) <= test
        assert sum(data.labels) == pytest.approx(1)


@pytest.mark.parametrize("entry", list(partitions), ids=lambda entry: entry.name)
def test_the_same_seed_deals_the_same_hands(entry: Any) -> None:
    hands = [deal(entry.name, a_dataset(writers=True), seed=seed)[1] for seed in (4, 4, 5)]
    held = [[d.train.index.tolist() for d in h.values()] for h in hands]
    assert held[0] == held[1]
    assert held[0] != held[2]


@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.1, 0.5, 100.0])
def test_dirichlet_ends_for_every_alpha_with_equal_disjoint_hands(alpha: float) -> None:
    _, peers = deal("dirichlet", alpha=alpha)
    hands = [data.train.index.tolist() for data in peers.values()]
    assert [len(hand) for hand in hands] == [100] * 10
    assert len({i for hand in hands for i in hand}) == 1000


def test_a_small_alpha_skews_and_a_large_one_does_not() -> None:
    top = {
        alpha: np.mean(
            [max(d.labels) for d in deal("dirichlet", alpha=alpha, samples=40)[1].values()]
        )
        for alpha in (0.1, 100.0)
    }
    assert top[0.1] > 0.5
    assert top[100.0] < 0.2


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10), st.integers(1, 12), st.integers(0, 99))
def test_pathological_gives_exactly_c_classes_in_equal_parts(
    classes: int, peers: int, seed: int
) -> None:
    _, hands = deal("pathological", peers=peers, seed=seed, classes=classes, samples=40)
    for data in hands.values():
        shares = [share for share in data.labels if share > 0]
        assert len(shares) == classes
        assert max(shares) - min(shares) <= 1 / 40 + 1e-9
        assert len(data.train) == 40


def test_shards_are_disjoint_and_hold_at_most_c_classes() -> None:
    _, peers = deal("shards", classes=2)
    hands = [data.train.index.tolist() for data in peers.values()]
    assert len({i for hand in hands for i in hand}) == sum(map(len, hands))
    assert all(sum(share > 0 for share in data.labels) <= 2 for data in peers.values())


def test_labels_are_held_as_told_and_the_first_peers_hand_depends_on_nobody_else() -> None:
    _, peers = deal("labels", labels=((4, 5), (0, 1, 2)), samples=12)
    hands = list(peers.values())
    assert [{k for k, share in enumerate(data.labels) if share} for data in hands[:3]] == [
        {4, 5},
        {0, 1, 2},
        {4, 5},
    ]
    _, others = deal("labels", labels=((4, 5), (7, 8)), samples=12)
    assert torch.equal(hands[0].train.index, next(iter(others.values())).train.index)


def test_groups_share_labels_within_and_none_between() -> None:
    _, peers = deal("groups", groups=2)
    even, odd = list(peers.values())[::2], list(peers.values())[1::2]
    mine = {k for k, share in enumerate(even[0].labels) if share}
    assert all({k for k, s in enumerate(d.labels) if s} == mine for d in even)
    assert all(mine.isdisjoint(k for k, s in enumerate(d.labels) if s) for d in odd)


def test_natural_peers_are_writers_with_their_own_test_examples() -> None:
    made = a_dataset(writers=True)
    assert made.writers is not None
    made.writers[made.test[made.writers[made.test] == 3]] = 4  # writer 3 has no test examples
    dataset, peers = deal("natural", made, peers=29, least=5)
    for data in peers.values():
        writers = {
            int(dataset.writers[i]) for part in (data.train, data.test) for i in part.index.tolist()
        }
        assert len(writers) == 1


@pytest.mark.parametrize("name", ["dirichlet", "pathological", "iid"])
def test_test_sets_match_the_training_shares_within_rounding(name: str) -> None:
    dataset, peers = deal(name, test=50)
    available = np.bincount(dataset.labels[dataset.test], minlength=10)
    for data in peers.values():
        counts = np.bincount(dataset.labels[data.test.index.numpy()], minlength=10)
        wanted = np.minimum(np.ceil(np.array(data.labels) * 50 - 1e-9), available)
        assert (counts == wanted).all()


def test_validation_is_cut_off_the_training_examples() -> None:
    _, whole = deal("iid")
    _, cut = deal("iid", validation=0.2)
    for name, data in cut.items():
        assert len(data.validation) == 20
        both = sorted(data.train.index.tolist() + data.validation.index.tolist())
        assert both == sorted(whole[name].train.index.tolist())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pathological", {"classes": 11}, "classes must be <= 10, the number that exist, got 11"),
        (
            "pathological",
            {"classes": 1, "samples": 500},
            "a peer needs 500; use smaller partition.samples",
        ),
        (
            "dirichlet",
            {"samples": 200},
            r"10 peers x 200 samples exceed the 1000 .* use partition.samples<=100",
        ),
        ("dirichlet_class", {"least": 200}, "cannot give 10 peers 200 each"),
        ("groups", {"groups": 11}, "must be <= 10"),
        ("labels", {"labels": ((3, 10),)}, r"different classes from 0 to 9, got \(3, 10\)"),
        ("labels", {"labels": ((3, 3),)}, r"different classes from 0 to 9, got \(3, 3\)"),
        ("iid", {"samples": 2000}, "samples must be <= 1000"),
        ("natural", {}, "does not say whose each example is"),
    ],
)
def test_a_partition_that_the_data_does_not_allow_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        deal(name, **options)


def test_fewer_examples_than_peers_is_refused() -> None:
    with pytest.raises(DataError, match="20 training examples for 30 peers; use fewer peers"):
        deal("iid", a_dataset(train=20), peers=30)


def test_labels_that_are_no_whole_numbers_are_refused_where_classes_are_wanted() -> None:
    x, y = np.zeros((3, 1, 2, 2)), np.array([0.5, 1, 2])
    numbers = build("mine", x, y, np.arange(2), np.arange(2, 3))
    with pytest.raises(DataError, match=r"numbers \(0.5, 1, 2, ...\), and classes .* task=regress"):
        Classify().prepare(numbers)
    with pytest.raises(DataError, match="the answer to example 0 is NaN"):
        build("mine", x, y * np.nan, np.arange(2), np.arange(2, 3))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.full((3, 1, 2, 2), np.nan), np.arange(3), "example 0 has NaN or Inf"),
        (np.zeros((3, 1, 2, 2)), np.arange(4), "3 examples but 4 labels"),
        (np.zeros((3, 1, 2, 2)), np.array([-1, 0, 1]), "labels must be >= 0"),
        (np.zeros((3, 1, 2, 2), dtype=np.int64), np.arange(3), "must be uint8 or floating point"),
        (np.zeros((0, 1, 2, 2)), np.arange(0), "no examples"),
    ],
)
def test_bad_arrays_are_refused_at_the_border(x: Any, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build("mine", x, y, np.arange(2), np.arange(2, 3), mean=0.0, std=1.0)
