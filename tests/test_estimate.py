"""What a run is said to take before it starts, beside what it takes."""

from __future__ import annotations

from typing import Any

import pytest

from amity.config import Config
from amity.core import Fit
from amity.data import split
from amity.lab.estimate import Trial, estimate
from amity.peer.proxies import proxies
from amity.round.build import load_data, settled
from amity.topology import peer_names
from tests.conftest import simulate, tiny


def trial_of(config: Config) -> Trial:
    dataset = load_data(config)
    config = settled(config, dataset)
    data = split(dataset, config.partition.instance, peer_names(config.peers), config.seed)
    return Trial.of(config, dataset, data)


def received(config: Config, key: str) -> list[int]:
    """What every peer received in one round."""
    simulation = simulate(config)
    with simulation:
        return [record.value(key) for record in simulation.round().peers.values()]


@pytest.mark.parametrize("proxy", [entry.name for entry in proxies])
@pytest.mark.parametrize(("sketch", "bits"), [(0, 32), (16, 32), (100_000, 32), (0, 1), (16, 1)])
def test_a_card_is_estimated_at_the_bytes_that_it_has(proxy: str, sketch: int, bits: int) -> None:
    card = {"proxy": proxy, "sketch": sketch, "bits": bits}
    config = tiny(strategy={"name": "afind+", "preset": "tuned", **card}, rounds=1)
    spec = config.decider.card
    assert spec is not None
    _, nbytes = trial_of(config).card(spec, config.facts.examples, config.rounds)
    assert received(config, "card_in") == [5 * nbytes] * 6, "all five neighbours' cards"


def test_cards_of_two_bytes_a_number_are_estimated_at_the_bytes_that_they_have() -> None:
    config = tiny(strategy="friends", rounds=1)
    spec = config.decider.card
    assert spec is not None
    assert (spec.bits, spec.shrink) == (16, 4)
    _, nbytes = trial_of(config).card(spec, config.facts.examples, config.rounds)
    assert received(config, "card_in") == [5 * nbytes] * 6


def test_a_whole_card_counts_all_numbers_of_the_proxy_layer() -> None:
    """64 inputs, 12 hidden units: φ has 64 · 12 + 12 numbers, a sketch of 16 has 16."""
    whole, small = (
        estimate([tiny(strategy={"name": "afind+", "sketch": sketch})], 1) for sketch in (0, 16)
    )
    assert whole.moved - small.moved == pytest.approx(3 * 5 * 4 * (64 * 12 + 12 - 16))


@pytest.mark.parametrize(
    ("method", "train", "tune"),
    [
        ({"name": "finetune", "tune_epochs": 2}, 5, 2),
        ({"name": "head"}, 5 + 3, 1),
        ({"name": "head", "phases": "joint"}, 5, 1),
        ({"name": "ditto"}, 2 + 3, 0),
        ({"name": "ditto", "epochs": 4}, 5 + 4, 0),
        ({"name": "dispfl", "tune_epochs": 0}, 5, 0),
    ],
)
def test_a_method_is_estimated_by_the_epochs_that_it_asks_for(
    method: dict[str, Any], train: int, tune: int
) -> None:
    config = tiny(method=method, train={"epochs": 5, "epochs_head": 3})
    assert trial_of(config).epochs(config) == (train, tune)


def test_a_method_that_fails_is_left_to_the_run_to_complain_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny(method="finetune", train={"epochs": 5})

    def broken(*_: object) -> Fit:
        raise RuntimeError("no")

    monkeypatch.setattr(type(config.method.instance), "train", broken)
    assert trial_of(config).epochs(config) == (5, 1)


@pytest.mark.parametrize("strategy", [{"name": "gossip", "k": 3}, {"name": "fedavg"}])
def test_models_that_are_pulled_are_estimated_at_the_bytes_that_arrive(
    strategy: dict[str, Any],
) -> None:
    config = tiny(strategy=strategy)
    said = estimate([config, config.replace(seed=1)], 1)
    assert [said.moved / 3] * 6 == received(config, "model_in")
    assert str(said).endswith("received by a peer in a run")


def test_an_engine_says_how_much_it_does_at_the_same_time() -> None:
    assert tiny(engine={"workers": 1}).engine.instance.hands(100) == 1
    assert tiny(engine={"workers": 3}).engine.instance.hands(2) == 2
    assert tiny(engine={"name": "ray", "actors": 4}).engine.instance.hands(100) == 4
