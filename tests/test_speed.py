"""What is faster than the simple way gives what the simple way gives; no test looks at a clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amity.bench import whole
from amity.data import digits
from amity.errors import Failure
from amity.files import json_text, plain
from amity.learn.learner import Learner, native_bf16
from amity.learn.work import multiplications
from amity.processes import Aside
from amity.round import build
from amity.round.build import load_data, make_learner, settled
from tests.conftest import simulate, tiny


@pytest.mark.parametrize("vectorise", ["on", "off"])
@pytest.mark.parametrize("strategy", ["local", "gossip"])
def test_models_that_are_tested_in_one_pass_score_as_each_does_alone(
    vectorise: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(
        strategy=strategy, engine={"vectorise": vectorise}, rounds=1, eval={"gradients_every": 0}
    )
    with simulate(config) as simulation:
        report = simulation.round()
        shard, names = simulation.shard, simulation.units[0]
        learner = shard.world.learner
        simple = make_learner(simulation.config, load_data(config).shape, learner.target)
        for name, model in zip(names, shard.final_models(names, 0), strict=True):
            peer, told = shard.peers[name], report.peers[name]
            wanted = simple.score(model, peer.data.test)
            assert told.test_loss == pytest.approx(wanted.loss, rel=1e-5)
            assert (told.accuracy, told.balanced) == (wanted.value, wanted.metrics["balanced"])
            assert told.accuracy_local == simple.score(peer.trained, peer.data.test).value
            assert told.accuracy_mixed == simple.score(peer.start, peer.data.test).value
            assert told.accuracy_start == simple.score(shard.world.initial, peer.data.test).value
        tested: list[torch.Tensor] = []
        each = Learner.tested

        def counted(self: Learner, theta: torch.Tensor, data: Any) -> torch.Tensor:
            tested.append(theta)
            return each(self, theta, data)

        monkeypatch.setattr(Learner, "tested", counted)
        shard.evaluate(names, 1)
    alone = {"local": 2, "gossip": 3}[strategy]  # alone, the mixed model is the trained one
    assert len(tested) == (alone * len(names) if vectorise == "off" else 0)


def test_bf16_is_for_steps_that_are_heavy_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    images = {"name": "synthetic", "shape": "1x28x28", "train": 600}

    def chosen(batch: int, model: str) -> str:
        config = tiny(data=images, train={"batch": batch}).replace(model=model)
        return settled(config, load_data(config)).train.precision

    assert chosen(64, "fedavg_cnn") == ("bf16" if native_bf16(torch.device("cpu")) else "fp32")
    monkeypatch.setattr(build, "native_bf16", lambda _device: True)
    assert [chosen(64, "fedavg_cnn"), chosen(8, "fedavg_cnn"), chosen(64, "mlp")] == [
        "bf16",
        "fp32",
        "fp32",
    ]


def test_multiplications_are_those_of_the_layers() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(128, 10)
    )
    x = torch.zeros(2, 3, 8, 8)
    assert multiplications(net, lambda: net(x)) == 2 * (4 * 4 * 8 * 3 * 25 + 128 * 10)
    gru = torch.nn.GRU(4, 6, batch_first=True)
    words = torch.zeros(2, 7, 4)
    assert multiplications(gru, lambda: gru(words)) == 2 * 7 * 3 * 6 * (4 + 6)


def test_work_done_aside_comes_back_from_another_process_or_says_what_went_wrong() -> None:
    def fails() -> None:
        raise Failure("no such luck")

    there = Aside(os.getpid)
    assert there.result() != os.getpid()
    assert there.result() == there.result()
    with pytest.raises(Failure, match=r"^no such luck$"):
        Aside(fails).result()
    with pytest.raises(Failure, match="died"):
        Aside(lambda: os._exit(3)).result()


def test_digits_are_those_of_scikit_learn_wherever_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sklearn.datasets import load_digits

    wanted = load_digits()
    for there in (True, False):
        monkeypatch.setattr(Path, "is_file", lambda _path, there=there: there)
        found = digits.Digits().load()
        assert np.array_equal(found.pixels.x.numpy()[:, 0], wanted.images)
        assert np.array_equal(found.pixels.y.numpy(), wanted.target)


def test_a_process_leaves_with_its_code_after_its_threads_and_what_was_to_be_done() -> None:
    program = """
import atexit, sys, threading
from amity.processes import leave
atexit.register(lambda: print("at the end"))
gate = threading.Event()
threading.Thread(target=lambda: (gate.wait(), print("a thread"))).start()
gate.set()
leave(3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "a thread\nat the end\n")


def test_json_has_null_for_what_is_no_number_and_is_otherwise_as_it_was() -> None:
    fine = {"ä": [1, 2.5, None, True, "x"], "t": (1, 2)}
    odd = {**fine, "nan": [float("nan"), {"inf": float("inf")}]}
    for value in (fine, odd):
        assert json_text(value) == json.dumps(plain(value), ensure_ascii=False)
    assert json.loads(json_text(odd))["nan"] == [None, {"inf": None}]


def test_the_parts_of_a_whole_run_add_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("amity.lab.reports.write_report", lambda _path: None)
    keys = {"peers": 2, "rounds": 2, "partition.samples": 10, "partition.test": 20}
    told = whole.run_and_tell(keys, tmp_path / "run")
    assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == 2
    first, last = told.pop("began"), told.pop("ended")
    assert sum(told.values()) == pytest.approx(last - first)
    parts = {**told, "start": 1.0, "end": 0.5}
    monkeypatch.setattr(whole, "_timed", lambda _keys: parts)
    for row in whole.measure_whole(lambda _said: None, repeats=1):
        assert row.seconds == pytest.approx(1.5 + last - first)
        assert sum(row.shares.values()) == pytest.approx(1)
