"""Attackers: what each shows, whom it reaches, and what is reported of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import amity
from amity.config import load, resolve
from amity.core import Card, Share
from amity.errors import ConfigError
from amity.facts import Likeness, Losses, Similarity
from amity.geometry import cosines
from amity.net.setup import for_network
from amity.peer.attacks import SketchLiar, attackers, attacks
from amity.rng import rng
from amity.round.build import bad_peers
from amity.simulate.seat import Seat, let_fakers_look
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, simulate, spec_id, tiny
from tests.test_every_strategy import check

KINDS = [entry.name for entry in attacks if entry.name != "none"]
START, TRAINED, INITIAL = (
    torch.full((4,), 1.0),
    torch.tensor([1.0, 2.0, 3.0, 4.0]),
    torch.full((4,), -7.0),
)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("sign_flip", {"scale": 2.0}, [1.0, -1.0, -3.0, -5.0]),
        ("scaled", {"scale": 10.0}, [1.0, 11.0, 21.0, 31.0]),
        ("constant", {"value": 0.5}, [0.5] * 4),
        ("free_rider", {}, [-7.0] * 4),
        ("label_flip", {}, [1.0, 2.0, 3.0, 4.0]),
        ("loss_liar", {"sends": "honest"}, [1.0, 2.0, 3.0, 4.0]),
        ("sketch_liar", {"sends": "free_rider"}, [-7.0] * 4),
    ],
)
def test_each_attacker_sends_the_model_that_its_formula_says(
    name: str, options: Any, expected: list[float]
) -> None:
    attack = attacks[name].build(options)
    assert attack.share(Share(TRAINED), START, INITIAL, rng(0)).theta.tolist() == expected
    mask = torch.tensor([True, False, True, True])
    masked = attack.share(Share(torch.where(mask, TRAINED, 0.0), mask), START, INITIAL, rng(0))
    assert masked.mask is not None
    assert not masked.theta[~mask].any()


def test_noise_has_the_standard_deviation_that_was_asked_for() -> None:
    theta = torch.zeros(20_000)
    sent = attacks["noise"].build({"std": 0.3}).share(Share(theta), theta, theta, rng(0)).theta
    assert float(sent.std()) == pytest.approx(0.3, rel=0.03)


def test_liars_lie_about_what_they_are_named_after() -> None:
    assert attacks["loss_liar"].build({}).losses(Losses(2.0, 1.0)) == Losses(0.0, 0.0)
    assert attacks["sign_flip"].build({}).losses(Losses(2.0, 1.0)) == Losses(2.0, 1.0)
    mine, target = torch.ones(3), torch.zeros(3)
    assert SketchLiar().sketch(mine, target) is target
    assert SketchLiar().sketch(mine, None) is mine


def test_the_asked_fraction_attacks_and_the_seed_says_who() -> None:
    names = tuple(f"peer-{k:02}" for k in range(10))
    assert len(attackers(names, 0.3, 0)) == 3
    assert attackers(names, 0.3, 0) == attackers(names, 0.3, 0)
    assert len({attackers(names, 0.3, seed) for seed in range(10)}) > 1
    assert attackers(names, 0.0, 0) == frozenset()
    assert bad_peers(tiny(), names) == frozenset()


def test_label_flippers_train_on_flipped_labels_and_are_judged_by_true_ones() -> None:
    config = tiny(attack={"name": "label_flip", "fraction": 0.5}, engine={"vectorise": "off"})
    simulation = simulate(config)
    plain = simulate(tiny())
    for name, peer in simulation.peers.items():
        mine, theirs = peer.data.train, plain.peers[name].data.train
        truth = theirs.pixels.y[theirs.index]
        seen = mine.pixels.y[mine.index]
        assert torch.equal(seen, 9 - truth if name in simulation.attackers else truth)
        assert torch.equal(peer.data.test.pixels.y, plain.peers[name].data.test.pixels.y)


def test_label_flippers_in_a_stack_do_not_flip_the_labels_of_others() -> None:
    layers: dict[str, Any] = {
        "attack": {"name": "label_flip", "fraction": 0.5},
        "strategy": "local",
    }
    stacked = simulate(tiny(engine={"vectorise": "on", "group": 6}, **layers))
    alone = simulate(tiny(engine={"vectorise": "off"}, **layers))
    for _ in range(2):
        stacked.round(), alone.round()
    for name in stacked.names:
        torch.testing.assert_close(
            stacked.peers[name].start, alone.peers[name].start, rtol=1e-3, atol=1e-5
        )


def test_an_attacker_shows_a_bad_model_and_keeps_its_own() -> None:
    simulation = simulate(
        tiny(
            attack={"name": "free_rider", "fraction": 0.34},
            strategy="local",
            eval={"gradients_every": 0},
        )
    )
    simulation.round()
    assert len(simulation.attackers) == 2
    for name, peer in simulation.peers.items():
        shown = simulation.world.initial if name in simulation.attackers else peer.trained
        assert torch.equal(peer.share.theta, shown)
        assert torch.equal(peer.start, peer.trained)


def test_honest_peers_get_the_attackers_model_and_its_weight_is_reported() -> None:
    simulation = simulate(
        tiny(
            attack={"name": "constant", "value": 5.0, "fraction": 0.34},
            strategy="gossip",
            eval={"gradients_every": 0},
        )
    )
    report = simulation.round()
    honest = [name for name in simulation.names if name not in simulation.attackers]
    weights = [
        sum(w for j, w in report.rows[name].items() if j in simulation.attackers) for name in honest
    ]
    assert report.network.attackers_weight == pytest.approx(sum(weights) / len(weights))
    assert report.network.attackers_weight == pytest.approx(2 / 6)
    accuracies = [report.peers[name].accuracy for name in honest]
    assert report.network.accuracy == pytest.approx(sum(accuracies) / len(accuracies))
    name = honest[0]
    expected = sum(
        w * (5.0 if j in simulation.attackers else simulation.peers[j].trained)
        for j, w in report.rows[name].items()
    )
    torch.testing.assert_close(simulation.peers[name].start, expected)


def test_a_visited_attacker_hands_back_a_bad_model_and_lies() -> None:
    simulation = simulate(
        tiny(
            strategy={"name": "afind+", "preset": "literal", "include_self": True},
            attack={"name": "loss_liar", "fraction": 0.34, "sends": "constant"},
        )
    )
    report = simulation.round()
    bad = simulation.attackers
    honest = [name for name in simulation.names if name not in bad]
    for name in honest:  # who claims a loss of 0 gets more than anybody else
        row = report.rows[name]
        assert min(w for j, w in row.items() if j in bad) > max(
            w for j, w in row.items() if j not in bad
        )


def test_a_sketch_liar_looks_like_whoever_asks_and_gains_weight() -> None:
    weights = {}
    for kind in ("label_flip", "sketch_liar"):
        attack = {"name": kind, "fraction": 0.34} | (
            {"sends": "honest"} if kind == "sketch_liar" else {}
        )
        simulation = simulate(
            tiny(strategy={"name": "afind", "proxy": "grad", "tau": 1.0}, attack=attack, rounds=3)
        )
        reports = [simulation.round() for _ in range(3)]
        weights[kind] = reports[-1].network.attackers_weight
        if kind == "sketch_liar":
            honest = next(name for name in simulation.names if name not in simulation.attackers)
            seen = simulation.memories[honest]["memory"]["s"]
            # the last card of a peer is much like its card of now, and more so than any honest
            # peer's
            assert min(seen[j] for j in simulation.attackers) > 0.1
    assert weights["sketch_liar"] > weights["label_flip"]


def test_where_cards_are_looked_at_once_a_sketch_liar_passes_for_the_asker_s_best_friend() -> None:
    attack = {"name": "sketch_liar", "fraction": 0.34, "sends": "honest"}
    partition = {"name": "iid", "samples": 60, "test": 20}
    simulation = simulate(tiny(strategy="friends", peers=9, attack=attack, partition=partition))
    simulation.round()
    bad, seats = simulation.attackers, simulation.seats
    honest = [name for name in simulation.names if name not in bad]
    assert len(bad) == 3
    fooled = []
    for me in honest:
        mine = seats[me].card
        assert mine is not None
        alike = simulation.memories[me]["memory"]["alike"]
        others = {j: card for j in honest if j != me and (card := seats[j].card) is not None}
        best = max(others, key=lambda j: float(cosines(mine.sketch, others[j].sketch[None])))
        for liar in bad:
            assert alike[liar] == pytest.approx(alike[best], abs=1e-5)
            shown = seats[liar].offer_to(Likeness(), seats[me]).card
            assert shown is not None
            assert torch.equal(shown.sketch, others[best].sketch)
            assert shown.peer == liar
        fooled += [alike[liar] > 0.8 for liar in bad]
    assert sum(fooled) > len(fooled) / 2, "most look like friends"


def test_a_sketch_liar_copies_only_what_it_can_have_seen() -> None:
    """On a line a liar sees its two neighbours, and an asker's own card is no use to it."""
    names, draw = ("a", "b", "c"), torch.Generator().manual_seed(0)
    seats = {name: Seat(name=name, examples=1, labels=()) for name in names}
    for name, seat in seats.items():
        seat.card = Card(name, 0, 1, 1, torch.randn(6, generator=draw))
    seats["b"].attack = SketchLiar()
    let_fakers_look(seats, {"a": ("b",), "b": ("a", "c"), "c": ("b",)})
    assert seats["a"].seen is None
    seen = seats["b"].seen
    assert seen is not None
    for asker, other in (("a", "c"), ("c", "a")):
        found, card = seen.most_like(asker), seats[other].card
        assert found is not None
        assert card is not None
        assert torch.equal(found, card.sketch)
    let_fakers_look(seats, {"a": ("b",), "b": ("a",), "c": ()})
    shown = seats["b"].offer_to(Likeness(), seats["a"]).card
    assert shown == seats["b"].card, "who has seen nobody else has nothing to copy"


