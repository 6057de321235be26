from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amity import Ask, Decision, Plan, Row, View, chain, spread
from amity.core import START, Share, drive
from amity.errors import RowError, unknown
from amity.facts import Pull
from amity.peer.mixing import check_row, mix
from amity.rng import rng
from amity.strategies.gossip import Gossip


def a_view(
    me: str = "a", neighbours: tuple[str, ...] = ("b", "c"), memory: dict[str, object] | None = None
) -> View:
    return View(
        me=me,
        round=0,
        rounds=10,
        neighbours=neighbours,
        examples=5,
        card=None,
        rng=rng(0, "test"),
        common_rng=rng(0, "common"),
        memory=memory or {},
    )


def test_drive_sends_answers_in_and_returns_the_decision() -> None:
    asked = []

    def answer(ask: Ask) -> dict[str, int]:
        asked.append(ask)
        return dict.fromkeys(ask.peers, 7)

    decision = drive(Gossip(k=2).decide(a_view(), {"a": 1.0}), answer)
    assert asked == [Ask(Pull(), ("b", "c"))]
    assert decision.row == pytest.approx(dict.fromkeys("abc", 1 / 3))


def test_a_plan_that_returns_no_decision_is_an_error() -> None:
    def plan() -> Plan:
        yield from ()
        return {"a": 1.0}  # type: ignore[return-value]

    with pytest.raises(TypeError, match="must return a Decision"):
        drive(plan(), lambda ask: {})


class Halve:
    card = None

    def decide(self, view: View, row: Row) -> Plan:
        yield from ()
        seen = view.memory.get("seen", 0)
        return Decision(
            {j: w / 2 for j, w in row.items()} | {START: 0.5}, {"seen": seen + 1}, {"halved": 1.0}
        )

    def pulls(self, neighbours: int) -> float:
        return 0


def test_chain_threads_the_row_and_keeps_a_notebook_for_each_stage() -> None:
    both = chain(Gossip(k=2), Halve())
    first = drive(both.decide(a_view(), {"a": 1.0}), lambda ask: dict.fromkeys(ask.peers, 1))
    assert first.row == pytest.approx({"a": 1 / 6, "b": 1 / 6, "c": 1 / 6, START: 0.5})
    second = drive(both.decide(a_view(memory=dict(first.memory)), {"a": 1.0}), lambda ask: {})
    assert second.memory["1"] == {"seen": 2}
    assert second.notes == {"halved": 1.0}


def test_spread_drops_zero_weights_and_sorts() -> None:
    assert spread({"c": 1.0, "a": 0.0, "b": 3.0}) == {"b": 0.75, "c": 0.25}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 0.5, "z": 0.5}, "never arrived"),
        ({"a": 0.4, "b": 0.5}, "sum to 0.9"),
        ({"a": 1.5, "b": -0.5}, "must be finite and > 0"),
        ({"a": float("nan")}, "must be finite and > 0"),
        ({}, "sum to 0"),
    ],
)
def test_a_row_that_breaks_the_rules_is_refused(row: Row, message: str) -> None:
    with pytest.raises(RowError, match=message):
        check_row(row, "a", {"b"})


def test_a_good_row_may_stand_on_me_on_my_start_and_on_arrivals() -> None:
    check_row({"a": 0.2, START: 0.3, "b": 0.5}, "a", {"b"})


@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 10**6))
def test_mixing_is_the_product_of_the_row_and_the_models(peers: int, size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    theta_MP = draw.normal(size=(peers, size)).astype(np.float32)
    weights = draw.dirichlet(np.ones(peers))
    names = [f"p{i}" for i in range(peers)]
    row = dict(zip(names, weights.tolist(), strict=True))
    mixed = mix(row, {n: Share(torch.from_numpy(t)) for n, t in zip(names, theta_MP, strict=True)})
    np.testing.assert_allclose(mixed.theta.numpy(), weights @ theta_MP, atol=1e-5)


def test_masked_mixing_normalises_every_coordinate_by_those_who_offer_it() -> None:
    yes, no = True, False
    shares = {
        "a": Share(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([yes, yes, no])),
        "b": Share(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([yes, no, no])),
    }
    mixed = mix({"a": 0.25, "b": 0.75}, shares)
    assert mixed.theta[:2].tolist() == [4.0, 2.0]
    assert mixed.mask is not None
    assert mixed.mask.tolist() == [yes, yes, no]


def test_the_order_of_names_does_not_change_a_bit_of_the_mix() -> None:
    draw = torch.Generator().manual_seed(0)
    shares = {n: Share(torch.randn(1000, generator=draw)) for n in "abcde"}
    row = dict(zip("abcde", (0.1, 0.15, 0.2, 0.25, 0.3), strict=True))
    backwards = {n: row[n] for n in reversed("abcde")}
    assert torch.equal(mix(row, shares).theta, mix(backwards, shares).theta)


def test_randomness_is_a_pure_function_of_names() -> None:
    assert rng(1, "train", 3, "peer-01").random() == rng(1, "train", 3, "peer-01").random()
    streams = {
        rng(*names).random()
        for names in ((1, "a", 2), (1, "a", "2"), (1, "a", 3), (2, "a", 2), (1, "b", 2))
    }
    assert len(streams) == 5


def test_unknown_names_come_with_the_nearest_known_one() -> None:
    assert (
        unknown("strategy", "afnd", ["afind", "gossip"])
        == "unknown strategy 'afnd'; did you mean 'afind'?"
    )
    assert unknown("x", "zzz", ["b", "a"]) == "unknown x 'zzz'; known: a, b"
