"""Strategies that hear what others say (DAC, IFCA, Facade), and a head with a row of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import amity
from amity.core import Ask, Decision, Plan, Row, Share, View, chain, drive, follow
from amity.errors import RowError
from amity.facts import MOST_SAID, Loss, MixtureLoss, Pull, Said
from amity.peer.mixing import Mean, Median, check_decision, mix_parts
from amity.rng import rng
from amity.simulate import Simulation
from amity.strategies.dac import Dac
from amity.strategies.facade import Facade
from amity.strategies.ifca import Ifca
from tests.conftest import simulate, tiny
from tests.test_strategies import EVERYONE_HERE, Town, decide, view

NONSENSE: list[dict[str, Any]] = [
    {},
    {"cluster": math.nan, "d": math.nan},
    {"cluster": math.inf, "d": math.inf},
    {"cluster": -1.0, "d": -1.0},
    {"cluster": 0.5, "d": 0.0},
    {"cluster": 1e300, "nobody": 5.0, "a": 7.0},
]


# -- DAC -------------------------------------------------------------------------------------------


def test_dac_of_three_neighbours_by_hand() -> None:
    # d is away. s = 1 / loss: b 2, c 1. b is most like me, so what it says of d counts: 3, not 9.
    # Weights by examples: a 5, b 5, c 10.
    town = Town(
        Pull={"b": 5, "c": 10},
        Loss={"b": 0.5, "c": 1.0},
        Said={"b": {"d": 3.0, "c": 8.0, "a": 4.0}, "c": {"d": 9.0}},
    )
    decision = decide(Dac(), town)
    assert decision.row == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5})
    assert decision.memory == {"met": {"b": 2.0, "c": 1.0}, "heard": {"d": 3.0}}
    assert decision.says == {"d": 3.0, "b": 2.0, "c": 1.0}
    assert decision.scores == {"b": 2.0, "c": 1.0, "d": 3.0}
    assert decision.notes == {"tau": 1.0, "heard_of": 1.0}
    assert town.peers(Loss) == town.peers(Said) == [("b", "c")]
    equal = decide(Dac(weights="uniform"), town)
    assert equal.row == pytest.approx(dict.fromkeys("abc", 1 / 3))


def test_dac_believes_its_own_measurement_before_hearsay_and_the_next_teller_if_one_is_silent() -> (
    None
):
    memory = {"met": {"d": 0.5}, "heard": {}}
    said = {"b": {"d": 100.0}, "c": {"d": 9.0}}
    town = Town(Pull={"b": 5, "c": 5}, Loss={"b": 0.5, "c": 1.0}, Said=said)
    assert decide(Dac(), town, memory).memory["met"]["d"] == 0.5
    town.tables["Said"] = {"b": {}, "c": {"d": 9.0}}
    assert decide(Dac(), town).memory["heard"] == {"d": 9.0}
    # whom it meets at last is no hearsay any more
    town = Town(Pull={"d": 5}, Loss={"d": 2.0}, Said={})
    met = decide(Dac(), town, {"met": {}, "heard": {"d": 9.0}})
    assert met.memory == {"met": {"d": 0.5}, "heard": {}}


@pytest.mark.parametrize("says", NONSENSE)
def test_dac_hears_no_nonsense_and_uses_no_model_that_has_diverged(says: dict[str, Any]) -> None:
    losses = {"b": 1.0, "c": math.nan}
    town = Town(Pull={"b": 5, "c": 5}, Loss=losses, Said={"b": says})
    decision = decide(Dac(), town)
    assert decision.row == pytest.approx({"a": 0.5, "b": 0.5})
    assert decision.memory == {"met": {"b": 1.0}, "heard": {}}


def test_dacs_temperature_grows_from_one_to_a_plus_one() -> None:
    # 2a / (1 + e^(-0.2 t)) - a + 1 with a = 20: t = 0: 1; t = 5: 40 / 1.367879 - 19 = 10.2423
    assert Dac().temperature(0) == pytest.approx(1)
    assert Dac().temperature(5) == pytest.approx(10.2423, abs=1e-4)
    assert Dac().temperature(1000) == pytest.approx(21)
    assert Dac(growth=0).temperature(1000) == Dac(tau=0).temperature(9) == pytest.approx(1)
    assert Dac(growth=100).temperature(1) == pytest.approx(21)
    town = Town()
    assert decide(Dac(), town, round=6).notes["tau"] == pytest.approx(10.2423, abs=1e-4)


def drawn(strategy: Dac, memory: dict[str, Any], times: int) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for t in range(times):
        town, at = Town(), view(memory, round=1)
        at = View(**vars(at) | {"rng": rng(7, t)})
        drive(strategy.decide(at, {"a": 1.0}), town)
        found[town.peers(Pull)[0]] += 1
    return found


def test_dac_draws_by_the_softmax_of_similarities_without_replacement() -> None:
    # in round 1 τ = 1: weights e^s with s_b = ln 2, c and d unknown (1 each): b with chance 1/2
    memory = {"met": {"b": math.log(2)}, "heard": {}}
    one = drawn(Dac(k=1), memory, 2000)
    assert one[("b",)] / 2000 == pytest.approx(0.5, abs=0.04)
    assert one[("c",)] / 2000 == pytest.approx(0.25, abs=0.04)
    # two without replacement: {c, d} with chance 2 · 1/4 · 1/3 = 1/6
    two = drawn(Dac(k=2), memory, 2000)
    assert two[("c", "d")] / 2000 == pytest.approx(1 / 6, abs=0.03)


def test_dac_with_similarities_beyond_all_bounds_still_draws_k_others() -> None:
    memory = {"met": {"b": 1e6}, "heard": {"c": 1e308}}
    assert set(drawn(Dac(k=2, tau=1e6), memory, 20)) == {("b", "c")}
    assert set(drawn(Dac(k=3), memory, 5)) == {("b", "c", "d")}
    assert set(drawn(Dac(k=0), memory, 5)) == {()}


def test_dac_in_a_large_network_says_no_more_than_may_be_said() -> None:
    names = tuple(f"p{n:04d}" for n in range(MOST_SAID + 100))
    met = {j: 1.0 + n for n, j in enumerate(names)}
    decision = decide(Dac(), Town(), {"met": met, "heard": {}}, neighbours=names)
    assert set(decision.says) == set(names[100:]), "of those most like me"


# -- IFCA ------------------------------------------------------------------------------------------


def test_ifca_of_three_neighbours_by_hand() -> None:
    # I am in 0 with b, the others are in 1, whose mean does better on my data: I go there
    said = {"b": {"cluster": 0.0}, "c": {"cluster": 1.0}, "d": {"cluster": 1.0}}
    town = Town(**EVERYONE_HERE, Said=said, MixtureLoss=dict.fromkeys("abcd", (0.9, 0.4)))
    decision = decide(Ifca(), town, {"index": 0})
    assert decision.row == {"c": 0.5, "d": 0.5}
    assert decision.says == {"cluster": 1.0}
    assert decision.memory == {"index": 1}
    assert decision.notes == {"cluster": 1.0, "moved": 1.0}
    assert decision.scores == {"a": -0.9, "b": -0.9, "c": -0.4, "d": -0.4}
    halves = ((("a", 0.5), ("b", 0.5)), (("c", 0.5), ("d", 0.5)))
    assert town.asked[-1] == Ask(MixtureLoss(halves, "train"), ("a", "b", "c", "d"))
    town.tables["MixtureLoss"] = dict.fromkeys("abcd", (0.4, 0.4))
    stays = decide(Ifca(), town, {"index": 0})
    assert stays.row == {"a": 0.5, "b": 0.5}
    assert stays.notes["moved"] == 0.0


def test_ifca_in_the_first_round_draws_a_cluster_by_lot_and_stays_alone() -> None:
    town = Town(**EVERYONE_HERE, Said={j: {} for j in "bcd"})
    lots = set()
    for t in range(40):
        at = View(**vars(view()) | {"rng": rng(3, t)})
        decision = drive(Ifca().decide(at, {"a": 1.0}), town)
        assert decision.row == {"a": 1.0}
        assert decision.says == {"cluster": float(decision.memory["index"])}
        lots.add(decision.memory["index"])
    assert lots == {0, 1, 2, 3}


def test_ifca_takes_a_newcomer_into_the_cluster_that_fits_it() -> None:
    said = {"b": {"cluster": 0.0}, "c": {"cluster": 3.0}}
    town = Town(**EVERYONE_HERE, Said=said, MixtureLoss=dict.fromkeys("bc", (0.9, 0.4)))
    decision = decide(Ifca(), town)
    assert (decision.row, decision.memory) == ({"c": 1.0}, {"index": 3})


@pytest.mark.parametrize("says", NONSENSE)
@pytest.mark.parametrize("strategy", [Ifca(), Facade()])
def test_a_cluster_that_is_none_is_not_heard(strategy: Any, says: dict[str, Any]) -> None:
    town = Town(**EVERYONE_HERE, Said=dict.fromkeys("bcd", says))
    decision = decide(strategy, town, {"index": 2})
    assert decision.head in (None, {"a": 1.0})
    assert decision.row == ({"a": 1.0} if isinstance(strategy, Ifca) else spread_of("abcd"))
    assert decision.memory == {"index": 2}
    assert town.peers(MixtureLoss) == [], "nothing to choose from"


def spread_of(names: Collection[str]) -> dict[str, float]:
    return {j: 1 / len(names) for j in names}


@pytest.mark.parametrize("strategy", [Ifca(), Facade()])
@pytest.mark.parametrize("losses", [(math.nan, math.inf), ()])
def test_where_no_cluster_has_a_finite_loss_a_peer_keeps_its_own_model(
    strategy: Any, losses: tuple[float, ...]
) -> None:
    said = {"b": {"cluster": 1.0}}
    town = Town(**EVERYONE_HERE, Said=said, MixtureLoss=dict.fromkeys("abcd", losses))
    decision = decide(strategy, town, {"index": 0})
    assert (decision.row, decision.head) == ({"a": 1.0}, None)
    assert decision.says == {"cluster": 0.0}


def test_ifca_with_one_cluster_is_gossip_with_everyone_and_a_fraction_asks_fewer() -> None:
    town = Town(**EVERYONE_HERE, Said={j: {"cluster": 0.0} for j in "bcd"})
    assert decide(Ifca(clusters=1), town, {"index": 0}).row == spread_of("abcd")
    decide(Ifca(fraction=0.5), town, {"index": 0})
    assert len(town.peers(Said)[-1]) == 2
    assert Ifca(fraction=0.5).pulls(3) == 2
    assert Ifca().pulls(3) == 3


# -- Facade ----------------------------------------------------------------------------------------


def test_facade_of_three_neighbours_by_hand() -> None:
    # the body is everyone's, d has said no cluster; the head of 1 does better: c's alone
    said = {"b": {"cluster": 0.0}, "c": {"cluster": 1.0}, "d": {}}
    town = Town(**EVERYONE_HERE, Said=said, MixtureLoss=dict.fromkeys("abcd", (0.9, 0.4)))
    decision = decide(Facade(), town, {"index": 0})
    assert decision.row == spread_of("abcd")
    assert decision.head == {"c": 1.0}
    assert (decision.says, decision.memory) == ({"cluster": 1.0}, {"index": 1})
    body = tuple(spread_of("abcd").items())
    heads = ((("a", 0.5), ("b", 0.5)), (("c", 1.0),))
    assert town.asked[-1].fact == MixtureLoss((body, body), "train", heads)


def test_facade_keeps_its_head_in_the_first_round_and_shares_the_body() -> None:
    town = Town(**EVERYONE_HERE, Said={j: {} for j in "bcd"})
    decision = decide(Facade(), town)
    assert (decision.row, decision.head) == (spread_of("abcd"), {"a": 1.0})
    assert decide(Facade(k=0), Town(), {"index": 1}).row == {"a": 1.0}


def test_facade_mixes_the_body_with_all_and_the_head_with_its_cluster() -> None:
    simulation = simulate(
        tiny(strategy={"name": "facade", "clusters": 2}, peers=4, eval={"gradients_every": 0})
    )
    simulation.round()
    simulation.round()
    report = simulation.round()
    head, peers = simulation.world.learner.layout.head, simulation.peers
    mean = torch.stack([peer.trained for peer in peers.values()]).mean(0)
    index = {name: simulation.memories[name]["index"] for name in peers}
    for name, peer in peers.items():
        assert report.rows[name] == spread_of(peers)
        torch.testing.assert_close(peer.start[: head.start], mean[: head.start])
        friends = [other for other in peers if index[other] == index[name]]
        alike = all(torch.equal(peer.start[head], peers[j].start[head]) for j in friends)
        assert alike, "one cluster, one head"
    assert len({tuple(peer.start[head].tolist()) for peer in peers.values()}) == len(
        set(index.values())
    )


# -- all three in a world with two groups ----------------------------------------------------------


def grouped(strategy: dict[str, Any]) -> tuple[Simulation, list[amity.Report]]:
    """Eight peers, half of which call every digit d by the name 9 - d."""
    layers: dict[str, Any] = {
        "peers": 8,
        "rounds": 8,
        "attack": {"name": "label_flip", "fraction": 0.5},
        "partition": {"name": "iid", "samples": 50, "test": 50},
        "train": {"epochs": 2, "batch": 10, "lr": 0.1},
        "eval": {"gradients_every": 0},
    }
    simulation = simulate(tiny(strategy=strategy, **layers))
    return simulation, [simulation.round() for _ in range(8)]


@pytest.mark.parametrize("strategy", [{"name": "dac", "k": 2}, {"name": "ifca", "clusters": 2}])
def test_where_groups_disagree_everyone_finds_its_own(strategy: dict[str, Any]) -> None:
    simulation, reports = grouped(strategy)
    others = simulation.attackers
    for name, row in reports[-1].rows.items():
        assert {j in others for j in row} == {name in others}
        assert len(row) > 1


def test_where_groups_disagree_facade_gives_each_a_head_of_its_own() -> None:
    simulation, reports = grouped({"name": "facade", "clusters": 2})
    index = {name: reports[-1].peers[name].notes["cluster"] for name in simulation.names}
    groups = {index[name] for name in simulation.attackers}
    assert len(groups) == 1
    assert {index[name] for name in simulation.names if name not in simulation.attackers} == (
        {0.0, 1.0} - groups
    )


# -- a head with a row of its own ------------------------------------------------------------------

PART = slice(2, 4)


def shares(masks: dict[str, list[bool]] | None = None) -> dict[str, Share]:
    thetas = {"a": [1.0, 1.0, 1.0, 1.0], "b": [3.0, 3.0, 3.0, 3.0], "c": [8.0, 8.0, 8.0, 8.0]}
    return {
        j: Share(torch.tensor(t), torch.tensor(masks[j]) if masks else None)
        for j, t in thetas.items()
    }


def test_a_head_is_mixed_by_its_own_row() -> None:
    mixed = mix_parts(Mean(), {"a": 0.5, "b": 0.5}, {"a": 0.25, "c": 0.75}, shares(), PART)
    assert mixed.theta.tolist() == [2.0, 2.0, 6.25, 6.25]
    assert mixed.mask is None
    whole = mix_parts(Mean(), {"a": 0.5, "b": 0.5}, None, shares(), PART)
    assert whole.theta.tolist() == [2.0] * 4
    median = mix_parts(Median(), dict.fromkeys("abc", 1 / 3), {"c": 1.0}, shares(), PART)
    assert median.theta.tolist() == [3.0, 3.0, 8.0, 8.0]


def test_a_head_is_mixed_over_those_who_offer_it() -> None:
    masks = {"a": [True] * 4, "b": [True, False, True, False], "c": [False] * 4}
    mixed = mix_parts(Mean(), {"a": 0.5, "b": 0.5}, {"b": 0.5, "c": 0.5}, shares(masks), PART)
    assert mixed.mask is not None
    assert mixed.mask.tolist() == [True, True, True, False]
    assert mixed.theta[:3].tolist() == [2.0, 1.0, 3.0]


def test_a_mixer_that_hands_back_a_model_does_not_get_it_altered() -> None:
    @dataclass(frozen=True)
    class First:
        def mix(self, row: Row, shares: dict[str, Share]) -> Share:
            return shares[min(row)]

    models = shares()
    mixed = mix_parts(First(), {"a": 1.0}, {"b": 1.0}, models, PART)
    assert mixed.theta.tolist() == [1.0, 1.0, 3.0, 3.0]
    assert models["a"].theta.tolist() == [1.0] * 4


def test_the_row_of_a_head_must_be_a_row_and_stand_on_models_that_are_here() -> None:
    row = {"a": 1.0}
    check_decision(Decision(row, head={"a": 0.5, "b": 0.5}), "a", {"b"}, ())
    for head, what in (({"c": 1.0}, "never arrived"), ({"a": 0.5}, "sum to 0.5"), ({}, "sum to 0")):
        with pytest.raises(RowError, match=what):
            check_decision(Decision(row, head=head), "a", {"b"}, ())
    with pytest.raises(RowError, match="models from visits"):
        check_decision(Decision(row, head={"a": 0.5, "b": 0.5}), "a", {"b"}, {"b"})


def test_what_a_stage_does_to_the_row_is_done_to_the_head() -> None:
    before = {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}
    # c is dropped: of the head a has 1/2, b 1/2
    after = follow({"a": 0.25, "b": 0.25, "c": 0.5}, before, {"a": 0.5, "b": 0.5})
    assert after == pytest.approx({"a": 0.5, "b": 0.5})
    # b is halved, and a has the rest: 0.5 · 1 / 0.25 against 0.5 · 0.125 / 0.25
    after = follow({"a": 0.5, "b": 0.5}, before, {"a": 0.875, "b": 0.125})
    assert after == pytest.approx({"a": 0.875, "b": 0.125})
    assert follow({"c": 1.0}, before, {"a": 1.0}) == {"a": 1.0}, "nobody is left"


@dataclass(frozen=True)
class Drop(amity.Cardless):
    """A stage that drops one neighbour, and says so."""

    who: str

    def decide(self, view: View, row: Row) -> Plan:
        yield Ask(Pull(), ())
        kept = {j: weight for j, weight in row.items() if j != self.who}
        return Decision(amity.spread(kept), says={"dropped": 1.0})


def test_a_chain_says_what_its_stages_say_and_keeps_the_head() -> None:
    said = {"b": {"cluster": 0.0}, "c": {"cluster": 0.0}, "d": {}}
    town = Town(**EVERYONE_HERE, Said=said)
    decision = decide(chain(Facade(), Drop("c")), town, {"0": {"index": 0}})
    assert decision.says == {"cluster": 0.0, "dropped": 1.0}
    assert decision.row == pytest.approx(dict.fromkeys("abd", 1 / 3))
    assert decision.head == pytest.approx({"a": 0.5, "b": 0.5})


def test_losses_of_mixtures_with_heads_of_their_own() -> None:
    simulation = simulate(tiny(strategy={"name": "local"}, peers=3, eval={"gradients_every": 0}))
    simulation.round()
    simulation.shard.train(simulation.names, 1, None)
    me, b, c = simulation.names
    rows = (((me, 0.5), (b, 0.5)),) * 2
    heads = (((me, 0.5), (b, 0.5)), ((c, 1.0),))
    fact = MixtureLoss(rows, "train", heads)
    plain, other = simulation.shard.measure(me, fact, (me, b, c), 1).values[0]
    learner, peers = simulation.world.learner, simulation.peers
    theta = (peers[me].trained + peers[b].trained) / 2
    data = peers[me].examples("train")
    assert plain == pytest.approx(learner.loss(theta, data), rel=1e-5)
    theta[learner.layout.head] = peers[c].trained[learner.layout.head]
    assert other == pytest.approx(learner.loss(theta, data), rel=1e-5)
    gone = MixtureLoss(rows, "train", (heads[0], (("nobody", 1.0),)))
    assert math.isnan(simulation.shard.measure(me, gone, (me, b), 1).values[0][1])
