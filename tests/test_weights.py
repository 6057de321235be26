"""`model.weights`: what a model starts from, what is refused, and that members compare it."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import amity
from amity.config import load
from amity.errors import ConfigError, RunDirError
from amity.net.workshop import _terms
from amity.round.build import load_data, make_shard, settled
from tests.conftest import simulate, tiny

SHAPES = {"1.weight": (12, 64), "1.bias": (12,), "3.weight": (10, 12), "3.bias": (10,)}


def weights(path: str = "w.safetensors", **shapes: tuple[int, ...] | None) -> str:
    """A file with the parameters of the tiny model; some of another shape, or none."""
    draw = torch.Generator().manual_seed(1)
    wanted = {**SHAPES, **{key.replace("_", "."): shape for key, shape in shapes.items()}}
    tensors = {n: torch.randn(s, generator=draw) for n, s in wanted.items() if s is not None}
    save_file(tensors, path)
    return path


def model(**more: Any) -> dict[str, Any]:
    return {"name": "mlp", "hidden": 12, **more}


def test_a_run_starts_from_a_file_and_its_own_export_is_one() -> None:
    given = load_file(weights())
    learner = simulate(tiny(model=model(weights="w.safetensors"))).world.learner
    for name, tensor in learner.complete(learner.initial()).items():
        assert torch.equal(tensor, given[name])
    amity.run(tiny(model=model(weights="w.safetensors"), strategy="gossip"), "r")
    sha = hashlib.sha256(Path("w.safetensors").read_bytes()).hexdigest()
    assert json.loads(Path("r/code.json").read_text()) == {"w.safetensors": sha}
    file = amity.export("r", "peer-00", Path("out"))[0].files[0]
    again = simulate(tiny(model=model(weights=str(file)))).world.learner
    assert torch.equal(again.complete(again.initial())["3.bias"], load_file(file)["3.bias"])
    weights("w.safetensors", **{"3_bias": None})
    with pytest.raises(RunDirError, match=r"w.safetensors has changed since this run began"):
        amity.resume("r", rounds=5)


def test_a_part_of_a_file_is_taken_where_that_is_asked_for_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weights(**{"3_weight": (7, 12), "3_bias": None, "odd": (2,)})
    with caplog.at_level(logging.WARNING, "amity"):
        partial = model(weights="w.safetensors", weights_partial=True)
        learner = simulate(tiny(model=partial)).world.learner
    assert torch.equal(
        learner.complete(learner.initial())["1.bias"], load_file("w.safetensors")["1.bias"]
    )
    assert [line for line in caplog.messages if line.startswith("model.weights")] == [
        "model.weights: 2 of 4 tensors of w.safetensors loaded (1.bias, 1.weight); not used:"
        " 3.weight, odd; still as built: 3.weight, 3.bias"
    ]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"3_bias": None}, r"1 missing \(3.bias\)\. Use the weights of this very model"),
        ({"odd": (2,)}, r"1 too many \(odd\)"),
        ({"3_weight": (7, 12)}, r"3.weight is \(7, 12\) there and \(10, 12\) in the model"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_names_and_shapes(
    shapes: dict[str, Any], message: str
) -> None:
    weights(**shapes)
    with pytest.raises(ConfigError, match=message) as caught:
        amity.run(tiny(model=model(weights="w.safetensors")), "r")
    assert "\n" not in str(caught.value)
    assert not Path("r/rounds.jsonl").exists()


def test_what_is_no_file_of_numbers_is_refused() -> None:
    Path("w.pt").write_bytes(b"whatever")
    Path("bad.safetensors").write_bytes(b"whatever")
    save_file({name: torch.full(s, torch.nan) for name, s in SHAPES.items()}, "nan.safetensors")
    for file, message in (
        ("w.pt", "is a pickle, which could run code and is never opened"),
        ("absent.safetensors", "does not exist"),
        ("bad.safetensors", "is not a safetensors file"),
        ("nan.safetensors", "values that are no numbers"),
    ):
        with pytest.raises(ConfigError, match=message):
            amity.run(tiny(model=model(weights=file)), "r")


def test_members_compare_what_is_frozen_and_what_they_start_from() -> None:
    def terms(**more: Any) -> Any:
        config = load(None, {"model": model(), "peers": 1, "strategy": "gossip", **more})
        dataset = load_data(config)
        config = settled(config, dataset)
        with simulate(config) as simulation:
            shard = make_shard(config, dataset, simulation.names, simulation.data)
            return _terms(config, shard, dataset)

    plain, frozen = terms(), terms(**{"model.freeze": "1.*"})
    assert plain.frozen == plain.weights == ""
    assert len(frozen.frozen) == 64
    assert "parameter '1.weight' of the model" in plain.difference(frozen)
    weights()
    begun = terms(**{"model.freeze": "1.*", "model.weights": "w.safetensors"})
    assert "the model starts from no weights of a file here and weights with the SHA-256" in (
        frozen.difference(begun)
    )
    other = replace(frozen, frozen="0" * 64)
    assert "the frozen part of the model has the SHA-256" in frozen.difference(other)
    assert "\n" not in frozen.difference(other)
    assert len({one.digest for one in (plain, frozen, begun, other)}) == 4
    assert frozen.decode(frozen.encode()) == frozen
