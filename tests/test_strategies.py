"""What each strategy is for: the choice it makes, and what it costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from amity.core import START, Answers, Ask, Decision, View, drive
from amity.facts import Loss, Losses, Pull, Reading, Reported, Similarity, Visit
from amity.rng import rng
from amity.strategies.afind import Afind
from amity.strategies.federico import Federico
from amity.strategies.pens import Pens
from tests.conftest import simulate, tiny

NAMES = ("a", "b", "c", "d")


class Town:
    """Answers asks of peer `a` from tables, and remembers them."""

    def __init__(self, **tables: dict[str, Any]) -> None:
        self.tables, self.asked = {"Reported": {"a": Losses(1.0, 1.0)}} | tables, list[Ask]()

    def __call__(self, ask: Ask) -> Answers:
        self.asked.append(ask)
        table = self.tables.get(type(ask.fact).__name__, {})
        return {j: table[j] for j in ask.peers if j in table}

    def peers(self, fact: type) -> list[tuple[str, ...]]:
        return [ask.peers for ask in self.asked if isinstance(ask.fact, fact)]


def view(
    memory: Any = None, round: int = 0, rounds: int = 10, neighbours: tuple[str, ...] = NAMES[1:]
) -> View:
    return View(
        me="a",
        round=round,
        rounds=rounds,
        neighbours=neighbours,
        examples=5,
        card=None,
        rng=rng(0, round),
        common_rng=rng(0, round),
        memory=memory or {},
    )


def decide(strategy: Any, town: Town, memory: Any = None, **where: Any) -> Decision:
    return drive(strategy.decide(view(memory, **where), {"a": 1.0}), town)


EVERYONE_HERE = {"Pull": dict.fromkeys("bcd", 5)}


def test_afind_plus_of_three_neighbours_by_hand() -> None:
    # Cards: s = (1, 0, 0), υ = 1/ln 2: exp(s/υ) = (2, 1, 1), so p = (.5, .25, .25). θ = .5/(1 +
    # 2^1.5) = .1306: all pass
    # with τ = .5; with τ = 1.2, θ = .3134 and only b passes. Losses after training (a .5, b .5):
    # equal weights.
    town = Town(
        **EVERYONE_HERE,
        Similarity={"b": 1.0, "c": 0.0, "d": 0.0},
        Loss={"a": 0.5, "b": 0.5, "c": 1.0, "d": 1.0},
    )
    common: dict[str, Any] = {
        "upsilon": 1.4426950408889634,
        "reprobe": "all",
        "loss_side": "requester",
        "gamma": 0.0,
    }
    few = decide(Afind(tau=1.2, **common), town)
    assert few.notes["theta"] == pytest.approx(1.2 / 3.828427, abs=1e-6)
    assert few.row == pytest.approx({"a": 0.5, "b": 0.5})
    all_of_them = decide(Afind(tau=0.5, **common), town)
    # exp(-.5) = .606531 twice, exp(-1) = .367879 twice: sum 1.948820
    assert all_of_them.row == pytest.approx(
        {"a": 0.311230, "b": 0.311230, "c": 0.188770, "d": 0.188770}, abs=1e-6
    )
    assert all_of_them.memory["p"] == pytest.approx({"b": 0.5, "c": 0.25, "d": 0.25})


def test_as_printed_the_neighbours_own_losses_weigh_with_gamma_between_before_and_after() -> None:
    losses = {
        "a": Losses(2.0, 1.0),
        "b": Losses(1.0, 1.0),
        "c": Losses(1.0, 1.0),
        "d": Losses(1.0, 1.0),
    }
    for gamma, mine in ((0.0, 1.0), (1.0, 2.0), (0.5, 1.5)):
        town = Town(**EVERYONE_HERE, Similarity=dict.fromkeys("bcd", 0.0), Reported=losses)
        row = decide(Afind(gamma=gamma), town).row
        expected = 2.718281828 ** -(mine - 1.0)
        assert row["a"] / row["b"] == pytest.approx(expected, rel=1e-6)


def test_the_first_round_takes_everyone_and_later_rounds_probe_again_every_r() -> None:
    strategy = Afind(tau=1.0, reprobe_every=3)
    town = Town(
        **EVERYONE_HERE,
        Similarity={"b": 0.9, "c": -0.9, "d": -0.9},
        Reported=dict.fromkeys("abcd", Losses(1, 1)),
    )
    memory: Any = {}
    for t in range(4):
        memory = decide(strategy, town, memory, round=t).memory
    assert town.peers(Pull) == [("b", "c", "d"), ("b",), ("b",), ("b",)]
    assert town.peers(Similarity) == [("b", "c", "d"), ("b",), ("b",), ("b", "c", "d")]


def test_with_coreset_refresh_only_the_excluded_never_return() -> None:
    strategy = Afind(tau=1.0, reprobe="coreset")
    reported = dict.fromkeys("abcd", Losses(1, 1))
    town = Town(**EVERYONE_HERE, Similarity={"b": 0.9, "c": -0.9, "d": -0.9}, Reported=reported)
    memory = decide(strategy, town).memory
    better = Town(**EVERYONE_HERE, Similarity={"b": 0.1, "c": 0.9, "d": 0.9}, Reported=reported)
    for t in range(1, 20):
        memory = decide(strategy, better, memory, round=t).memory
    assert set(better.peers(Pull)) == {("b",)}


def test_nobody_admitted_keeps_my_own_model_and_the_notebook() -> None:
    town = Town(
        **EVERYONE_HERE,
        Similarity=dict.fromkeys("bcd", 0.5),
        Reported=dict.fromkeys("abcd", Losses(1, 1)),
    )
    strategy = Afind(tau=3.0)
    first = decide(strategy, town)
    second = decide(strategy, town, first.memory, round=1)
    assert second.row == {"a": 1.0}
    assert second.memory == first.memory
    least = decide(Afind(tau=3.0, min_neighbours=2), town, first.memory, round=1).row
    assert "a" in least
    assert len(least) == 3  # two of the three, who are equal: by lot


def test_without_self_a_crowd_replaces_my_model_and_a_few_do_not() -> None:
    crowd = tuple("bcdef")
    for admitted, row in (
        (5, dict.fromkeys("bcdef", 0.2)),
        (4, dict.fromkeys("bcde", 0.25)),
        (3, dict.fromkeys("abcd", 0.25)),
    ):
        similar = {j: 0.9 if at < admitted else -0.9 for at, j in enumerate(crowd)}
        town = Town(
            Pull=dict.fromkeys(crowd, 5), Similarity=similar, Loss=dict.fromkeys("abcdef", 1.0)
        )
        strategy = Afind(tau=0.5, reprobe="all", loss_side="requester", include_self=False)
        assert decide(strategy, town, neighbours=crowd).row == pytest.approx(row)
    visited = Town(Visit=dict.fromkeys("b", Reading(0.9, Losses(1.0, 1.0))))
    alone = Afind(protocol="visit", include_self=False)
    assert decide(alone, visited, neighbours=("b",)).row == {"b": 1.0}, (
        "a copy of mine, trained by a friend"
    )


def test_bounds_on_neighbours_and_similarity_hold() -> None:
    similar = {"b": 0.9, "c": 0.8, "d": 0.7}
    town = Town(**EVERYONE_HERE, Similarity=similar, Loss=dict.fromkeys("abcd", 1.0))
    common: dict[str, Any] = {
        "reprobe": "all",
        "loss_side": "requester",
        "tau": 0.01,
        "upsilon": 1.0,
    }
    assert decide(Afind(max_neighbours=2, **common), town).row.keys() == {"a", "b", "c"}
    assert decide(Afind(min_similarity=0.85, **common), town).row.keys() == {"a", "b"}
    assert decide(Afind(threshold="fixed_k", k=1, **common), town).row.keys() == {"a", "b"}


def test_neighbours_are_drawn_by_their_probability() -> None:
    # s = (1, 0, 0) and υ = 1/ln 2: p = (.5, .25, .25), as above
    town = Town(**EVERYONE_HERE, Similarity={"b": 1.0, "c": 0.0, "d": 0.0})
    strategy = Afind(
        tau=0.01,
        upsilon=1.4426950408889634,
        reprobe="all",
        ablation="i+ii",
        max_neighbours=1,
        cut="draw",
    )
    # of me and the one who was drawn
    drawn = Counter(max(decide(strategy, town, round=t).row) for t in range(2000))
    assert {j: n / 2000 for j, n in drawn.items()} == pytest.approx(
        {"b": 0.5, "c": 0.25, "d": 0.25}, abs=0.04
    )


def test_exploring_takes_some_of_those_who_were_not_admitted() -> None:
    town = Town(**EVERYONE_HERE, Similarity={"b": 0.9, "c": -0.9, "d": -0.9})
    strategy = Afind(tau=1.0, reprobe="all", ablation="i+ii", explore=1)
    rows = [decide(strategy, town, round=t).row for t in range(40)]
    assert {tuple(sorted(row)) for row in rows} == {("a", "b", "c"), ("a", "b", "d")}


def test_ablation_switches_follow_table_2() -> None:
    tables: dict[str, Any] = {
        "Similarity": {"b": 0.9, "c": 0.8, "d": -0.9},
        "Loss": {"a": 0.0, "b": 1.0, "c": 2.0, "d": 3.0},
    }
    common: dict[str, Any] = {
        "reprobe": "all",
        "loss_side": "requester",
        "tau": 0.5,
        "gamma": 0.0,
        "k": 3,
    }
    only_i = decide(Afind(ablation="i", **common), Town(**EVERYONE_HERE, **tables))
    assert only_i.row == pytest.approx(dict.fromkeys("abcd", 0.25))
    i_ii = decide(Afind(ablation="i+ii", **common), Town(**EVERYONE_HERE, **tables))
    assert i_ii.row == pytest.approx(dict.fromkeys("abc", 1 / 3))
    full = decide(Afind(ablation="i+ii+iii", **common), Town(**EVERYONE_HERE, **tables))
    assert full.row["a"] > full.row["b"] > full.row["c"]


def test_similarity_is_averaged_over_rounds() -> None:
    strategy = Afind(average=0.8, reprobe="all", loss_side="requester")
    memory: Any = {}
    for s in (1.0, 0.0):
        town = Town(
            **EVERYONE_HERE, Similarity=dict.fromkeys("bcd", s), Loss=dict.fromkeys("abcd", 1.0)
        )
        memory = decide(strategy, town, memory).memory
    assert memory["s"]["b"] == pytest.approx(0.8)


def test_smoothing_across_rounds_remembers_losses() -> None:
    strategy = Afind(smoothing="across", gamma=0.5, reprobe="all", loss_side="requester")
    memory: Any = {}
    for loss in (1.0, 3.0):
        town = Town(
            **EVERYONE_HERE, Similarity=dict.fromkeys("bcd", 0.5), Loss=dict.fromkeys("abcd", loss)
        )
        memory = decide(strategy, town, memory).memory
    assert memory["loss"]["b"] == pytest.approx(2.0)


def test_an_absent_neighbour_is_not_chosen_and_keeps_its_probability() -> None:
    strategy = Afind(reprobe="all", loss_side="requester", tau=0.1)
    town = Town(
        **EVERYONE_HERE, Similarity={"b": 0.9, "c": 0.1, "d": 0.5}, Loss=dict.fromkeys("abcd", 1.0)
    )
    first = decide(strategy, town)
    second = decide(strategy, town, first.memory, round=1, neighbours=("b", "d"))
    assert "c" not in second.row
    assert second.memory["p"]["c"] == first.memory["p"]["c"]


def test_in_visit_mode_each_chosen_neighbour_is_visited_and_the_loss_is_at_my_model() -> None:
    visits = {j: Reading(0.5, Losses(1.0, 0.5)) for j in "bcd"}
    town = Town(Visit=visits, Reported={"a": Losses(1.0, 0.5)})
    row = decide(Afind(protocol="visit"), town).row
    assert town.peers(Visit) == [("b", "c", "d")]
    assert not town.peers(Pull)
    assert town.peers(Reported) == [("a",)]
    assert row == pytest.approx(dict.fromkeys("abcd", 0.25))


def test_a_visit_trains_a_scratch_copy_and_leaves_the_host_alone() -> None:
    unmeasured = {"gradients_every": 0}  # the theorem's gradients would take the place of `trained`
    plain = simulate(tiny(strategy={"name": "local"}, method={"name": "head"}, eval=unmeasured))
    options = {"name": "afind+", "preset": "paper", "protocol": "visit"}
    visited = simulate(tiny(strategy=options, method={"name": "head"}, eval=unmeasured))
    plain.round()
    report = visited.round()
    for name, peer in visited.peers.items():
        assert torch.equal(peer.trained, plain.peers[name].trained)
        record = report.peers[name]
        layout = visited.world.learner.layout
        # the numbers, and a bit a coordinate for the mask
        body = 4 * layout.head.start + (layout.size + 7) // 8
        # Five neighbours: a model to each and one back, and as a host the same again.
        assert record.model_in == record.model_out == 10 * body


def test_gossip_moves_k_models_and_nothing_else() -> None:
    simulation = simulate(tiny(strategy={"name": "gossip", "k": 2}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    for record in report.peers.values():
        assert (record.model_in, record.card_in, record.reply_in) == (2 * size, 0, 0)
        assert record.forward == record.backward == 10
    moved = [sum(r.value(key) for r in report.peers.values()) for key in ("model_in", "model_out")]
    assert moved[0] == moved[1]


def test_cards_cost_little_and_a_model_that_is_here_does_not_move_again() -> None:
    simulation = simulate(tiny(strategy={"name": "afind+", "tau": 1e-6, "sketch": 32}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    for record in report.peers.values():
        assert record.card_in == 5 * (4 * 32 + 16)
        assert record.model_in == 5 * size


def test_fedavg_is_one_model_for_all_weighted_by_examples() -> None:
    simulation = simulate(tiny(strategy={"name": "fedavg"}, topology={"name": "ring"}))
    report = simulation.round()
    models = [peer.start for peer in simulation.peers.values()]
    assert all(torch.equal(models[0], model) for model in models)
    assert report.rows["peer-00"] == pytest.approx(dict.fromkeys(simulation.names, 1 / 6))


def test_a_fedavg_sample_is_the_same_for_everyone_and_changes_from_round_to_round() -> None:
    simulation = simulate(tiny(strategy={"name": "fedavg", "fraction": 0.34}))
    samples = []
    for _ in range(3):
        rows = simulation.round().rows
        assert len({tuple(sorted(row)) for row in rows.values()}) == 1
        samples.append(tuple(rows["peer-00"]))
    assert len(set(samples)) > 1


def test_pens_counts_against_chance_then_gossips_with_its_friends_only() -> None:
    strategy = Pens(sampled=3, top=1, k=2, first_phase=0.5)
    town = Town(**EVERYONE_HERE, Loss={"b": 0.1, "c": 0.9, "d": 0.9})
    memory: Any = {}
    for t in range(4):
        decision = decide(strategy, town, memory, round=t, rounds=8)
        assert decision.row == pytest.approx({"a": 0.5, "b": 0.5})
        memory = decision.memory
    assert memory == {"selected": {"b": 4}, "expected": pytest.approx(dict.fromkeys("bcd", 4 / 3))}
    assert decide(strategy, town, memory, round=4, rounds=8).row == pytest.approx(
        {"a": 0.5, "b": 0.5}
    )


def test_pens_without_friends_falls_back_to_everyone() -> None:
    memory = {"selected": {}, "expected": dict.fromkeys("bcd", 1.0)}
    decision = decide(Pens(first_phase=0.0), Town(**EVERYONE_HERE), memory)
    assert decision.row.keys() == set("abcd")


def test_federico_remembers_losses_by_moving_average() -> None:
    strategy = Federico(k=3, eps=0.0, b=0.5)
    first = decide(strategy, Town(Loss={"a": 1.0, "b": 1.0, "c": 2.0, "d": 3.0}))
    second = decide(strategy, Town(Loss={"a": 1.0, "b": 3.0, "c": 2.0, "d": 3.0}), first.memory)
    assert second.memory["loss"] == pytest.approx({"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0})
    # exp(-L̂), with the smallest subtracted: 1, e^-1, e^-1, e^-2
    assert second.row["b"] / second.row["a"] == pytest.approx(0.367879, abs=1e-6)


def test_federico_prefers_the_best_and_explores_with_eps() -> None:
    memory = {"loss": {"b": 0.1, "c": 5.0, "d": 4.0}}
    greedy, curious = (Town(Loss=dict.fromkeys("abcd", 1.0)) for _ in range(2))
    decide(Federico(k=1, eps=0.0), greedy, memory)
    assert greedy.peers(Loss) == [("a", "b")]
    for t in range(30):
        decide(Federico(k=1, eps=1.0), curious, memory, round=t)
    assert set(curious.peers(Loss)) == {("a", "b"), ("a", "c"), ("a", "d")}


def test_the_oracle_takes_those_with_my_labels() -> None:
    simulation = simulate(
        tiny(strategy={"name": "oracle"}, partition={"name": "groups", "groups": 2, "samples": 10})
    )
    rows = simulation.round().rows
    assert rows["peer-00"].keys() == {"peer-00", "peer-02", "peer-04"}


@pytest.mark.parametrize("spec", ["afind+:tuned", "afind+:paper", "pens", "federico"])
def test_two_groups_find_each_other(spec: str) -> None:
    """Peers of one group share labels; the choice of the last rounds must be far above chance."""
    name, _, preset = spec.partition(":")
    options: dict[str, Any] = {"name": name}
    options |= {"preset": preset} if preset else {"k": 4}
    config = tiny(
        strategy=options,
        peers=10,
        rounds=12,
        partition={"name": "groups", "groups": 2, "samples": 20, "test": 30},
        train={"epochs": 2, "batch": 8, "lr": 0.05},
    )
    simulation = simulate(config)
    reports = [simulation.round().network for _ in range(config.rounds)]
    precision = sum(r.precision for r in reports[-4:]) / 4
    assert reports[0].base_rate == pytest.approx(4 / 9)
    assert precision > 0.7
    # whose similarities of those it does not take are up to ten rounds old
    if spec != "afind+:paper":
        assert reports[-1].auc > 0.8


def test_as_printed_the_first_round_visits_everyone_with_the_whole_proxy() -> None:
    simulation = simulate(tiny(strategy={"name": "afind+", "preset": "literal"}, peers=8))
    report = simulation.round()
    layer = simulation.world.learner.layout.proxy
    for name, record in report.peers.items():
        assert record.taken == 7
        assert record.card_in == 7 * (4 * (layer.stop - layer.start) + 16)
        assert name not in report.rows[name]


def test_a_neighbour_that_diverged_is_never_preferred_used_or_remembered() -> None:
    losses = {"a": 1.0, "b": float("nan"), "c": 2.0, "d": 1.0}
    assert decide(Pens(sampled=3, top=1), Town(Loss=losses)).row.keys() == {"a", "d"}
    across = Afind(reprobe="all", loss_side="requester", smoothing="across")
    noted = decide(across, Town(**EVERYONE_HERE, Similarity=dict.fromkeys("bcd", 0.5), Loss=losses))
    assert noted.row.keys() == noted.memory["loss"].keys() == {"a", "c", "d"}
    federico = decide(Federico(k=3), Town(Loss=losses))
    assert federico.row.keys() == {"a", "c", "d"}
    assert "b" not in federico.memory["loss"]
    assert decide(Federico(k=3), Town(Loss=dict.fromkeys("abcd", float("inf")))).row == {"a": 1.0}


def test_ties_are_broken_by_lot_not_by_name() -> None:
    same = {"Similarity": dict.fromkeys("bcd", 0.5), "Loss": dict.fromkeys("abcd", 1.0)}
    first, second = set(), set()
    for t in range(30):
        town = Town(**EVERYONE_HERE, **same)
        decide(Federico(k=1, eps=0.0), town, round=t)
        first |= set(town.peers(Loss))
        row = decide(
            Afind(reprobe="all", loss_side="requester", max_neighbours=1),
            Town(**EVERYONE_HERE, **same),
            round=t,
        ).row
        second |= row.keys() - {"a"}
    assert len(first) == 3
    assert second == {"b", "c", "d"}


def test_without_the_threshold_k_are_taken_from_the_first_round_on() -> None:
    town = Town(**EVERYONE_HERE, Similarity=dict.fromkeys("bcd", 0.5))
    decide(Afind(ablation="i", k=2), town)
    assert [len(peers) for peers in town.peers(Pull)] == [2]


def test_a_peer_that_missed_the_probe_makes_up_for_it() -> None:
    strategy = Afind(reprobe_every=5)
    town = Town(
        **EVERYONE_HERE,
        Similarity=dict.fromkeys("bcd", 0.5),
        Reported=dict.fromkeys("abcd", Losses(1, 1)),
    )
    memory = decide(strategy, town).memory
    memory = decide(strategy, town, memory, round=5, neighbours=()).memory
    assert memory["probed"] == 0
    assert decide(strategy, town, memory, round=6).memory["probed"] == 6


def test_a_newcomer_starts_with_the_mean_probability_of_those_known() -> None:
    town = Town(**EVERYONE_HERE, Similarity={"b": 0.9, "c": 0.1}, Loss=dict.fromkeys("abcd", 1.0))
    strategy = Afind(reprobe="all", loss_side="requester")
    memory = decide(strategy, town, neighbours=("b", "c")).memory
    quiet = Town(**EVERYONE_HERE, Loss=dict.fromkeys("abcd", 1.0))
    assert decide(strategy, quiet, memory, round=1).memory["p"]["d"] == pytest.approx(0.5)


def test_fedavg_moves_what_a_server_would_move() -> None:
    simulation = simulate(tiny(strategy={"name": "fedavg", "fraction": 0.34}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    assert {record.model_in for record in report.peers.values()} == {size}
    assert sum(record.model_out for record in report.peers.values()) == 2 * size


def test_a_lost_answer_still_costs_its_sender() -> None:
    simulation = simulate(tiny(strategy={"name": "gossip"}, topology={"drop": 1.0}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    for record in report.peers.values():
        assert (record.model_in, record.model_out) == (0, 5 * size)


def test_probing_everyone_and_visiting_some_sends_my_model_only_once() -> None:
    simulation = simulate(tiny(strategy={"name": "afind+", "protocol": "visit", "tau": 1e-6}))
    report = simulation.round()
    size = 4 * simulation.world.learner.layout.size
    for record in report.peers.values():
        # mine to five neighbours, and five trained guests back
        assert record.model_out == 10 * size


def test_start_is_a_model_that_may_stand_in_a_row() -> None:
    from dataclasses import dataclass

    from amity.choosing import Cardless
    from amity.core import Plan, Row

    @dataclass(frozen=True)
    class Stubborn(Cardless):
        def decide(self, view: View, row: Row) -> Plan:
            yield from ()
            return Decision({START: 1.0})

        def pulls(self, neighbours: int) -> float:
            return 0

    simulation = simulate(tiny())
    simulation.decider = Stubborn()
    before = {name: peer.start.clone() for name, peer in simulation.peers.items()}
    simulation.round()
    assert all(torch.equal(before[name], peer.start) for name, peer in simulation.peers.items())
