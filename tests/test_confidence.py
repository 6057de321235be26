"""The equations of AFIND+: hand-computed numbers, and the properties that must hold for all of
them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.strategies import confidence as c

similarity = st.floats(-1, 1)
tables = st.lists(similarity, min_size=1, max_size=30).map(
    lambda xs: {f"p{i:02d}": x for i, x in enumerate(xs)}
)
upsilons = st.floats(0.02, 5)


def test_p_of_three_neighbours_by_hand() -> None:
    # s = (0.9, 0.5, -0.2), υ = 0.5: exp(1.8) = 6.04965, exp(1.0) = 2.71828, exp(-0.4) = 0.67032,
    # sum 9.43825
    p = c.softmax({"a": 0.9, "b": 0.5, "c": -0.2}, 0.5)
    assert p == pytest.approx({"a": 0.640972, "b": 0.288007, "c": 0.071022}, abs=1e-6)


def test_mass_preserving_update_of_four_neighbours_by_hand() -> None:
    # p = 1/4 each; C = {a, b} with s = (1, 0), υ = 1. C held 1/2; softmax(1, 0) = (e, 1)/(e + 1)
    # = (0.731059, 0.268941)
    p = c.redistribute(dict.fromkeys("abcd", 0.25), {"a": 1.0, "b": 0.0}, 1.0)
    assert p == pytest.approx({"a": 0.3655293, "b": 0.1344707, "c": 0.25, "d": 0.25}, abs=1e-7)


def test_h_and_theta_of_three_neighbours_by_hand() -> None:
    # s = (1, 0, 0): e = (1, .5, .5), q = (.5, .25, .25), h = .5 ln 2 + 2 · .25 ln 4 = 1.5 ln 2,
    # exp(h) = 2^1.5 = 2.828427
    s = {"a": 1.0, "b": 0.0, "c": 0.0}
    assert c.entropy(s, "normalised", s) == pytest.approx(1.5 * math.log(2))
    theta, effective = c.theta_of(s, s, 0.5, "normalised")
    assert effective == pytest.approx(2.828427, abs=1e-6)
    assert theta == pytest.approx(0.5 / 3.828427, abs=1e-6)


def test_literal_h_of_three_neighbours_by_hand() -> None:
    # e = (1, .5, .5): h = 0 + 2 · .5 ln 2 = ln 2, σ(ln 2) = 2/3, so θ = τ/3
    s = {"a": 1.0, "b": 0.0, "c": 0.0}
    assert c.theta_of(s, s, 0.6, "literal")[0] == pytest.approx(0.2)
    assert c.theta_of(s, s, 0.6, "remark")[0] == pytest.approx(0.6 * 2.828427 / 3.828427, abs=1e-6)
    # mean: h = ln 2 / 3, exp(h) = 2^(1/3) = 1.259921
    assert c.theta_of(s, s, 0.6, "mean")[0] == pytest.approx(0.6 / 2.259921, abs=1e-6)
    # mean_similarity: mean e = 2/3, θ = τ/3 · 2 · 1/3
    assert c.theta_of(s, s, 0.6, "mean_similarity")[0] == pytest.approx(0.6 / 3 * 2 / 3)


def test_softmax_p_threshold_by_hand() -> None:
    # p = (1/2, 1/4, 1/4): h = 1.5 ln 2 again, whatever s is
    s, p = {"a": 0.3, "b": 0.2, "c": 0.1}, {"a": 0.5, "b": 0.25, "c": 0.25}
    assert c.theta_of(s, p, 1.0, "softmax_p") == pytest.approx((1 / 3.828427, 2.828427), abs=1e-6)


def test_boltzmann_weights_of_three_losses_by_hand() -> None:
    # F = (0, ln 2, ln 4), T = 1: exp(-F) = (1, 1/2, 1/4), sum 7/4
    weights = c.boltzmann({"a": 0.0, "b": math.log(2), "c": math.log(4)}, 1.0)
    assert weights == pytest.approx({"a": 4 / 7, "b": 2 / 7, "c": 1 / 7})


def test_auto_temperature_is_half_the_standard_deviation() -> None:
    assert c.temperature({"a": 0.0, "b": 0.4}, "auto") == pytest.approx(0.1)
    assert c.temperature({"a": 0.4, "b": 0.4}, "auto") == 1e-3
    assert c.temperature({"a": 0.0, "b": 0.4}, 0.3) == 0.3


@given(st.lists(st.tuples(tables, upsilons), min_size=1, max_size=6))
def test_p_sums_to_one_after_any_sequence_of_updates_and_others_stay_bit_identical(
    updates: list[tuple[dict[str, float], float]],
) -> None:
    p = {f"p{i:02d}": 1 / 30 for i in range(30)}
    for s, upsilon in updates:
        after = c.redistribute(p, s, upsilon)
        assert all(after[j] == p[j] for j in p if j not in s)
        p = after
        assert math.fsum(p.values()) == pytest.approx(1, abs=1e-9)


@given(st.floats(-600, 600))
def test_confidence_is_one_over_one_plus_exp_h(h: float) -> None:
    assert c.confidence(h) == pytest.approx(1 / (1 + math.exp(h)))


@given(st.integers(1, 60), st.floats(-0.99, 1), st.floats(0.05, 3))
def test_equal_similarities_give_tau_over_n_plus_one_and_all_are_admitted_iff_tau_is_small(
    n: int, s: float, tau: float
) -> None:
    table = {f"p{i:02d}": s for i in range(n)}
    p = c.softmax(table, 0.1)
    theta, effective = c.theta_of(table, p, tau, "normalised")
    assert theta == pytest.approx(tau / (n + 1))
    assert effective == pytest.approx(n)
    if abs(tau - (1 + 1 / n)) > 1e-6:
        assert len(c.admitted(p, theta)) == (n if tau < 1 + 1 / n else 0)


def test_equal_similarities_at_the_very_border_are_admitted() -> None:
    for n in range(1, 100):
        table = {f"p{i:02d}": 0.3 for i in range(n)}
        p = c.softmax(table, 0.1)
        assert len(c.admitted(p, c.theta_of(table, p, 1 + 1 / n, "normalised")[0])) == n


@given(tables, upsilons, st.floats(0.01, 2), st.floats(1.01, 3))
def test_theta_grows_with_tau_and_fewer_are_admitted(
    s: dict[str, float], upsilon: float, tau: float, factor: float
) -> None:
    p = c.softmax(s, upsilon)
    for threshold in ("normalised", "literal", "softmax_p", "mean", "remark"):
        low, _ = c.theta_of(s, p, tau, threshold)
        high, _ = c.theta_of(s, p, tau * factor, threshold)
        assert high > low
        assert set(c.admitted(p, high)) <= set(c.admitted(p, low))


@given(tables, upsilons, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_neighbours(
    s: dict[str, float], upsilon: float, random: object
) -> None:
    shuffled = dict(sorted(s.items(), key=lambda item: hash((item, id(random)))))
    p, q = c.softmax(s, upsilon), c.softmax(shuffled, upsilon)
    assert p == q
    assert c.theta_of(s, p, 0.5, "normalised") == c.theta_of(shuffled, q, 0.5, "normalised")


def test_as_printed_dissimilar_neighbours_are_all_taken_and_similar_ones_not_at_all() -> None:
    for similar, expected in ((0.5, 99), (0.99, 0)):
        s = {f"p{i:02d}": similar for i in range(99)}
        p = dict.fromkeys(s, 1 / 99)
        theta, _ = c.theta_of(s, p, 0.5, "literal")
        assert len(c.admitted(p, theta)) == expected


@given(tables, st.floats(-50, 50))
def test_boltzmann_weights_sum_to_one_and_ignore_a_common_shift(
    losses: dict[str, float], shift: float
) -> None:
    weights = c.boltzmann(losses, 1.0)
    assert math.fsum(weights.values()) == pytest.approx(1)
    assert weights == pytest.approx(c.boltzmann({j: x + shift for j, x in losses.items()}, 1.0))


@given(tables)
def test_boltzmann_weights_become_uniform_at_infinite_temperature(losses: dict[str, float]) -> None:
    assert c.boltzmann(losses, 1e12) == pytest.approx(dict.fromkeys(losses, 1 / len(losses)))


def test_a_loss_that_is_not_finite_gets_no_weight() -> None:
    assert c.boltzmann({"a": 1.0, "b": math.nan, "c": math.inf}, 1.0) == {"a": 1.0}


def test_renormalising_over_those_present_survives_vanished_probability() -> None:
    assert c.over({"a": 0.0, "b": 0.0, "c": 1.0}, ["a", "b"]) == {"a": 0.5, "b": 0.5}
