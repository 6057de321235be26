"""How alike two peers are, chance set aside; groups of those who are; and trials of models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from amity.core import Card, PeerId
from amity.data.samples import Samples
from amity.facts import Likeness, Offer, is_copy, likeness
from amity.peer.proxy import CardSpec, directions_of
from amity.peer.solo import Solo, halves
from amity.peer.trials import Agreement, Alone, Skill
from amity.rng import rng
from amity.simulate import Simulation
from amity.strategies import kinship
from amity.strategies.friends import Friends
from amity.strategies.kinship import MOST, groups
from tests.conftest import simulate, tiny

# -- groups ----------------------------------------------------------------------------------------


def by_scipy(links: np.ndarray[Any, Any], names: list[PeerId], least: float) -> set[frozenset[str]]:
    """Average linkage of the distances MOST - likeness, cut where likeness falls below `least`."""
    apart = MOST - np.minimum((links + links.T) / 2, MOST)
    np.fill_diagonal(apart, 0.0)
    at = fcluster(linkage(squareform(apart, checks=False), "average"), MOST - least, "distance")
    return {frozenset(n for n, c in zip(names, at, strict=True) if c == one) for one in at}


def by_all_pairs(alike: Mapping[PeerId, Mapping[PeerId, float]]) -> set[frozenset[str]]:
    """The docstring of `groups` word for word: in every step all means anew, over all pairs."""

    def mean(one: frozenset[str], other: frozenset[str]) -> float:
        pairs = [(alike[i][j] + alike[j][i]) / 2 for i in one for j in other]
        return math.fsum(pairs) / len(pairs)

    found = {frozenset({name}) for name in alike}
    while True:
        links = {(one, other): mean(one, other) for one, other in combinations(found, 2)}
        may = {
            (one, other): link
            for (one, other), link in links.items()
            if link >= 0.92 - 0.12 * math.sqrt(1 / len(one) + 1 / len(other))
        }
        if not may:
            return found
        one, other = max(may, key=may.__getitem__)
        found = found - {one, other} | {one | other}


def drawn(count: int, seed: int) -> tuple[list[PeerId], np.ndarray[Any, Any]]:
    """Hidden groups with noise, or noise alone, not symmetric. (Numbers are drawn, so nothing
    ties.)"""
    draw = np.random.default_rng(seed)
    hidden = draw.integers(1 + seed % 4, size=count)
    links = 0.9 * (hidden[:, None] == hidden[None]) + draw.normal(0, 0.3, (count, count))
    links = np.minimum(links, MOST - 1e-9 * draw.random((count, count)))
    return [f"peer-{at:02d}" for at in range(count)], links


def as_answers(names: list[PeerId], links: np.ndarray[Any, Any]) -> dict[PeerId, dict[str, float]]:
    return {
        i: dict(zip(names, row.tolist(), strict=True)) for i, row in zip(names, links, strict=True)
    }


@given(count=st.integers(1, 14), seed=st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_groups_are_those_that_a_slow_look_at_all_pairs_finds(count: int, seed: int) -> None:
    names, links = drawn(count, seed)
    found = groups(as_answers(names, links))
    assert {frozenset(group) for group in found} == by_all_pairs(as_answers(names, links))
    assert sorted(name for group in found for name in group) == names
    assert all(list(group) == sorted(group) for group in found)


@given(count=st.integers(2, 14), seed=st.integers(0, 10_000), least=st.floats(0.1, 1.4))
@settings(max_examples=150, deadline=None)
def test_where_sizes_do_not_matter_groups_are_those_of_average_linkage(
    count: int, seed: int, least: float
) -> None:
    names, links = drawn(count, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinship, "CHANCE", 0.0)
        patch.setattr(kinship, "LINK", least)
        found = groups(as_answers(names, links))
    assert {frozenset(group) for group in found} == by_scipy(links, names, least)


def symmetric(names: str, **pairs: float) -> dict[str, dict[str, float]]:
    """1 with oneself, and 0 where nothing is said."""
    return {
        i: {j: pairs.get(i + j, pairs.get(j + i, 1.0 if i == j else 0.0)) for j in names}
        for i in names
    }


def test_groups_by_hand() -> None:
    # two single peers: .92 - .12 · √2 = .7503
    assert groups(symmetric("ab", ab=0.751)) == [("a", "b")]
    assert groups(symmetric("ab", ab=0.750)) == [("a",), ("b",)]
    # a and b first (.95); then c, from .92 - .12 · √(3/2) = .7730 on: (.9 + .647)/2 = .7735
    assert groups(symmetric("abc", ab=0.95, ac=0.9, bc=0.647)) == [("a", "b", "c")]
    assert groups(symmetric("abc", ab=0.95, ac=0.9, bc=0.645)) == [("a", "b"), ("c",)]
    # two pairs: .92 - .12 = .8
    for link, found in ((0.801, [tuple("abcd")]), (0.799, [("a", "b"), ("c", "d")])):
        cross = dict.fromkeys(("ac", "ad", "bc", "bd"), link)
        assert groups(symmetric("abcd", ab=1.0, cd=1.0, **cross)) == found
    # one pair far above 1 decides nothing: 9 counts as 1.5, (1.5 + 0)/2 < .773
    assert groups(symmetric("abc", ab=1.0, ac=9.0, bc=0.0)) == [("a", "c"), ("b",)]
    assert groups(symmetric("abc", ab=math.nan)) == [("a",), ("b",), ("c",)]
    assert groups({"a": {"a": 1.0}}) == [("a",)]
    # two that are as near as each other: the first names
    assert groups(symmetric("abc", ab=0.9, ac=0.9)) == [("a", "b"), ("c",)]
    # what two say of each other counts half each
    for said, found in ((0.502, [("a", "b")]), (0.498, [("a",), ("b",)])):
        assert groups({"a": {"a": 1.0, "b": 1.0}, "b": {"a": said, "b": 1.0}}) == found


def test_single_peers_find_together_where_large_groups_that_are_nearer_stay_apart() -> None:
    # two groups of four become one from .92 - .12 · √(1/2) = .835 on; x and y do from .75 on
    pairs = {i + j: 0.83 for i in "abcd" for j in "efgh"}
    pairs |= {i + j: 1.0 for four in ("abcd", "efgh") for i, j in combinations(four, 2)}
    found = groups(symmetric("abcdefghxy", **pairs, xy=0.76))
    assert found == [tuple("abcd"), tuple("efgh"), ("x", "y")]


# -- likeness --------------------------------------------------------------------------------------

NUMBERS = 1024


def cards(seed: int, noise: list[float], *, own: bool = False) -> torch.Tensor:
    """A card of two halves for each level of noise: one signal for all, or each its own."""
    draw = torch.Generator().manual_seed(seed)

    def vector(length: float = 1.0) -> torch.Tensor:
        return length * torch.randn(NUMBERS, generator=draw) / math.sqrt(NUMBERS)

    common = vector()
    made = []
    for level in noise:
        signal = vector() if own else common
        made.append(torch.cat([signal + vector(level), signal + vector(level)]))
    return torch.stack(made)


def apart(alike: torch.Tensor) -> torch.Tensor:
    """All but the diagonal."""
    return alike[~torch.eye(len(alike), dtype=torch.bool)]


@given(seed=st.integers(0, 10_000), levels=st.lists(st.floats(0.1, 2.0), min_size=12, max_size=12))
@settings(max_examples=40, deadline=None)
def test_who_has_the_same_signal_is_alike_by_1_whatever_the_noise(
    seed: int, levels: list[float]
) -> None:
    found = apart(likeness(cards(seed, levels)))
    assert float(found.mean()) == pytest.approx(1.0, abs=0.15)


@given(seed=st.integers(0, 10_000), levels=st.lists(st.floats(0.1, 2.0), min_size=12, max_size=12))
@settings(max_examples=40, deadline=None)
def test_who_has_a_signal_of_its_own_is_like_nobody(seed: int, levels: list[float]) -> None:
    found = apart(likeness(cards(seed, levels, own=True)))
    assert abs(float(found.mean())) < 0.1
    assert float(found.abs().max()) < 0.6


def test_a_plain_cosine_takes_noise_for_a_difference() -> None:
    """Why chance is set aside: the same signal, with as much noise, and with twice as much."""
    made = cards(7, [1.0] * 8 + [2.0] * 8)
    plain = torch.nn.functional.normalize(made[:, :NUMBERS])
    cosine = plain @ plain.T
    assert float(apart(cosine[:8, :8]).mean()) == pytest.approx(0.5, abs=0.05)
    assert float(apart(cosine[8:, 8:]).mean()) == pytest.approx(0.2, abs=0.05)
    alike = likeness(made)
    assert float(apart(alike[:8, :8]).mean()) == pytest.approx(1.0, abs=0.1)
    assert float(apart(alike[8:, 8:]).mean()) == pytest.approx(1.0, abs=0.15)


@given(seed=st.integers(0, 10_000), scales=st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_likeness_is_symmetric_1_with_oneself_and_free_of_scale(
    seed: int, scales: list[float]
) -> None:
    made = cards(seed, [0.5, 0.5, 1.0, 2.0])
    alike = likeness(made)
    assert torch.allclose(alike, alike.T, atol=1e-6)
    assert alike.diagonal().tolist() == [1.0] * 4
    scaled = made * torch.tensor(scales)[:, None]
    assert torch.allclose(likeness(scaled), alike, atol=1e-4)


def test_likeness_in_the_words_of_its_formula() -> None:
    made = cards(3, [0.5, 1.0, 1.5])
    found = likeness(made)
    halves_of = [[h / h.norm() for h in card.double().chunk(2)] for card in made]
    for i, (a, b) in enumerate(halves_of):
        for j, (c, d) in enumerate(halves_of):
            expected = float((a + b) @ (c + d)) / 4 / math.sqrt(float(a @ b) * float(c @ d))
            assert float(found[i, j]) == pytest.approx(1.0 if i == j else expected, abs=1e-5)


@given(
    seed=st.integers(0, 10_000),
    levels=st.lists(st.floats(0.1, 2.0), min_size=6, max_size=6),
    scale=st.floats(1e-6, 1e6),
)
@settings(max_examples=40, deadline=None)
def test_cards_of_two_bytes_a_number_are_as_alike_as_those_of_four(
    seed: int, levels: list[float], scale: float
) -> None:
    made = scale * cards(seed, levels)
    small = torch.stack([directions_of(card, 2) for card in made])
    assert small.dtype == torch.float16
    assert torch.allclose(likeness(small), likeness(made), atol=2e-3)
    for card, other in zip(small, made, strict=True):
        assert [float(half.double().norm()) for half in card.chunk(2)] == pytest.approx(
            [1.0, 1.0], abs=1e-3
        )
        assert is_copy(card, card)
        assert is_copy(card, directions_of(2.0 * other, 2)), "however long it is"
    assert not is_copy(small[0], small[1])


def test_directions_of_what_points_nowhere_are_0() -> None:
    half = torch.tensor([3.0, 4.0])
    for nothing in (torch.zeros(2), torch.full((2,), math.nan)):
        found = directions_of(torch.cat([half, nothing]), 2)
        assert found.tolist() == pytest.approx([0.6, 0.8, 0.0, 0.0], abs=1e-3)


def test_a_card_that_says_nothing_is_like_nobody() -> None:
    made = torch.cat([cards(1, [0.5, 0.5]), torch.zeros(1, 2 * NUMBERS)])
    assert likeness(made)[2, :2].tolist() == [0.0, 0.0]
    broken = torch.cat([cards(1, [0.5, 0.5]), torch.full((1, 2 * NUMBERS), math.nan)])
    assert torch.equal(likeness(broken)[:2, :2], likeness(made)[:2, :2]), "the others are unharmed"


@given(seed=st.integers(0, 10_000), level=st.floats(0.3, 2.0), scale=st.floats(0.01, 100))
@settings(max_examples=40, deadline=None)
def test_a_copy_is_known_however_it_is_turned_and_a_friend_is_none(
    seed: int, level: float, scale: float
) -> None:
    mine, friend = cards(seed, [level, level])
    a, b = mine.chunk(2)
    noise = cards(seed + 1, [0.0], own=True)[0][:NUMBERS]
    for copy in (
        mine,
        scale * mine,
        torch.cat([b, a]),
        torch.cat([a, a]),
        torch.cat([a, noise]),
        torch.cat([noise, b]),
        torch.cat([a + b, a + b]),
    ):
        assert is_copy(copy, mine)
    assert not is_copy(friend, mine)
    assert not is_copy(torch.cat([noise, noise]), mine)


def test_the_fact_answers_for_all_pairs_and_says_0_of_a_copy() -> None:
    made = dict(zip("abc", cards(2, [0.5] * 3), strict=True))
    made["z"] = made["a"].clone()

    def offered(names: str) -> dict[PeerId, Offer]:
        return {j: Offer(1, Card(j, 0, 1, 1, made[j])) for j in names}

    class Asking:
        card = Card("a", 0, 1, 1, made["a"])

    found = Likeness().read(Asking(), offered("abcz"))  # type: ignore[arg-type]
    assert {j: set(row) for j, row in found.items()} == {j: {*"abcz"} for j in "abcz"}
    assert {found["z"][j] for j in "abc"} | {found[j]["z"] for j in "abc"} == {0.0}
    assert found["a"]["b"] == found["b"]["a"] == pytest.approx(1.0, abs=0.15)
    assert Likeness().read(Asking(), {}) == {}  # type: ignore[arg-type]
    assert Likeness().read(Asking(), {"b": Offer(1)}) == {}  # type: ignore[arg-type]


# -- what a peer learns alone ----------------------------------------------------------------------


def alone_in(simulation: Simulation, samples: int, planned: int) -> Solo:
    data = simulation.peers["peer-00"].data.train
    some = Samples(data.pixels, data.index.repeat(60)[:samples])
    assert len(some) == samples
    return Solo(some, simulation.world.initial, simulation.world.learner, planned)


def test_how_long_one_trains_alone_follows_from_the_run() -> None:
    # 15 %, at least 2 and at most 16 epochs; nothing where nothing is planned
    simulation = simulate(tiny())
    planned = (0, 1, 20, 40, 100, 1000)
    assert [alone_in(simulation, 10, n).epochs for n in planned] == [0, 2, 3, 6, 15, 16]


@pytest.mark.parametrize(
    ("samples", "planned", "further"),
    [
        # halves of 20 in two batches; then in batches of 4, half of the usual 8: 5 steps an epoch.
        # 16 epochs are 32 steps; 32 more are 7 epochs
        (40, 1000, 7),
        # 15 % of 40 are 6 epochs, 12 steps; 52 more are 11 epochs; 40 % of 40 are 16, 10 more
        (40, 40, 10),
        (40, 30, 12 - 4),
        # halves of 5 in batches of 3; no larger ones later: 2 steps an epoch
        (10, 1000, 16),
        # halves of 1: a step an epoch; 48 more
        (2, 1000, 48),
        # no batch is larger than 512: 5 steps an epoch, more than 64 already
        (4100, 1000, 0),
        # 2 epochs are more than 40 % of 3
        (40, 3, 0),
        (40, 0, 0),
        (1, 1000, 0),
        (0, 1000, 0),
    ],
)
def test_a_model_is_tried_after_64_steps_or_with_two_fifths_of_the_run(
    samples: int, planned: int, further: int
) -> None:
    simulation = simulate(tiny(partition={"name": "iid", "samples": 80, "test": 10}))
    assert simulation.world.learner.recipe.batch == 8
    assert alone_in(simulation, samples, planned).further_epochs == further


def test_how_right_one_is_alone_is_found_once_and_written_down() -> None:
    simulation = simulate(tiny(partition={"name": "iid", "samples": 20, "test": 10}))
    learner, solo = simulation.world.learner, alone_in(simulation, 20, 40)
    assert bool(solo.found.isnan().all())
    before = learner.costs()
    one, other = solo.models()
    forward, backward = (b - a for a, b in zip(before, learner.costs(), strict=True))
    # each half of 10, before it is shown and before it is tried, and each on the other
    assert backward == 2 * 10 * (solo.epochs + solo.further_epochs)
    assert forward == backward + 20
    after = learner.costs()
    right = solo.right()
    assert 0 <= right.right <= 1
    assert solo.found.tolist() == [right.right, right.chance]
    elsewhere = Solo(solo.data, solo.initial, learner, solo.planned, solo.found)
    assert elsewhere.right() == right
    assert learner.costs() == after, "whoever asks, and wherever: nothing is trained again"
    again = replace(solo, found=torch.full((2,), math.nan, dtype=torch.float64))
    assert again.right() == right, "who was never asked for a card trains now"
    assert all(torch.equal(a, b) for a, b in zip(again.models(), (one, other), strict=True))
    assert not torch.equal(one, other)


def test_a_fit_with_batches_of_its_own_is_that_of_a_recipe_with_such_batches() -> None:
    found = []
    for recipe, batch in ((3, None), (8, 3), (8, None), (8, 8)):
        simulation = simulate(tiny(train={"batch": recipe}))
        data = simulation.peers["peer-00"].data.train
        learner = simulation.world.learner
        found.append(
            learner.fit(simulation.world.initial, data, rng(5, "some"), 2, batch=batch).theta
        )
    small, same_small, large, same_large = found
    assert torch.equal(small, same_small)
    assert torch.equal(large, same_large)
    assert not torch.equal(small, large)


# -- the card --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 5, 10])
def test_halves_are_of_one_size_and_share_nothing(count: int) -> None:
    simulation = simulate(tiny())
    data = simulation.peers["peer-00"].data.train
    some = Samples(data.pixels, data.index[:count])
    one, other = halves(some)
    assert len(one) == len(other) == count // 2
    assert not {*one.index.tolist()} & {*other.index.tolist()}
    assert {*one.index.tolist()} | {*other.index.tolist()} <= {*some.index.tolist()}


def test_the_length_of_a_card_is_known_without_training() -> None:
    simulation = simulate(tiny(strategy="friends"))
    peer, spec = simulation.peers["peer-00"], CardSpec("twins", 0)
    peer.trained.copy_(peer.start)
    learner = simulation.world.learner
    before = learner.costs()
    assert peer.card_length(spec) == 2 * learner.layout.size
    assert peer.card_length(CardSpec("twins", 16)) == 32
    assert learner.costs() == before
    assert len(peer.sketch(spec)) == 2 * learner.layout.size


@pytest.mark.parametrize(
    ("sketch", "shrink", "half"),
    [(1024, 4, 228), (1024, 1, 910), (100, 4, 100), (228, 4, 228), (0, 4, 910), (1024, 910, 1)],
)
def test_a_small_model_has_a_small_card(sketch: int, shrink: int, half: int) -> None:
    """64 inputs, 12 hidden units, 10 classes: 64 · 12 + 12 + 12 · 10 + 10 = 910 numbers, a quarter
    of them (rounded up) 228."""
    simulation = simulate(tiny(strategy="friends"))
    peer = simulation.peers["peer-00"]
    peer.trained.copy_(peer.start)
    spec = CardSpec("twins", sketch, bits=16, shrink=shrink)
    assert peer.card_length(spec) == spec.numbers(2 * 910) == 2 * half
    made = peer.sketch(spec)
    assert made.shape == (2 * half,)
    assert made.dtype == torch.float16
    assert Card("peer-00", 0, 1, 1, made).nbytes == 2 * 2 * half + 16


def test_friends_pay_a_quarter_of_a_small_model_for_a_card_and_never_more_than_4_kb() -> None:
    spec = Friends().card
    for size, numbers in ((910, 2 * 228), (4810, 2 * 1024), (10**7, 2 * 1024)):
        assert spec.numbers(2 * size) == numbers
        card = Card("", 0, 1, 1, torch.zeros(numbers, dtype=torch.float16))
        assert card.nbytes == min(4 * math.ceil(size / 4), 4096) + 16


@pytest.mark.parametrize(
    ("kind", "nbytes"), [(torch.float32, 400), (torch.float16, 200), (torch.int8, 13)]
)
def test_a_card_weighs_what_its_numbers_do(kind: torch.dtype, nbytes: int) -> None:
    assert Card("", 0, 0, 0, torch.ones(100, dtype=kind)).nbytes == nbytes + 16


# -- trials ----------------------------------------------------------------------------------------

ALL = ("peer-00", "peer-01", "peer-02")


def trained(**overrides: Any) -> Simulation:
    """Six peers in the middle of their second round: trained, and nothing mixed yet."""
    config = tiny(strategy="local", eval={"gradients_every": 0}, **overrides)
    simulation = simulate(config)
    simulation.round()
    simulation.shard.train(simulation.names, 1, None)
    return simulation


def answers(simulation: Simulation, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What a model with one hidden layer says of one example, in plain torch."""
    first, bias, last, offset = (
        slot.of(theta).double() for slot in simulation.world.learner.layout.slots
    )
    hidden = (first @ x.flatten().double() + bias).clamp_min(0)
    return torch.softmax(last @ hidden + offset, 0)


