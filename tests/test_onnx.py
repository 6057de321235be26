"""Models as ONNX: they say what torch says, from inputs as they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import amity
from amity.errors import Failure
from amity.lab.export import export
from amity.use import onnxfile
from amity.use.classifier import open_model
from tests.conftest import Call, tiny


def test_an_onnx_file_gives_the_probabilities_of_torch_for_any_number_of_examples(
    call: Call,
) -> None:
    amity.run(tiny(strategy="gossip", rounds=1), "r")
    code, out, err = call("export r peer=peer-00 out=m --onnx")
    assert code == 0
    assert out == "m/peer-00: last.safetensors, last.onnx, MODEL.md\n"
    assert "m/peer-00/last.onnx: at most " in err
    assert "from torch, on 30 test examples" in err
    session = onnxruntime.InferenceSession("m/peer-00/last.onnx")
    model = open_model(Path("m/peer-00"))
    for count in (1, 2, 7):
        x = np.random.default_rng(count).uniform(0, 16, (count, 1, 8, 8)).astype(np.float32)
        (found,) = session.run(["probabilities"], {"x": x})
        assert found.shape == (count, 10)
        assert np.abs(found - model.probabilities(x)).max() < 1e-5
    properties = {one.key: one.value for one in onnx.load("m/peer-00/last.onnx").metadata_props}
    assert json.loads(properties["amity"])["schema"]["classes"] == list("0123456789")


def test_a_file_that_differs_from_torch_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    amity.run(tiny(strategy="local", rounds=1), "r")
    (one,) = export("r", "peer-00")
    monkeypatch.setattr(onnxfile, "CLOSE", -1.0)
    with pytest.raises(Failure, match="not written, as it would give other probabilities"):
        onnxfile.write_onnx(open_model(one.folder), np.zeros((2, 1, 8, 8), np.float32))
    assert not list(one.folder.glob("*.onnx*"))


def test_a_network_that_onnx_does_not_know_is_one_line(call: Call) -> None:
    Path("mine.py").write_text(
        "from torch import nn\n"
        "class Odd(nn.Module):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__()\n"
        "        self.body, self.head = nn.Linear(64, 5), nn.Linear(5, classes)\n"
        "    def forward(self, x):\n"
        "        features = self.body(x.flatten(1))\n"
        "        return self.head(features if features.detach().sum().item() > 0 else -features)\n"
    )
    assert call("run model=mine.py:Odd peers=2 rounds=1 strategy=local out=r")[0] == 0
    code, _, err = call("export r peer=peer-00 onnx=true")
    assert code == 1
    assert "last.onnx: the model cannot be written as ONNX (" in err
    assert len(err.splitlines()) == 1
    assert call("export r peer=peer-00 onnx=maybe")[0] == 2
    assert "given twice" in call("export r --onnx onnx=false")[2]
