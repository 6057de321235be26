"""Strategies of others, each worked out by hand, at its extremes, and between real examples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.core import Answers, Ask, Decision, drive
from amity.errors import ConfigError
from amity.facts import Cosine, Distance, MixtureLoss, Pull, Slope
from amity.rng import rng
from amity.strategies.dpfl import Dpfl, chance
from amity.strategies.epidemic import Epidemic, senders
from amity.strategies.fedamp import FedAmp
from amity.strategies.fedsim import FedSim
from amity.strategies.l2c import L2c
from amity.strategies.metropolis import Metropolis
from amity.strategies.morph import Morph
from amity.strategies.pfedgraph import PFedGraph, onto_simplex
from tests.conftest import simulate, tiny
from tests.test_strategies import EVERYONE_HERE, NAMES, Town, decide, view

NAN = float("nan")


# -- mixing by cosines -----------------------------------------------------------------------------


def test_fedsim_weighs_by_the_cosine_and_gives_nothing_for_a_negative_one() -> None:
    # 1 for me, .5 and .25 for b and c, nothing for d: of 1.75
    town = Town(Cosine={"b": 0.5, "c": 0.25, "d": -0.5})
    decision = decide(FedSim(), town)
    assert decision.row == pytest.approx({"a": 4 / 7, "b": 2 / 7, "c": 1 / 7})
    assert decision.scores == {"b": 0.5, "c": 0.25, "d": -0.5}
    assert [ask.fact for ask in town.asked] == [Cosine("update")]
    decide(FedSim(of="model"), town)
    assert town.asked[-1].fact == Cosine("model")


def test_fedsim_of_equal_models_is_gossip_and_of_opposite_ones_local() -> None:
    assert decide(FedSim(), Town(Cosine=dict.fromkeys("bcd", 1.0))).row == pytest.approx(
        dict.fromkeys(NAMES, 0.25)
    )
    assert decide(FedSim(), Town(Cosine=dict.fromkeys("bcd", -1.0))).row == {"a": 1.0}


def test_fedamp_keeps_its_own_weight_and_shares_the_rest_by_a_softmax() -> None:
    # σ = ln 2 / .5: exp(σ c) = 2, 1, 1/2 for c = .5, 0, -.5, so 4/7, 2/7 and 1/7 of 0.7
    town = Town(Cosine={"b": 0.5, "c": 0.0, "d": -0.5})
    row = decide(FedAmp(sigma=2 * math.log(2)), town).row
    assert row == pytest.approx({"a": 0.3, "b": 0.4, "c": 0.2, "d": 0.1})


def test_fedamp_at_its_extremes() -> None:
    town = Town(Cosine={"b": 0.5, "c": 0.0, "d": -0.5})
    assert decide(FedAmp(sigma=0, own=0.25), town).row == pytest.approx(dict.fromkeys(NAMES, 0.25))
    assert decide(FedAmp(sigma=1e6), town).row == pytest.approx({"a": 0.3, "b": 0.7})
    assert decide(FedAmp(own=1.0), town).row == {"a": 1.0}
    assert "a" not in decide(FedAmp(own=0.0), town).row
    assert decide(FedAmp(own=0.0), Town()).row == {"a": 1.0}


def test_pfedgraph_projects_shares_and_cosines_on_the_simplex() -> None:
    # I have 5 examples, b 5, c 10: p = .25, .25, .5. λ = 1: p + c/2 with c = 1, .2, -.6 is .75,
    # .35, .2. Their sum is .3 too much: a tenth less for each.
    town = Town(Pull={"b": 5, "c": 10}, Cosine={"b": 0.2, "c": -0.6})
    assert decide(PFedGraph(lam=1.0), town).row == pytest.approx({"a": 0.65, "b": 0.25, "c": 0.1})
    # c = -1 makes that 0, and the other two share: .75 and .35 are .1 too much
    town = Town(Pull={"b": 5, "c": 10}, Cosine={"b": 0.2, "c": -1.0})
    assert decide(PFedGraph(lam=1.0), town).row == pytest.approx({"a": 0.7, "b": 0.3})


def test_pfedgraph_counts_what_is_almost_the_same_as_the_same() -> None:
    town = Town(Pull={"b": 5, "c": 5}, Cosine={"b": 0.95, "c": 0.85})
    rounded = decide(PFedGraph(lam=0.1), town).row
    assert rounded == pytest.approx({"a": 0.5, "b": 0.5})
    exact = decide(PFedGraph(lam=0.1, same=1.0), town).row
    assert exact["a"] - exact["b"] == pytest.approx(0.05 / 0.2)


def test_pfedgraph_goes_from_me_alone_to_the_shares_of_examples() -> None:
    town = Town(Pull={"b": 5, "c": 10}, Cosine={"b": 0.2, "c": 0.8})
    assert decide(PFedGraph(lam=1e-20), town).row == {"a": 1.0}
    assert decide(PFedGraph(lam=1e9), town).row == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5})


NUMBERS = st.lists(st.floats(-10, 10), min_size=1, max_size=8)


@given(NUMBERS, st.floats(-5, 5))
def test_a_projection_on_the_simplex_is_the_nearest_row(numbers: list[float], more: float) -> None:
    """It is a row; it is unmoved by a constant; and no other row lies on its far side: (v − Πv)·(x
    − Πv) ≤ 0 for every corner x of the simplex, which makes Πv the nearest point."""
    values = {str(at): number for at, number in enumerate(numbers)}
    found = onto_simplex(values)
    assert found.keys() == values.keys()
    assert all(weight >= 0 for weight in found.values())
    assert math.fsum(found.values()) == pytest.approx(1)
    shifted = onto_simplex({j: number + more for j, number in values.items()})
    assert shifted == pytest.approx(found, abs=1e-9)
    assert onto_simplex(found) == pytest.approx(found, abs=1e-9)
    away = {j: values[j] - found[j] for j in values}
    for corner in values:
        to = {j: (1.0 if j == corner else 0.0) - found[j] for j in values}
        assert math.fsum(away[j] * to[j] for j in values) <= 1e-9


@pytest.mark.parametrize("strategy", [FedSim(), FedAmp(), PFedGraph(), Morph()])
def test_a_model_that_diverged_has_no_cosine_and_gets_no_weight(strategy: Any) -> None:
    town = Town(**EVERYONE_HERE, Cosine={"b": NAN, "c": 0.5, "d": -0.5})
    decision = decide(strategy, town)
    assert "b" not in decision.row
    assert "b" not in decision.memory.get("cosine", {})


# -- L2C -------------------------------------------------------------------------------------------


def test_l2c_mixes_by_its_weights_and_learns_them_for_the_next_round() -> None:
    # All α are 0: equal weights of 1/4. Slopes 0, 4, 0, -4 with mean 0, so dL/dα = 0, 1, 0, -1.
    # The first step of Adam is lr · sign: α = 0, -.1, 0, .1.
    town = Town(Distance=dict.fromkeys("bcd", 1.0), Slope={"a": 0.0, "b": 4.0, "c": 0.0, "d": -4.0})
    strategy = L2c(lr=0.1, decay=0.0)
    first = decide(strategy, town)
    assert first.row == pytest.approx(dict.fromkeys(NAMES, 0.25))
    assert town.asked[-1].fact == Slope(tuple((j, 0.25) for j in NAMES))
    assert first.memory["alpha"] == pytest.approx({"a": 0, "b": -0.1, "c": 0, "d": 0.1}, abs=1e-7)
    assert first.memory["mean"] == pytest.approx({"a": 0, "b": 0.1, "c": 0, "d": -0.1})
    assert first.memory["square"] == pytest.approx({"a": 0, "b": 0.001, "c": 0, "d": 0.001})
    second = decide(strategy, town, first.memory, round=1)
    # e^-.1, 1, 1, e^.1 of 4.010008
    assert second.row == pytest.approx(
        {"a": 0.249376, "b": 0.225645, "c": 0.249376, "d": 0.275603}, abs=1e-6
    )
    assert second.memory["steps"] == dict.fromkeys(NAMES, 2)
    assert second.scores == pytest.approx({"b": -0.1, "c": 0, "d": 0.1}, abs=1e-7)


def test_l2c_asks_everyone_at_first_and_then_those_with_the_largest_weights() -> None:
    memory = {"alpha": {"a": 0.0, "b": 0.3, "c": -0.2, "d": 0.5}}
    town = Town(Distance=dict.fromkeys("bcd", 1.0), Slope=dict.fromkeys(NAMES, 0.0))
    strategy = L2c(k=1, first_phase=0.3)
    for t in (2, 3):
        decide(strategy, town, memory, round=t)
    assert town.peers(Distance) == [("b", "c", "d"), ("d",)]
    decide(strategy, town, memory, round=9, neighbours=("b", "c"))
    assert town.peers(Distance)[-1] == ("b",), "the next best, while the best is away"


def test_l2c_that_does_not_learn_is_gossip_and_weight_decay_leads_back_to_equal_weights() -> None:
    town = Town(Distance=dict.fromkeys("bcd", 1.0), Slope={"a": 0.0, "b": 4.0, "c": 0.0, "d": -4.0})
    memory: Any = {}
    for t in range(5):
        decision = decide(L2c(lr=0.0), town, memory, round=t)
        memory = decision.memory
        assert decision.row == pytest.approx(dict.fromkeys(NAMES, 0.25))
    flat = Town(Distance=dict.fromkeys("bcd", 1.0), Slope=dict.fromkeys(NAMES, 1.0))
    leaning = {"alpha": {"b": 0.5}}
    faded = decide(L2c(decay=1.0), flat, leaning).memory["alpha"]["b"]
    assert faded == pytest.approx(0.4)


def test_l2c_leaves_out_models_that_diverged_and_learns_only_from_finite_slopes() -> None:
    town = Town(Distance={"b": NAN, "c": 1.0}, Slope={"a": NAN, "c": NAN})
    decision = decide(L2c(), town)
    assert decision.row == pytest.approx({"a": 0.5, "c": 0.5})
    assert decision.memory == {}


# -- DPFL ------------------------------------------------------------------------------------------


def trial(strategy: Dpfl, loss: Callable[[frozenset[str]], float], **where: Any) -> Decision:
    """DPFL where the loss of a mean depends on whose models it is of."""

    def answer(ask: Ask) -> Answers:
        if not isinstance(ask.fact, MixtureLoss):
            assert isinstance(ask.fact, Distance)
            return dict.fromkeys(ask.peers, 1.0)
        for row in ask.fact.rows:
            assert {weight for _, weight in row} == {1 / len(row)}, "equal weights"
        losses = tuple(loss(frozenset(j for j, _ in row)) for row in ask.fact.rows)
        return dict.fromkeys(ask.peers, losses)

    memory = where.pop("memory", None)
    return drive(strategy.decide(view(memory, **where), {"a": 1.0}), answer)


def test_dpfl_takes_whom_adding_helps_and_leaves_whom_removing_helps() -> None:
    # b and c lower the loss by 1 each, wherever they are, and d raises it by 1. So for b and c: a =
    # 1, b = -1, taken with probability 1; for d: a = -1, b = 1, with probability 0.
    decision = trial(Dpfl(), lambda s: 3.0 - ("b" in s) - ("c" in s) + ("d" in s))
    assert decision.row == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert decision.memory == {"found": ["b", "c"], "searched": 0}
    assert decision.notes == {"tried": 3.0}


def test_dpfl_takes_by_chance_whom_both_adding_and_removing_helps() -> None:
    # To X = {a} it is worth 1, and to be without it worth 3 to Y: taken a quarter of the times.
    losses = {"a": 1.0, "ab": 0.0, "abc": 3.0, "ac": 0.0}
    assert chance(1.0, 3.0) == 0.25
    taken = Counter()
    for t in range(2000):
        memory = {"found": ["b", "c"], "searched": t}
        row = trial(
            Dpfl(k=1),
            lambda s: losses["".join(sorted(s))],
            memory=memory,
            round=t,
            neighbours=("b", "c"),
        ).row
        taken.update(row.keys() - {"a"})
    # the first in line is taken with 1/4; if not, the other has a = 1, b = R(a) - R(ac) < 0: always
    assert taken["b"] + taken["c"] == 2000
    assert taken["b"] / 2000 == pytest.approx(0.5, abs=0.05)


def test_dpfl_stops_at_its_budget_and_takes_where_neither_choice_is_a_gain() -> None:
    assert chance(-1.0, -1.0) == chance(0.0, 0.0) == 1.0
    assert chance(2.0, 0.0) == chance(math.inf, 1.0) == 1.0
    assert chance(0.0, 2.0) == chance(0.0, math.inf) == chance(NAN, 1.0) == 0.0
    assert len(trial(Dpfl(k=2), lambda s: -float(len(s))).row) == 3
    assert len(trial(Dpfl(k=3), lambda s: 0.0).row) == 4


def test_dpfl_searches_among_those_it_found_and_at_times_among_all() -> None:
    found = {"found": ["b"], "searched": 3}
    later = trial(Dpfl(every=10), lambda s: -float(len(s)), memory=found, round=12)
    assert later.row == pytest.approx({"a": 0.5, "b": 0.5})
    assert later.memory == found
    again = trial(Dpfl(every=10), lambda s: -float(len(s)), memory=found, round=13)
    assert again.memory == {"found": ["b", "c", "d"], "searched": 13}
    alone = {"found": [], "searched": 0}
    assert trial(Dpfl(every=0), lambda s: -float(len(s)), memory=alone, round=99).row == {"a": 1.0}


def test_dpfl_never_takes_a_mixture_without_a_finite_loss() -> None:
    for bad in (NAN, math.inf):
        row = trial(Dpfl(), lambda s, bad=bad: bad if "c" in s else -float(len(s))).row
        assert row == pytest.approx(dict.fromkeys("abd", 1 / 3))
    assert trial(Dpfl(), lambda s: NAN).row == {"a": 1.0}


# -- Morph -----------------------------------------------------------------------------------------


def test_morph_takes_the_least_similar_and_tries_those_it_has_never_seen_first() -> None:
    town = Town(Cosine={"b": 0.9, "c": -0.5, "d": 0.1})
    strategy = Morph(k=2, eps=0.0)
    known = {"cosine": {"b": 0.9, "c": -0.5, "d": 0.1}}
    decision = decide(strategy, town, known)
    assert decision.row == pytest.approx(dict.fromkeys("acd", 1 / 3))
    assert decision.scores == {"b": -0.9, "c": 0.5, "d": -0.1}
    decide(strategy, town, {"cosine": {"c": -0.5, "d": 0.1}})
    assert town.peers(Cosine)[-1] == ("b", "c")


def test_morph_has_a_fixed_in_degree_and_is_gossip_if_it_only_explores() -> None:
    known = {"cosine": {"b": 0.9, "c": -0.5, "d": 0.1}}
    seen = set()
    for t in range(40):
        town = Town(Cosine={"b": 0.9, "c": -0.5, "d": 0.1})
        assert len(decide(Morph(k=1, eps=1.0), town, known, round=t).row) == 2
        seen |= set(town.peers(Cosine))
    assert seen == {("b",), ("c",), ("d",)}


# -- Epidemic Learning -----------------------------------------------------------------------------


def test_in_an_epidemic_everyone_sends_to_s_and_gets_what_chance_brings() -> None:
    everyone = tuple("abcdefgh")
    heard: list[int] = []
    for t in range(50):
        sources = {me: senders(me, everyone, 2, rng(0, "common", t)) for me in everyone}
        sent = Counter(j for me in everyone for j in sources[me])
        assert sent == dict.fromkeys(everyone, 2), "all peers draw the same targets"
        assert all(me not in sources[me] for me in everyone)
        heard += [len(found) for found in sources.values()]
    assert set(heard) > {0, 1, 2, 3, 4}
    # of seven others each sends with probability 2/7: nobody with (5/7)^7 = .095
    assert heard.count(0) / len(heard) == pytest.approx((5 / 7) ** 7, abs=0.04)


def test_an_epidemic_averages_equally_and_its_extremes_are_local_and_everyone() -> None:
    town = Town(**EVERYONE_HERE)
    expected = senders("a", NAMES, 1, view(round=3).common_rng)
    row = decide(Epidemic(s=1), town, round=3).row
    assert row == pytest.approx(dict.fromkeys(("a", *expected), 1 / (1 + len(expected))))
    assert decide(Epidemic(s=0), town).row == {"a": 1.0}
    assert decide(Epidemic(s=3), town).row == pytest.approx(dict.fromkeys(NAMES, 0.25))


def test_an_epidemic_moves_s_models_a_peer_also_with_peers_offline() -> None:
    simulation = simulate(tiny(strategy={"name": "epidemic", "s": 2}, topology={"online": 0.7}))
    size, degrees = 4 * simulation.world.learner.layout.size, set()
    for t in range(3):
        report = simulation.round()
        online = sum(bool(near) for near in simulation.network.neighbours(t).values())
        for name, near in simulation.network.neighbours(t).items():
            record = report.peers[name]
            assert record.model_out == (min(2, online - 1) * size if near else 0)
            degrees.add(record.model_in // size)
    assert len(degrees) > 2, "what comes in varies"


# -- Metropolis ------------------------------------------------------------------------------------


def test_metropolis_weighs_by_the_larger_degree_and_keeps_the_rest() -> None:
    # d_a = 3: b with 1 neighbour 1/4, c with 4 1/5, d with 9 1/10; the rest is .45
    town = Town(**EVERYONE_HERE, Degree={"b": 1, "c": 4, "d": 9})
    assert decide(Metropolis(), town).row == pytest.approx(
        {"a": 0.45, "b": 0.25, "c": 0.2, "d": 0.1}
    )
    silent = Town(Pull={"b": 5}, Degree={"b": 1, "c": 4})
    assert decide(Metropolis(), silent).row == pytest.approx({"a": 0.75, "b": 0.25})
    assert silent.peers(Pull) == [("b", "c")]


def test_metropolis_rows_and_columns_sum_to_one_on_any_graph_and_are_equal_on_a_full_one() -> None:
    topology = {"name": "erdos", "p": 0.5, "redraw": 1, "online": 0.8}
    simulation = simulate(tiny(strategy="metropolis", method="head", topology=topology))
    for _ in range(3):
        rows = simulation.round().rows
        columns = Counter[str]()
        for name, row in rows.items():
            columns.update(row)
            assert all(rows[j][name] == pytest.approx(weight) for j, weight in row.items())
        assert dict(columns) == pytest.approx(dict.fromkeys(rows, 1.0))
    full = simulate(tiny(strategy="metropolis")).round().rows
    assert full["peer-00"] == pytest.approx(dict.fromkeys(full, 1 / 6))


# -- all of them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"name": "fedsim", "of": "loss"}, "of"),
        ({"name": "pfedgraph", "lam": 0}, "lam"),
        ({"name": "fedamp", "own": 1.5}, "own"),
        ({"name": "l2c", "first_phase": 2}, "first_phase"),
        ({"name": "dpfl", "k": 0}, "k"),
        ({"name": "morph", "eps": -0.1}, "eps"),
        ({"name": "epidemic", "s": -1}, "s"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        tiny(strategy=options)


@pytest.mark.parametrize("name", ["fedsim", "pfedgraph", "fedamp", "morph"])
def test_looking_at_cosines_costs_the_models_and_no_pass(name: str) -> None:
    simulation = simulate(tiny(strategy={"name": name, "k": 2}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    for record in report.peers.values():
        assert (record.model_in, record.card_in, record.forward) == (2 * size, 0, 10)


def test_l2c_books_a_gradient_and_dpfl_two_passes_a_neighbour() -> None:
    held = {"validation": 0.2}
    config = tiny(strategy="l2c", partition=held)
    for record in simulate(config).round().peers.values():
        assert (record.forward, record.backward) == (8 + 2, 8 + 2)
    config = tiny(strategy="dpfl", partition=held)
    for record in simulate(config).round().peers.values():
        assert (record.forward, record.backward) == (8 + 2 * 2 * 6, 8)


@pytest.mark.parametrize("name", ["fedsim", "pfedgraph", "fedamp", "l2c"])
def test_rivals_weigh_their_own_group_more(name: str) -> None:
    """Peers of one group share labels: whoever weighs by what was learned must see it."""
    config = tiny(
        strategy=name,
        peers=10,
        rounds=12,
        partition={"name": "groups", "groups": 2, "samples": 20, "test": 30},
        train={"epochs": 2, "batch": 8, "lr": 0.05},
    )
    simulation = simulate(config)
    reports = [simulation.round() for _ in range(config.rounds)]
    assert reports[-1].network.auc > 0.8, "as the metrics see it"
    friends = others = 0.0
    for me, row in reports[-1].rows.items():
        for j, weight in row.items():
            if j != me:
                same = (int(me[-2:]) - int(j[-2:])) % 2 == 0
                friends, others = friends + weight * same, others + weight * (not same)
    assert friends > others


def test_morph_prefers_the_other_group() -> None:
    config = tiny(
        strategy={"name": "morph", "k": 3},
        peers=10,
        rounds=12,
        partition={"name": "groups", "groups": 2, "samples": 20, "test": 30},
        train={"epochs": 2, "batch": 8, "lr": 0.05},
    )
    simulation = simulate(config)
    precision = [simulation.round().network.precision for _ in range(config.rounds)]
    assert sum(precision[-4:]) / 4 < 0.35


def test_a_view_may_be_empty_for_all_of_them() -> None:
    for strategy in (FedSim(), PFedGraph(), FedAmp(), L2c(), Dpfl(), Morph(), Epidemic()):
        alone = replace(view(), neighbours=())
        plan: Any = strategy.decide(alone, {"a": 1.0})
        assert drive(plan, Town()).row == {"a": 1.0}
