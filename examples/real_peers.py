"""The same run twice: simulated, and between four real processes with certificates of their own.
The models are equal.

    python examples/real_peers.py [FOLDER]

Needs `pip install 'amity[peers]'`.
"""

import sys
import tempfile
from pathlib import Path

import torch

import amity

SETTINGS = {
    "peers": 4,
    "rounds": 5,
    "stages": "normclip",
    "train.precision": "fp32",
    "engine.vectorise": "off",
}


def main(out: Path) -> None:
    simulated = amity.run(out=out / "simulated", **SETTINGS)
    real = amity.swarm(out=out / "swarm", **SETTINGS)
    here, there = 100 * simulated.accuracy, 100 * real.accuracy
    print(f"simulated {here:.2f} %, between processes {there:.2f} %")
    theirs = real.models
    for peer, theta in simulated.models.items():
        assert torch.equal(theta, theirs[peer])
    print("all models are equal to the bit")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
