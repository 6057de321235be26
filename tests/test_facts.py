"""What facts say about models that have arrived, beside the same said in plain words."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re

import pytest
import torch

from amity import facts
from amity.core import START
from amity.facts import Cosine, MixtureLoss, Slope
from amity.peer import trials
from amity.simulate import Simulation
from tests.conftest import simulate, tiny

ALL = ("peer-00", "peer-01", "peer-02")


def trained(**overrides: object) -> Simulation:
    """Six peers in the middle of their second round: trained, and nothing mixed yet."""
    config = tiny(strategy={"name": "local"}, eval={"gradients_every": 0}, **overrides)
    simulation = simulate(config)
    simulation.round()
    simulation.shard.train(simulation.names, 1, None)
    return simulation


@pytest.mark.parametrize("of", ["model", "update"])
def test_a_cosine_compares_models_or_what_they_learned_since_the_start(of: str) -> None:
    simulation = trained()
    shard = simulation.shard
    thetas = {name: peer.trained.double() for name, peer in simulation.peers.items()}
    if of == "update":
        thetas = {name: theta - shard.world.initial.double() for name, theta in thetas.items()}
    found = shard.measure(ALL[0], Cosine("update" if of == "update" else "model"), ALL, 1)
    expected = [float(torch.cosine_similarity(thetas[ALL[0]], thetas[j], 0)) for j in ALL]
    assert found.values == pytest.approx(expected, abs=1e-6)
    assert found.values[0] == 1.0
    assert (found.forward, found.backward) == (0, 0)


def test_a_cosine_leaves_out_what_is_not_shared() -> None:
    simulation = trained(method={"name": "head"})
    shard, body = simulation.shard, slice(0, simulation.world.learner.layout.head.start)
    thetas = [simulation.peers[j].trained[body].double() for j in ALL]
    found = shard.measure(ALL[0], Cosine(), ALL, 1).values
    expected = [float(torch.cosine_similarity(thetas[0], theta, 0)) for theta in thetas]
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_slope_is_the_gradient_along_the_way_to_a_model_and_its_pass_is_booked() -> None:
    simulation = trained()
    shard, peer = simulation.shard, simulation.peers[ALL[0]]
    data, learner = peer.examples("train"), simulation.world.learner
    at = ((ALL[0], 0.5), (ALL[1], 0.5))
    for fact in (Slope(split="train"), Slope(at, "train")):
        mine, other = peer.trained, simulation.peers[ALL[1]].trained
        where = (mine + other) / 2 if fact.at else mine
        expected = learner.gradient(where, data)[0] @ (other - mine)
        found = shard.measure(ALL[0], fact, ALL[:2], 1)
        assert found.values == pytest.approx([0.0, float(expected)], rel=1e-4)
        assert (found.forward, found.backward) == (len(data), len(data))


def test_a_slope_foretells_the_loss_a_small_step_away() -> None:
    simulation = trained()
    shard, step = simulation.shard, 1e-3
    (_, slope) = shard.measure(ALL[0], Slope(split="train"), ALL[:2], 1).values
    rows = (((ALL[0], 1.0),), ((ALL[0], 1 - step), (ALL[1], step)))
    here, there = shard.measure(ALL[0], MixtureLoss(rows, "train"), ALL[:2], 1).values[0]
    assert (there - here) / step == pytest.approx(slope, rel=0.05)


def test_losses_of_mixtures_are_the_same_for_everyone_asked_and_cost_a_pass_each() -> None:
    simulation = trained()
    shard, peer = simulation.shard, simulation.peers[ALL[0]]
    data, learner = peer.examples("train"), simulation.world.learner
    rows = (((ALL[0], 1.0),), ((ALL[2], 0.75), (ALL[1], 0.25)), ((START, 1.0),), (("gone", 1.0),))
    found = shard.measure(ALL[0], MixtureLoss(rows, "train"), (*ALL, START), 1)
    assert all(losses is found.values[0] for losses in found.values)
    mine, mixed, start, gone = found.values[0]
    theta = 0.25 * simulation.peers[ALL[1]].trained + 0.75 * simulation.peers[ALL[2]].trained
    assert mine == learner.loss(peer.trained, data)
    assert mixed == pytest.approx(learner.loss(theta, data), rel=1e-6)
    assert start == learner.loss(peer.start, data)
    assert math.isnan(gone), "it stands on a model that is not here"
    assert (found.forward, found.backward) == (3 * len(data), 0)


def test_a_model_that_diverged_has_no_cosine() -> None:
    simulation = trained()
    for value in (math.nan, math.inf):
        simulation.peers[ALL[1]].trained[3] = value
        found = simulation.shard.measure(ALL[0], Cosine("update"), ALL, 1).values
        assert [math.isfinite(cosine) for cosine in found] == [True, False, True]


def test_a_degree_is_told_for_nothing() -> None:
    config = tiny(strategy={"name": "metropolis"}, topology={"name": "ring"})
    simulation = simulate(config)
    size = 4 * simulation.world.learner.layout.size
    for record in simulation.round().peers.values():
        assert (record.model_in, record.card_in, record.reply_in) == (2 * size, 0, 0)


def test_every_fact_stands_in_the_table_of_facts_and_can_be_had_from_the_package() -> None:
    modules = [
        importlib.import_module(f"amity.facts.{found.name}")
        for found in pkgutil.iter_modules(facts.__path__)
    ]
    known = {
        name
        for module in (*modules, trials)
        for name, thing in vars(module).items()
        if isinstance(thing, type) and issubclass(thing, facts.Fact)
    }
    table = set(re.findall(r"^\| `(\w+)\(\)`", facts.__doc__ or "", re.MULTILINE))
    assert table == known - {"Fact", "ModelFact"}
    assert known - {"Agreement", "Alone", "Skill"} <= set(facts.__all__)
