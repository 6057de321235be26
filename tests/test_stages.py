"""Stages and mixers against the few lines that define them, and in every kind of company."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.config import load, resolve
from amity.core import START, Answers, Ask, Decision, Share, Strategy, View, chain, drive
from amity.errors import ConfigError, StrategyError
from amity.facts import Distance, Distances, Loss, Pull, Similarity
from amity.peer.mixing import Median, Trimmed, mix
from amity.rng import rng
from amity.stages import stages
from amity.stages.fomo import FomoStage, first_order, row_of
from amity.stages.krum import Krum, krum_scores
from amity.stages.lossgate import LossGate
from amity.stages.normclip import NormClip
from amity.stages.simgate import SimilarityGate
from amity.strategies.fomo import Fomo
from amity.strategies.gossip import Gossip
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, simulate, spec_id, tiny
from tests.test_every_strategy import check

STAGES = [entry.name for entry in stages]


def view(neighbours: tuple[str, ...] = ("b", "c", "d"), round: int = 0, memory: Any = None) -> View:
    return View("a", round, 10, neighbours, 5, None, rng(0), rng(1), memory or {})


def answered(stage: Strategy, row: dict[str, float], facts: dict[type, Any]) -> Decision:
    """A stage's decision, with answers by kind of fact (and, for distances, by what they are
    from)."""

    def answer(ask: Ask) -> Answers:
        found = facts[type(ask.fact)]
        found = found[ask.fact.of] if isinstance(ask.fact, Distance) else found
        return {j: found[j] for j in ask.peers if j in found}

    return drive(stage.decide(view(), row), answer)


# -- FedFomo ---------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 5), min_size=2, max_size=6),
    st.lists(st.floats(0.01, 9), min_size=6, max_size=6),
)
def test_fomo_weights_are_gain_by_distance(losses: list[float], apart: list[float]) -> None:
    base, *others = losses
    names = "abcdef"[: len(others)]
    got = first_order(
        {START: base} | dict(zip(names, others, strict=True)),
        dict(zip("abcdef", apart, strict=True)),
    )
    omega = (base - np.array(others)) / np.array(apart[: len(others)])
    assert [got[j] for j in names] == pytest.approx(omega.tolist())
    row = row_of(got)
    if (omega > 0).any():
        plus = omega.clip(0)
        assert row == pytest.approx(
            {j: w for j, w in zip(names, (plus / plus.sum()).tolist(), strict=True) if w > 0}
        )
    else:
        assert row == {START: 1.0}


def test_fomo_gives_copies_and_worse_models_nothing_and_keeps_the_base_if_all_are_worse() -> None:
    facts: dict[type, Any] = {
        Loss: {"a": 0.8, START: 1.0, "b": 1.0, "c": 2.0, "d": 0.5},
        Distance: {"start": {"a": 1.0, START: 0.0, "b": 0.0, "c": 1.0, "d": 2.0}},
    }
    row = answered(FomoStage(), {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}, facts).row
    assert row == pytest.approx({"a": 0.2 / 0.45, "d": 0.25 / 0.45})
    facts[Loss] |= {"a": 1.5, "d": 1.1}
    assert answered(FomoStage(), {"a": 0.5, "d": 0.5}, facts).row == {START: 1.0}
    facts[Loss]["d"] = math.nan
    assert answered(FomoStage(), {"a": 0.5, "d": 0.5}, facts).row == {START: 1.0}


def test_fomo_multiplies_the_weights_of_the_stage_before_where_that_is_asked_for() -> None:
    facts: dict[type, Any] = {
        Loss: {"a": 0.5, START: 1.0, "b": 0.5},
        Distance: {"start": {"a": 1.0, START: 0.0, "b": 1.0}},
    }
    row = answered(FomoStage(multiply=True), {"a": 0.75, "b": 0.25}, facts).row
    assert row == pytest.approx({"a": 0.75, "b": 0.25})


def test_where_fomo_finds_all_models_worse_the_peer_goes_on_from_the_start_of_the_round() -> None:
    simulation = simulate(tiny(strategy="gossip", stages="fomo", method="finetune"))
    before = {name: peer.start.clone() for name, peer in simulation.peers.items()}
    simulation.decider = chain(Gossip(), AllWorse())
    simulation.round()
    for name, peer in simulation.peers.items():
        assert torch.equal(peer.start, before[name])


class AllWorse(FomoStage):
    def decide(self, view: View, row: Any) -> Any:
        omega = yield Ask(Loss("validation"), (view.me, START))
        return Decision(row_of({j: -value for j, value in omega.items() if j != START}))


def test_fomo_alone_sums_up_affinity_of_those_asked_only_and_prefers_them() -> None:
    asked: list[tuple[str, ...]] = []

    def answer(ask: Ask) -> Answers:
        if isinstance(ask.fact, Pull):
            asked.append(ask.peers)
            return dict.fromkeys(ask.peers, 5)
        if isinstance(ask.fact, Loss):
            return {j: {"c": 0.2, START: 1.0}.get(j, 0.9) for j in ask.peers}
        return dict.fromkeys(ask.peers, 2.0)

    strategy = Fomo(k=1, eps=0.0)
    memory: Any = {"affinity": {"c": 0.1}}
    for _ in range(3):
        decision = drive(strategy.decide(view(memory=memory), {"a": 1.0}), answer)
        memory = decision.memory
    assert asked == [("c",)] * 3
    assert memory == {"affinity": {"c": pytest.approx(0.1 + 3 * 0.8 / 2)}}
    explore = Fomo(k=2, eps=1.0, decay=0.0)
    drive(explore.decide(view(memory=memory), {"a": 1.0}), answer)
    assert len(asked[-1]) == 2


def test_fomo_holds_a_tenth_out_unless_the_partition_says_how_many() -> None:
    assert resolve([{"strategy": "gossip", "stages": "fomo"}]).partition.instance.validation == 0.1
    assert resolve([{"strategy": "fomo"}]).partition.instance.validation == 0.1
    assert (
        resolve(
            [{"strategy": "fomo", "partition": {"validation": 0.3}}]
        ).partition.instance.validation
        == 0.3
    )
    assert resolve([{"strategy": "gossip"}]).partition.instance.validation == 0
    simulation = simulate(tiny(strategy="gossip", stages="fomo", partition={"samples": 20}))
    peer = simulation.peers["peer-00"]
    assert len(peer.data.validation) == 2
    assert torch.equal(peer.examples("validation").index, peer.data.validation.index)


# -- defences --------------------------------------------------------------------------------------


def test_krum_on_a_worked_example() -> None:
    """Five models on a line at 0, 1, 2, 3 and 100, one of them bad: n − f − 2 = 2 closest count."""
    at = {"a": 0.0, "b": 1.0, "c": 2.0, "d": 3.0, "e": 100.0}
    distances = {j: {k: abs(at[j] - at[k]) for k in at} for j in at}
    scores = krum_scores(distances, 1)
    assert scores == {"a": 1 + 4, "b": 1 + 1, "c": 1 + 1, "d": 1 + 4, "e": 97**2 + 98**2}
    facts = {Distances: distances}
    row = dict.fromkeys("abcde", 0.2)
    assert answered(Krum(attackers=0.2), row, facts).row == pytest.approx(
        dict.fromkeys("abcd", 0.25)
    )
    # b, and mine
    assert answered(Krum(attackers=0.2, keep=1), row, facts).row == pytest.approx(
        {"a": 0.5, "b": 0.5}
    )
    assert answered(Krum(attackers=0.0), row, facts).row == pytest.approx(row)


def test_norm_clipping_is_the_clipped_average_written_as_a_row() -> None:
    draw = np.random.default_rng(0)
    models = {j: draw.normal(size=7) * scale for j, scale in (("a", 1), ("b", 1), ("c", 30))}
    weights, bound = {"a": 0.5, "b": 0.3, "c": 0.2}, 4.0
    apart = {j: float(np.linalg.norm(models[j] - models["a"])) for j in models}
    row = answered(NormClip(clip=bound), weights, {Distance: {"trained": apart}}).row
    expected = models["a"] + sum(
        weights[j] * min(1, bound / apart[j]) * (models[j] - models["a"])
        for j in "bc"
        if apart[j] > 0
    )
    assert sum(row[j] * models[j] for j in row) == pytest.approx(expected)
    assert sum(row.values()) == pytest.approx(1)
    auto = answered(
        NormClip(factor=2.0), weights, {Distance: {"trained": apart, "start": {"a": 2.0}}}
    ).row
    assert auto == pytest.approx(row)


def test_gates_drop_whoever_is_past_them_and_whoever_does_not_answer() -> None:
    row = {"a": 0.4, "b": 0.2, "c": 0.2, "d": 0.2}
    similar = answered(SimilarityGate(least=0.1), row, {Similarity: {"b": 0.1, "c": 0.05}}).row
    assert similar == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    losses = {
        "a": 0.5,
        START: 1.5,
        "b": 1.5,
        "c": 1.51,
        "d": math.nan,
    }  # the bar is 1.5 · (1.5 + 0.5) / 2
    assert answered(LossGate(factor=1.5), row, {Loss: losses}).row == pytest.approx(
        {"a": 2 / 3, "b": 1 / 3}
    )
    strict = answered(LossGate(factor=0.1), {"b": 0.5, "c": 0.5}, {Loss: losses}).row
    assert strict == {"a": 1.0}


# -- facts behind them -----------------------------------------------------------------------------


def test_distances_and_losses_are_of_the_models_as_this_peer_would_have_them() -> None:
    simulation = simulate(tiny(method="head", strategy="gossip", engine={"vectorise": "off"}))
    simulation.round()
    shard, me = simulation.shard, simulation.peers["peer-00"]
    shard.train(("peer-00",), 1, None)
    shard.train(("peer-01",), 1, None)
    body = simulation.world.learner.layout.body
    other = simulation.peers["peer-01"].trained
    for of, mine in (("trained", me.trained), ("start", me.start)):
        got = shard.measure("peer-00", Distance(of), ("peer-01", START), 1).values  # type: ignore[arg-type]
        assert got[0] == pytest.approx(float((other - mine)[body].double().norm()))
        assert got[1] == pytest.approx(float((me.start - mine)[body].double().norm()))
    pairs = shard.measure("peer-00", Distances(), ("peer-00", "peer-01"), 1).values
    assert pairs[0]["peer-01"] == pytest.approx(
        float((other - me.trained)[body].double().norm()), rel=1e-4
    )
    assert pairs[0]["peer-00"] == 0
    mixed = torch.cat([other[body], me.trained[simulation.world.learner.layout.head]])
    loss = shard.measure("peer-00", Loss(), ("peer-01",), 1).values[0]
    assert loss == simulation.world.learner.loss(mixed, me.probe_data)


def test_a_model_that_came_back_from_a_visit_is_measured_in_place_of_the_published_one() -> None:
    simulation = simulate(
        tiny(
            strategy={"name": "afind+", "preset": "literal"},
            stages="fomo",
            engine={"vectorise": "off"},
        )
    )
    me = simulation.peers["peer-00"]
    seen: dict[str, float] = {}
    original = simulation.crew.measure

    def spy(name: str, fact: Any, others: Any, round: int, brought: Any) -> Any:
        answer = original(name, fact, others, round, brought)
        if name == "peer-00" and isinstance(fact, Loss):
            for j, value in zip(others, answer.values, strict=True):
                if j in brought:
                    seen[j] = value
                    assert value == simulation.world.learner.loss(
                        brought[j].theta, me.examples("validation")
                    )
                    assert not torch.equal(brought[j].theta, simulation.peers[j].share.theta)
        return answer

    simulation.crew.measure = spy  # type: ignore[method-assign]
    simulation.round()
    assert seen


def test_models_that_have_arrived_are_measured_even_if_messages_get_lost() -> None:
    taken = {}
    for harmless in ("", "krum:attackers=0", "normclip:clip=1e9", "lossgate:factor=1e9"):
        simulation = simulate(
            tiny(strategy={"name": "gossip", "k": 10}, stages=harmless, topology={"drop": 0.5})
        )
        taken[harmless] = {name: set(row) for name, row in simulation.round().rows.items()}
    assert all(rows == taken[""] for rows in taken.values())


def test_of_two_models_krum_drops_neither() -> None:
    facts = {Distances: {"a": {"a": 0.0, "b": 9.0}, "b": {"a": 9.0, "b": 0.0}}}
    assert answered(Krum(), {"a": 0.5, "b": 0.5}, facts).row == {"a": 0.5, "b": 0.5}


# -- mixers ----------------------------------------------------------------------------------------


def stacked(
    theta: np.ndarray[Any, Any], masks: np.ndarray[Any, Any] | None = None
) -> dict[str, Share]:
    return {
        f"p{k}": Share(
            torch.from_numpy(theta[k]), None if masks is None else torch.from_numpy(masks[k])
        )
        for k in range(len(theta))
    }


@given(st.integers(1, 7), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_median_and_trimmed_mean_agree_with_numpy(peers: int, size: int, seed: int) -> None:
    theta = np.random.default_rng(seed).normal(size=(peers, size)).astype(np.float32)
    row = {f"p{k}": 1 / peers for k in range(peers)}
    np.testing.assert_allclose(
        Median().mix(row, stacked(theta)).theta, np.median(theta, 0), rtol=1e-5
    )
    cut = min(int(0.3 * peers + 1e-9), (peers - 1) // 2)
    expected = np.sort(theta, 0)[cut : peers - cut].mean(0)
    np.testing.assert_allclose(
        Trimmed(0.3).mix(row, stacked(theta)).theta, expected, rtol=1e-4, atol=1e-6
    )
    mean = mix(row, stacked(theta)).theta
    torch.testing.assert_close(
        Trimmed(0.0).mix(row, stacked(theta)).theta, mean, rtol=1e-4, atol=1e-6
    )


def test_robust_mixers_with_masks_count_only_those_who_offer_and_ignore_weights() -> None:
    theta = np.array([[1, 1], [2, 50], [90, 3]], np.float32)
    masks = np.array([[True, False], [True, False], [True, False]])
    mixed = Median().mix({"p0": 0.98, "p1": 0.01, "p2": 0.01}, stacked(theta, masks))
    assert mixed.theta[0] == 2
    assert mixed.mask is not None
    assert mixed.mask.tolist() == [True, False]
    one = np.array([[True, True], [True, False], [False, False]])
    assert Trimmed(0.3).mix(
        {"p0": 0.4, "p1": 0.3, "p2": 0.3}, stacked(theta, one)
    ).theta.tolist() == [1.5, 1.0]


def test_the_median_bears_a_minority_of_any_values() -> None:
    theta = np.array([[1.0], [1.1], [0.9], [np.inf], [np.nan]], np.float32)
    value = float(Median().mix({f"p{k}": 0.2 for k in range(5)}, stacked(theta)).theta[0])
    assert value == pytest.approx(1.1)  # what is no number counts as the largest


# -- in company ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", EVERY_STRATEGY, ids=spec_id)
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_works_after_every_strategy(spec: dict[str, Any], stage: str) -> None:
    check(simulate(tiny(strategy=spec, stages=stage, topology={"online": 0.7, "drop": 0.2})))


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("mixer", ["median", "trimmed"])
def test_every_mixer_works_with_every_method_and_with_visits(mixer: str, method: str) -> None:
    for spec in ({"name": "gossip"}, {"name": "afind+", "preset": "literal"}):
        check(simulate(tiny(strategy=spec, mixer=mixer, method=method, stages="normclip,krum")))


def test_stages_are_read_from_words_lists_and_tables() -> None:
    words = resolve([{"strategy": "gossip", "stages": "fomo:norm=l1,krum"}])
    assert [stage.name for stage in words.stages] == ["fomo", "krum"]
    assert words.stages[0].instance == FomoStage(norm="l1")
    assert words.label == "gossip/fomo/krum"
    assert resolve([words.to_dict()]) == words
    assert words.replace(**{"stages.krum.keep": 2}).stages[1].instance == Krum(keep=2)
    assert words.replace(stages="").stages == ()
    assert resolve([{"stages": {"use": ["krum"], "of": {"krum": {"keep": 2}}}}]).stages[
        0
    ].instance == Krum(keep=2)
    for order in (["stages.fomo.norm=l1", "stages=fomo"], ["stages=fomo", "stages.fomo.norm=l1"]):
        assert load(overrides=order).stages[0].instance == FomoStage(norm="l1")
    assert words.replace(stages=[Krum(keep=3)]).stages[0].instance == Krum(keep=3)
    assert words.replace(stages=["lossgate"]).stages[0].instance == LossGate()


def test_a_stage_of_ones_own_is_set_by_the_name_of_its_class_and_must_have_a_card() -> None:
    lines = [
        "from dataclasses import dataclass",
        "from amity.core import Decision",
        "@dataclass(frozen=True)",
        "class Mine:",
        "    card = None",
        "    k: int = 1",
        "    def decide(self, view, row):",
        "        yield from ()",
        "        return Decision({view.me: 1 / (self.k - 2)})",
        "    def pulls(self, neighbours):",
        "        return 0",
    ]
    Path("mine.py").write_text("\n".join(lines))
    config = tiny(stages={"use": ["mine.py:Mine"], "of": {"Mine": {"k": 2}}})
    assert config.stages[0].options == {"k": 2}
    with pytest.raises(StrategyError, match=r"ZeroDivisionError: .* \(mine.py, line 9\)"):
        simulate(config).round()
    Path("cardless.py").write_text("\n".join(line for line in lines if "card" not in line))
    with pytest.raises(ConfigError, match="Mine has no 'card'; it may be None"):
        tiny(stages="cardless.py:Mine")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"stages": "fmo"}, "unknown stage 'fmo'; did you mean 'fomo'"),
        ({"stages": "fomo:nrom=l1"}, "unknown option 'nrom'"),
        ({"stages": 3}, "expected names of stages"),
        ({"stages": {"fomo": 3}}, "expected stages.STAGE.option=value"),
        ({"stages": {"use": 5}}, "expected names of stages"),
        ({"stages": {"use": ["krum"], "of": 5}}, "expected stages.STAGE.option=value"),
        ({"stages": [{"keep": 1}]}, "each needs a name"),
        ({"stages": {"krum": {"keep": 1}}}, "'krum' is not in use"),
        ({"mixer": "medain"}, "did you mean 'median'"),
        ({"attack": {"name": "noise", "fraction": 2}}, "less than or equal to 1"),
    ],
)
def test_mistakes_in_stages_get_one_line(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve([layer])
