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
from amity.lab.result import Result
from amity.lab.run import as_config
from amity.net.ops.collect import merge
from amity.net.ops.swarm import Swarm
from amity.store import commits


def models(path):
    """The tensors of the newest checkpoint of a run, by peer."""
    commit = next(commits(path))
    return {peer: commit.tensors.of(peer)["start"] for peer in commit.memory}


def main(out):
    config = as_config(
        None,
        {
            "peers": 4,
            "rounds": 5,
            "strategy": "afind+",
            "train.precision": "fp32",
            "engine.vectorise": "off",
        },
    )
    simulated = amity.run(config, out / "simulated")
    swarm = Swarm(out / "swarm", config)
    swarm.lay_out()  # an authority, keys, certificates, a roster, a folder a peer
    swarm.start()
    swarm.wait()
    merge(out / "swarm", swarm.config)
    real = Result(out / "swarm", swarm.config)
    print(
        f"simulated {100 * simulated.accuracy:.2f} %, between processes {100 * real.accuracy:.2f} %"
    )
    ours = models(out / "simulated")
    for name in swarm.names:
        assert torch.equal(models(swarm.folder(name) / "state")[name], ours[name])
    print("all models are equal to the bit")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
