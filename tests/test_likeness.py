"""How alike two peers are, chance set aside; groups of those who are; and trials of models."""

from __future__ import annotations

import math
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
from amity.peer.proxy import CardSpec
from amity.peer.solo import Solo, halves
from amity.peer.trials import Agreement, Alone
from amity.rng import rng
from amity.simulate import Simulation
from amity.strategies.kinship import MOST, groups
from tests.conftest import simulate, tiny

# -- groups ----------------------------------------------------------------------------------------


def by_scipy(links: np.ndarray[Any, Any], names: list[PeerId], least: float) -> set[frozenset[str]]:
    """Average linkage of the distances MOST - likeness, cut where likeness falls below `least`."""
    apart = MOST - np.minimum((links + links.T) / 2, MOST)
    np.fill_diagonal(apart, 0.0)
    at = fcluster(linkage(squareform(apart, checks=False), "average"), MOST - least, "distance")
    return {frozenset(n for n, c in zip(names, at, strict=True) if c == one) for one in at}


@given(count=st.integers(2, 14), seed=st.integers(0, 10_000), least=st.floats(0.1, 1.4))
@settings(max_examples=150, deadline=None)
def test_groups_are_those_of_average_linkage(count: int, seed: int, least: float) -> None:
    """Of hidden groups with noise, or of noise alone, symmetric or not. (Numbers are drawn, so
    nothing ties.)"""
    draw = np.random.default_rng(seed)
    hidden = draw.integers(1 + seed % 4, size=count)
    links = 0.9 * (hidden[:, None] == hidden[None]) + draw.normal(0, 0.3, (count, count))
    links = np.minimum(links, MOST - 1e-9 * draw.random((count, count)))
    names = [f"peer-{at:02d}" for at in range(count)]
    alike = {
        i: dict(zip(names, row.tolist(), strict=True)) for i, row in zip(names, links, strict=True)
    }
    found = groups(alike, least)
    assert {frozenset(group) for group in found} == by_scipy(links, names, least)
    assert sorted(name for group in found for name in group) == names
    assert all(list(group) == sorted(group) for group in found)


def test_groups_by_hand() -> None:
    def alike(**pairs: float) -> dict[str, dict[str, float]]:
        return {
            i: {j: pairs.get(i + j, pairs.get(j + i, 1.0 if i == j else 0.0)) for j in "abc"}
            for i in "abc"
        }

    # a and b first (.9); then c, by (.9 + .7)/2 = .8
    assert groups(alike(ab=0.95, ac=0.9, bc=0.7), 0.8) == [("a", "b", "c")]
    assert groups(alike(ab=0.95, ac=0.9, bc=0.69), 0.8) == [("a", "b"), ("c",)]
    # one pair far above 1 decides nothing: 9 counts as 1.5, (1.5 + 0)/2 < .8
    assert groups(alike(ab=1.0, ac=9.0, bc=0.0), 0.8) == [("a", "c"), ("b",)]
    assert groups(alike(ab=math.nan, ac=0.0, bc=0.0), 0.8) == [("a",), ("b",), ("c",)]
    assert groups({"a": {"a": 1.0}}, 0.8) == [("a",)]
    # what two say of each other counts half each
    half = {"a": {"a": 1.0, "b": 1.0}, "b": {"a": 0.5, "b": 1.0}}
    assert groups(half, 0.75) == [("a", "b")]
    assert groups(half, 0.76) == [("a",), ("b",)]


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


# -- the card --------------------------------------------------------------------------------------


def test_how_long_one_trains_alone_follows_from_the_run() -> None:
    # 15 %, at least 2 and at most 16 epochs; nothing where nothing is planned
    simulation = simulate(tiny())
    data, learner = simulation.peers["peer-00"].data.train, simulation.world.learner
    times = [Solo(data, simulation.world.initial, learner, n) for n in (0, 1, 20, 40, 100, 1000)]
    assert [solo.epochs for solo in times] == [0, 2, 3, 6, 15, 16]
    # and on to 64 steps before they are tried, within 40 % of the run
    half = len(data) // 2
    for solo in times:
        batch = min(learner.recipe.batch, len(data) // 4)
        small = min(batch, learner.recipe.batch // 2)
        done = solo.epochs * math.ceil(half / batch)
        steps = done + solo.further_epochs * math.ceil(half / small)
        assert solo.epochs + solo.further_epochs <= max(solo.epochs, 0.4 * solo.planned + 0.5)
        assert steps >= 64 or solo.epochs + solo.further_epochs >= round(0.4 * solo.planned)


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
    said = [answers(simulation, theta, one) for one in x]
    expects = sum(said) / len(said)
    right = 0
    for probability, truth in zip(said, y.tolist(), strict=True):
        score = [
            float(probability[c]) * y.tolist().count(c) / len(y) / max(float(expects[c]), 1e-6)
            for c in range(10)
        ]
        right += score.index(max(score)) == truth
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
    simulation = trained(partition={"name": "iid", "samples": 21, "test": 30})
    peer, learner = simulation.peers[ALL[0]], simulation.world.learner
    index = peer.data.train.index
    parts = [Samples(peer.data.train.pixels, part) for part in (index[:10], index[10:20])]
    epochs, right = 2, 0  # 15 % of three rounds of one epoch, and at least 2
    for part, rest in (parts, parts[::-1]):
        theta = learner.fit(simulation.world.initial, part, rng(0, "solo"), epochs).theta
        x, y = rest.pixels.batch(rest.index)
        said = [int(answers(simulation, theta, one).argmax()) for one in x]
        right += sum(a == b for a, b in zip(said, y.tolist(), strict=True))
    found = simulation.shard.measure(ALL[0], Alone(), ALL[:1], 1)
    assert found.values == [right / 20]
    assert found.backward == 2 * epochs * 10
    assert found.forward == found.backward + 20


def test_one_example_is_too_few_to_try_oneself() -> None:
    simulation = trained(partition={"name": "iid", "samples": 1, "test": 30})
    found = simulation.shard.measure(ALL[0], Alone(), ALL[:1], 1)
    assert math.isnan(found.values[0])
    assert (found.forward, found.backward) == (0, 0)