def test_where_cards_are_looked_at_every_round_a_sketch_liar_shows_the_asker_s_last_one() -> None:
    attack = {"name": "sketch_liar", "fraction": 0.34}
    for strategy in ("afind+", {"name": "afind+", "proxy": "grad_ref"}):
        simulation = simulate(tiny(strategy=strategy, attack=attack))
        simulation.round()
        before = {name: seat.card for name, seat in simulation.seats.items()}
        simulation.round()
        liar, me = (
            next(seat for name, seat in simulation.seats.items() if (name in bad) is wanted)
            for bad in (simulation.attackers,)
            for wanted in (True, False)
        )
        shown, last = liar.offer_to(Similarity(), me).card, before[me.name]
        assert shown is not None
        assert last is not None
        assert torch.equal(shown.sketch, last.sketch)


@pytest.mark.parametrize("strategy", ["afind+", "friends"])
def test_a_run_with_liars_that_was_resumed_ends_with_the_same_bits(strategy: str) -> None:
    config = tiny(strategy=strategy, attack={"name": "sketch_liar", "fraction": 0.34}, rounds=4)
    whole, half, again = simulate(config), simulate(config), simulate(config)
    rows = [whole.round().rows for _ in range(4)]
    half.round(), half.round()
    kept = {
        peer: {key: value.clone() for key, value in tensors.items()}
        for peer, tensors in half.snapshots()
    }
    again.restore(2, kept.__getitem__, half.memories)
    assert [again.round().rows for _ in range(2)] == rows[2:]
    for name in whole.names:
        assert torch.equal(whole.peers[name].start, again.peers[name].start)