def corrected(simulation: Simulation, theta: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> int:
    """How many answers are right, told how often each class occurs here."""
    said = [answers(simulation, theta, one) for one in x]
    expects = sum(said) / len(said)
    right = 0
    for probability, truth in zip(said, y.tolist(), strict=True):
        score = [
            float(probability[c]) * y.tolist().count(c) / len(y) / max(float(expects[c]), 1e-6)
            for c in range(10)
        ]
        right += score.index(max(score)) == truth
    return right


@pytest.mark.parametrize("samples", [10, 31])
def test_a_crowd_agrees_where_it_gives_my_answers_told_how_often_each_occurs(samples: int) -> None:
    simulation = trained(
        partition={"name": "pathological", "classes": 3, "samples": samples, "test": 30}
    )
    peer = simulation.peers[ALL[0]]
    row = ((ALL[1], 0.25), (ALL[2], 0.75))
    found = simulation.shard.measure(ALL[0], Agreement(row), ALL[1:], 1)
    theta = 0.25 * simulation.peers[ALL[1]].trained + 0.75 * simulation.peers[ALL[2]].trained
    data = peer.data.train
    x, y = data.pixels.batch(data.index)
    right = corrected(simulation, theta, x, y)
    assert found.values == [right / len(y)] * 2
    assert (found.forward, found.backward) == (len(y), 0)
    assert simulation.shard.measure(ALL[0], Agreement(row), ALL[1:2], 1).values != found.values


def test_without_all_of_its_models_a_mixture_says_nothing() -> None:
    simulation = trained()
    row = ((ALL[1], 0.5), (ALL[2], 0.5))
    (value,) = simulation.shard.measure(ALL[0], Agreement(row), ALL[1:2], 1).values
    assert math.isnan(value)
    simulation.peers[ALL[1]].trained[3] = math.nan
    values = simulation.shard.measure(ALL[0], Agreement(row), ALL[1:], 1).values
    assert values == [0.0, 0.0], "a model that is no number is never right"


def test_alone_is_a_model_of_one_half_tried_on_the_other_both_ways() -> None:
    """15 % of 20 rounds of one epoch are 3 epochs, each half in two batches. Then 5 more in batches
    of 4, half of the usual 8, up to 40 % of all."""
    simulation = trained(partition={"name": "iid", "samples": 21, "test": 30}, rounds=20)
    peer, learner = simulation.peers[ALL[0]], simulation.world.learner
    index = peer.data.train.index
    parts = [Samples(peer.data.train.pixels, part) for part in (index[:10], index[10:20])]
    right, chance = 0, 0.0
    for part, rest in (parts, parts[::-1]):
        theta = learner.fit(simulation.world.initial, part, rng(0, "solo"), 3, batch=5).theta
        theta = learner.fit(theta, part, rng(0, "solo"), 5, batch=4).theta
        x, y = rest.pixels.batch(rest.index)
        said = [int(answers(simulation, theta, one).argmax()) for one in x]
        right += sum(a == b for a, b in zip(said, y.tolist(), strict=True))
        chance += float(y.bincount().max()) / 20
    found = simulation.shard.measure(ALL[0], Alone(), ALL[:1], 1)
    assert found.values == [pytest.approx((right / 20, 1, chance))]
    assert found.backward == 2 * (3 + 5) * 10
    assert found.forward == found.backward + 20
    again = simulation.shard.measure(ALL[0], Alone(), ALL[:1], 2)
    assert (again.values, again.forward, again.backward) == (found.values, 0, 0)


def test_one_example_is_too_few_to_try_oneself() -> None:
    simulation = trained(partition={"name": "iid", "samples": 1, "test": 30})
    found = simulation.shard.measure(ALL[0], Alone(), ALL[:1], 1)
    assert math.isnan(found.values[0].right)
    assert (found.forward, found.backward) == (0, 0)


@pytest.mark.parametrize("samples", [10, 40])
def test_skill_is_what_each_model_knows_of_a_few_examples_beyond_the_commonest_answer(
    samples: int,
) -> None:
    simulation = trained(
        partition={"name": "pathological", "classes": 3, "samples": samples, "test": 30}
    )
    data = simulation.peers[ALL[0]].data.train
    some = min(samples, 32)
    x, y = data.pixels.batch(data.index[:some])
    commonest = max(y.tolist().count(c) for c in range(10)) / some
    expected = []
    for name in ALL[1:]:
        right = corrected(simulation, simulation.peers[name].trained, x, y) / some
        expected.append((right - commonest) / (1 - commonest))
    found = simulation.shard.measure(ALL[0], Skill(), ALL[1:], 1)
    assert found.values == pytest.approx(expected)
    assert found.values[0] != found.values[1]
    assert (found.forward, found.backward) == (2 * some, 0)


def test_a_model_that_is_no_number_has_no_skill_and_harms_nobody_elses() -> None:
    simulation = trained()
    (sound, _) = simulation.shard.measure(ALL[0], Skill(), ALL[1:], 1).values
    simulation.peers[ALL[2]].trained[3] = math.nan
    found = simulation.shard.measure(ALL[0], Skill(), ALL[1:], 1).values
    assert found[0] == sound
    assert -1 <= found[1] < 0


def test_where_there_is_one_class_alone_there_is_nothing_to_know() -> None:
    simulation = trained(partition={"name": "pathological", "classes": 1, "samples": 10})
    assert simulation.shard.measure(ALL[0], Skill(), ALL[1:], 1).values == [0.0, 0.0]


def test_without_examples_there_is_no_skill() -> None:
    simulation = trained()
    peer = simulation.peers[ALL[0]]
    peer.data = replace(peer.data, train=Samples(peer.data.train.pixels, torch.arange(0)))
    values = simulation.shard.measure(ALL[0], Skill(), ALL[1:], 1).values
    assert all(math.isnan(value) for value in values)
