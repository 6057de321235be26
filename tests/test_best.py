"""The best model of every peer, by its validation examples, is put aside as the run goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import amity
from amity.records import PeerRecord
from amity.simulate import Simulation
from amity.store import best_model, best_records, read_records
from tests.conftest import simulate, tiny

HELD_OUT = {"name": "pathological", "classes": 5, "samples": 20, "test": 30, "validation": 0.4}


def with_validation(**more: Any) -> amity.Config:
    return tiny(partition=HELD_OUT, strategy={"name": "gossip", "k": 2}, rounds=6, **more)


def of(peer: str, round: int, validation: float | None) -> PeerRecord:
    return PeerRecord(
        peer=peer, round=round, accuracy=1 - round / 10, accuracy_validation=validation
    )


def test_the_best_round_is_chosen_on_validation_alone_and_of_equal_ones_the_later() -> None:
    records = [of("a", 0, 0.5), of("a", 1, 0.8), of("a", 2, 0.8), of("a", 3, 0.7), of("b", 0, None)]
    assert {name: one.round for name, one in best_records(records).items()} == {"a": 2}


def kept(path: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path(path, "best").iterdir())}


def test_what_is_put_aside_is_each_peer_as_it_stood_after_its_best_round() -> None:
    config = with_validation()
    result = amity.run(config, "r")
    best = best_records(read_records(Path("r/metrics.jsonl"), PeerRecord))
    assert len(kept("r")) == len(best) == 6, "one for each peer, older ones are gone"
    with simulate(config) as again:
        for _ in range(config.rounds):
            report = again.round()
            for name, tensors in again.snapshots():
                if best[name].round == report.round:
                    archive = best_model(result.path, best[name])
                    assert archive is not None
                    assert torch.equal(archive.of(name)["start"], tensors["start"])


def test_a_run_that_was_cut_short_keeps_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_validation(checkpoint={"every": 2})
    amity.run(config, "whole")
    rounds = Simulation.round
    done: list[int] = []

    def until_the_fourth(self: Simulation) -> Any:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(1)
        return rounds(self)

    monkeypatch.setattr(Simulation, "round", until_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        amity.run(config, "cut")
    assert any(name.endswith("-000003.safetensors") for name in kept("cut")), "after the checkpoint"
    monkeypatch.setattr(Simulation, "round", rounds)
    amity.resume("cut")
    assert kept("cut") == kept("whole")


def test_without_validation_nothing_is_put_aside() -> None:
    amity.run(tiny(strategy="local"), "r")
    assert "best" not in os.listdir("r")