def test_workers_see_the_same_attack_as_one_process() -> None:
    thetas = []
    for workers in (1, 2):
        config = tiny(
            attack={"name": "noise", "fraction": 0.34}, stages="krum", engine={"workers": workers}
        )
        with simulate(config) as simulation:
            simulation.round(), simulation.round()
            thetas.append(torch.stack([peer.start for peer in simulation.peers.values()]).clone())
    assert torch.equal(*thetas)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", EVERY_STRATEGY, ids=spec_id)
def test_every_attack_runs_against_every_strategy(spec: dict[str, Any], kind: str) -> None:
    check(simulate(tiny(strategy=spec, attack={"name": kind, "fraction": 0.34})), 2)


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("kind", KINDS)
def test_every_attack_runs_against_every_method_and_all_defences_together(
    method: str, kind: str
) -> None:
    layers: dict[str, Any] = {"stages": "simgate,lossgate,normclip,krum", "mixer": "median"}
    check(simulate(tiny(method=method, attack={"name": kind, "fraction": 0.34}, **layers)), 2)


@pytest.mark.parametrize(
    "defence",
    [{"stages": "lossgate"}, {"stages": "krum"}, {"mixer": "median"}, {"stages": "normclip"}],
)
def test_a_defence_bears_a_constant_model_that_ruins_plain_gossip(defence: dict[str, Any]) -> None:
    layers: dict[str, Any] = {
        "strategy": "gossip",
        "peers": 10,
        "rounds": 5,
        "partition": {"name": "iid", "samples": 40, "test": 50},
        "train": {"epochs": 5, "batch": 8, "lr": 0.1},
        "method": {"name": "finetune", "tune_epochs": 0},
    }
    attack = {"name": "constant", "value": 3.0, "fraction": 0.2}
    clean, ruined, defended = (
        amity.run(tiny(**layers, **more), f"run{k}").accuracy
        for k, more in enumerate(({}, {"attack": attack}, {"attack": attack, **defence}))
    )
    assert ruined < clean - 0.2
    assert defended > clean - 0.08


def test_reports_and_tables_are_of_honest_peers_and_show_what_attackers_obtain() -> None:
    config = tiny(attack={"name": "noise", "fraction": 0.34})
    comparison = amity.compare(["gossip", "local"], [0], config, "c")
    gossip = comparison.lines[0]
    run = comparison.results["gossip"][0]
    assert len(run.final()) == 4
    assert gossip.accuracy == pytest.approx(sum(run.final().values()) / 4)
    assert gossip.attackers_weight == pytest.approx(2 / 6)
    assert comparison.lines[1].attackers_weight == 0
    assert "attackers' weight" in (comparison.path / "report.html").read_text().replace(
        "&#x27;", "'"
    )


def test_somebody_must_be_honest() -> None:
    with pytest.raises(ConfigError, match="leaves no honest peer"):
        simulate(tiny(attack={"name": "noise", "fraction": 1.0}))
    with pytest.raises(ConfigError, match="leaves no honest peer"):
        amity.compare(["gossip"], [0], tiny(attack={"name": "noise", "fraction": 1.0}), "c")


def test_real_peers_do_not_attack() -> None:
    with pytest.raises(ConfigError, match="attack=noise: is for `amity run`"):
        for_network(tiny(attack="noise"))
    assert load(overrides=["attack=sign_flip", "attack.fraction=0.1"]).attack.common.fraction == 0.1
    with pytest.raises(ConfigError, match="did you mean 'sign_flip'"):
        resolve([{"attack": "sign_flp"}])
