"""Models of real peers: of a swarm, of one peer's folder, of one that runs meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import amity
from amity.errors import ConfigError, RunDirError
from amity.lab.export import export, notes_of
from amity.lab.result import Result
from amity.net.ops.collect import merge
from amity.store import best_records
from amity.use.modelfile import read_model
from amity.use.prediction import predict
from tests.conftest import Call
from tests.test_parity import swarm_of
from tests.test_peers import cats_and_dogs, configure, found, running

WITH_VALIDATION = {
    "partition": {
        "name": "pathological",
        "classes": 5,
        "samples": 20,
        "test": 30,
        "validation": 0.4,
    },
    "strategy": {"name": "gossip", "k": 2},
    "peers": 3,
    "rounds": 4,
}


def test_a_swarm_gives_the_simulators_models_to_the_bit_and_keeps_its_records(call: Call) -> None:
    swarm = swarm_of(Path("sw"), **WITH_VALIDATION)
    merge(swarm.out, swarm.config)
    before = {name: Path("sw", name).read_bytes() for name in ("rounds.jsonl", "metrics.jsonl")}
    code, out, err = call("export sw")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "sw/export/peer-00: best.safetensors, last.safetensors, MODEL.md"
    assert before == {name: Path("sw", name).read_bytes() for name in before}
    simulated = amity.run(swarm.config, "r")
    export("r")
    assert best_records(simulated.metrics)
    assert Result(swarm.out, swarm.config).complete
    for name in swarm.names:
        for which in ("best", "last"):
            real, tensors = read_model(Path("sw/export", name, f"{which}.safetensors"))
            same, wanted = read_model(Path("r/export", name, f"{which}.safetensors"))
            assert all(tensors[key].equal(wanted[key]) for key in wanted)
            assert real.origin.rounds == same.origin.rounds
            assert real.origin.run["peers"] == "3 real peers"
            assert real.origin.accuracy == same.origin.accuracy


def test_one_peer_of_a_swarm_is_exported_from_its_own_folder(call: Call) -> None:
    swarm_of(Path("sw"), **WITH_VALIDATION)
    assert call("export sw peer=peer-01 out=one")[0] == 0
    code, out, _ = call("export sw/peers/peer-01")
    assert (code, out.split(":")[0]) == (0, "sw/peers/peer-01/export")
    for which in ("best", "last"):
        file = f"{which}.safetensors"
        assert (Path("one/peer-01") / file).read_bytes() == (
            Path("sw/peers/peer-01/export") / file
        ).read_bytes()
    with pytest.raises(ConfigError, match="unknown peer 'peer-7'"):
        export("sw", "peer-7")
    shutil.rmtree("sw/peers/peer-02/state/checkpoint")
    taken = export("sw")
    assert [one.folder.name for one in taken] == ["peer-00", "peer-01"]
    assert notes_of(taken) == ["peer-02: left out, as it has finished no round yet"]
    with pytest.raises(RunDirError, match="no round is finished yet; let the peers run first"):
        export("sw", "peer-02")


def test_a_hospital_takes_its_model_out_with_its_own_classes_and_uses_it(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path)
    cats_and_dogs(tmp_path / "a" / "mine.npz", ["cat", "dog"], 1)
    cats_and_dogs(tmp_path / "b" / "mine.npz", ["cat", "fox"], 2)
    run = {"data": "mine.npz", "model": {"name": "mlp", "hidden": 8}, "rounds": 3}
    run |= {"strategy": {"name": "gossip", "k": 1}, "train": {"lr": 0.1, "epochs": 2, "batch": 8}}
    for name, folder in peers.items():
        more = {"validation": 0.3} if name == "a" else {}
        configure(folder, run=run, classes=["cat", "dog", "fox"], **more)
    code, _, err = call("export a")
    assert (code, err) == (2, "amity: a: has finished no round yet; `amity peer run a` does\n")
    with running(*peers.values()) as processes:
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    code, out, err = call("export a")
    assert (code, out) == (0, "a/export: best.safetensors, last.safetensors, MODEL.md\n")
    page = Path("a/export/MODEL.md").read_text()
    for words in (
        "2 members of the network 'trial'",
        "arrays (mine.npz)",
        "3 classes: cat, dog, fox",
    ):
        assert words in page
    cats_and_dogs(Path("new.npz"), ["cat", "dog"], 3)
    found_ = predict("a/export", "new.npz")
    assert found_.classes == ("cat", "dog", "fox")
    assert found_.accuracy is not None
    assert found_.accuracy > 0.9
    assert export("b/state", out=Path("of-b"))[0].folder == Path("of-b"), "its state will do too"
    assert not Path("of-b/best.safetensors").exists(), "b has no validation examples"
    code, _, err = call("export .")
    assert code == 2
    assert "holds the folders of a, b; export one of them" in err


def test_the_data_is_found_from_any_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that was started as `amity peer run a`, and is exported as `amity export .`"""
    peers = found(call, tmp_path)
    for seed, folder in enumerate(peers.values()):
        cats_and_dogs(folder / "own.npz", ["cat", "dog"], seed)
        run = {"data": "own.npz", "strategy": "gossip", "rounds": 1, "train": {"epochs": 1}}
        configure(folder, run=run)
    with running(Path("a"), Path("b")) as processes:
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    (elsewhere,) = export("a", out=Path("m"))
    monkeypatch.chdir(tmp_path / "a")
    (here,) = export(".")
    for one, two in zip(elsewhere.files, here.files, strict=True):
        assert (tmp_path / one).read_bytes() == two.read_bytes()
    np.save("x.npy", np.zeros((2, 5)))
    assert len(predict("export", "x.npy").labels) == 2
