"""The Ray engine on two raylets of this machine: the same bits as the local one, also when a node
is killed mid-run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

SCRIPT = """
import os, time
from dataclasses import replace
import numpy as np
import ray, torch
from ray.cluster_utils import Cluster
import amity
from amity.errors import AmityError
from amity.reproduce import reproduce
from amity.lab.run import restored
from tests.conftest import tiny

head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 150 << 20}
cluster = Cluster(initialize_head=True, head_node_args=head)
second = cluster.add_node(num_cpus=1, object_store_memory=150 << 20)
cluster.wait_for_nodes()
engine = {"name": "ray", "address": cluster.address, "timeout": 600.0}

def same(name, **layers):
    own = layers.pop("engine", {})
    local = amity.run(tiny(engine={"workers": 1, **own}, **layers), f"{name}-local")
    seen = []
    class Watch:
        def take(self, event):
            if isinstance(event, amity.RoundDone):
                self.on_round(event.report.round)
        def on_round(self, number):
            seen.append(number)
            if name == "lost" and seen == [0, 1, 2, 3, 4]:
                cluster.remove_node(second, allow_graceful=False)
                time.sleep(5)  # its processes may outlive it, and would finish so short a run
        def close(self):
            pass
    far = amity.run(tiny(engine=engine | own, **layers), f"{name}-ray", Watch())
    assert far.complete
    for kind in ("metrics", "edges", "rounds"):
        assert getattr(local, kind) == getattr(far, kind), (name, kind)
    kept = [restored(run.path).peers.values() for run in (local, far)]
    models = [[v for peer in peers for v in peer.snapshot().values()] for peers in kept]
    assert all(torch.equal(a, b) for a, b in zip(*models, strict=True)), name
    return seen

visits = {"strategy": {"name": "afind+", "preset": "literal"}, "engine": {"vectorise": "off"}}
composed = {"stages": "fomo,krum", "mixer": "median", "method": "dispfl"}
composed["attack"] = {"name": "sign_flip", "fraction": 0.34}
same("composed", **visits, **composed)
frozen = {"name": "mlp", "hidden": 12, "freeze": "1.*"}
said = {"name": "facade", "clusters": 2}
same("said", strategy=said, model=frozen, engine={"vectorise": "off"})
words = [list(range(1, 3 + k % 5)) for k in range(80)]
np.savez("w.npz", x=np.concatenate(words), lengths=list(map(len, words)), y=np.arange(80) % 5 // 3)
text = {"data": {"name": "arrays", "path": os.path.abspath("w.npz")}}
text |= {"engine": {"vectorise": "off"}, "partition": {"name": "iid", "samples": 8, "test": 2}}
same("text", strategy="gossip", model={"name": "gru", "embed": 4, "hidden": 5}, **text)
private = {"privacy": "gradients", "method": {"name": "head"}}
same("private", strategy="gossip", engine={"vectorise": "off"}, **private)
try:
    amity.run(tiny(engine=engine | {"actors": 50}), "greedy")
except AmityError as error:
    assert str(error) == "engine.actors: 50 actors need a CPU each, and the cluster has 2", error
else:
    raise SystemExit("50 actors on 2 CPUs?")
ways = (("here", {}), ("there", {"engine": engine}))
part = {"rows": ["alone", "with 3"], "seeds": [0]}
tables = [reproduce("toy", "smoke", out=out, **part, **how).records for out, how in ways]
here, there = ([replace(record, seconds=0) for record in records] for records in tables)
assert here == there
adamw = {"optimiser": "adamw", "schedule": "cosine", "keep": True}
lost = {"rounds": 8, "checkpoint": {"every": 3}, "method": "ditto", "train": adamw}
seen = same("lost", strategy={"name": "federico"}, **lost)
assert seen == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7], seen
print("all the same")
ray.shutdown()
cluster.shutdown()
"""


def test_two_raylets_give_the_local_bits_also_when_one_is_killed_mid_run(repository: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": str(repository),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=environment,
        timeout=3000,  # of something that hangs: a busy machine may take long
        check=False,
    )
    assert done.stdout.strip().endswith("all the same"), done.stdout[-3000:] + done.stderr[-3000:]


def test_without_ray_the_error_says_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['ray'] = None; from amity.cli import main; sys.argv[1:] = ['run',"
        " 'engine=ray']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "engine ray: is not installed; pip install 'amity[cluster]'" in " ".join(
        done.stderr.split()
    )
