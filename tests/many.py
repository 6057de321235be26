"""Many real peers on this machine that find their friends (`topology=discover`), beside the same
run in the simulator.

    python -m tests.many [PEERS] [ROUNDS] [SEED]            # 64 peers, 10 rounds

Each is a process with a listener and links of its own. Told are, of both: friends in views, bytes,
accuracy; of the real ones also links, rounds and what their logs say. Exit code 1: links were not
bounded, friends were not found, or bytes differ by more than a tenth.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.config import Config, resolve
from amity.console import say
from amity.lab.run import run
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.searching import CIRCLE
from amity.net.status import read_status
from amity.records import PeerRecord
from amity.round.build import deal_out
from amity.store import commits, read_lines, read_records
from amity.topology import Discover

RULE = Discover(view=8, random=3)
NET = Net(gather=300, deadline=300, patience=300, lease=60, links=40)
"""Patient: here all share a few cores."""
THREADS = 4
"""Of Zenoh, of each of five kinds in a peer: here all share the threads of one kernel, too."""


def config(peers: int, rounds: int, seed: int) -> Config:
    layers: dict[str, Any] = {
        "data": "fashionmnist",
        "peers": peers,
        "rounds": rounds,
        "seed": seed,
        "strategy": "friends",
        "partition": {"name": "iid", "samples": 20, "test": 10},
        "shift": {"name": "permute_labels", "groups": max(2, peers // 16)},
        "model": {"name": "mlp", "hidden": 8},
        "train": {"epochs": 1, "batch": 10, "lr": 0.05, "precision": "fp32"},
        "topology": {"name": "discover", "view": RULE.view, "random": RULE.random},
        "eval": {"gradients_every": 0},
        "engine": {"workers": 1, "vectorise": "off", "group": 1},
    }
    return resolve([layers])


class Watch(threading.Thread):
    """The most links that each peer had at a time, by what it says itself."""

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(daemon=True)
        self.swarm, self.ended = swarm, threading.Event()
        self.most: dict[str, tuple[int, int]] = {}

    def run(self) -> None:
        while not self.ended.wait(0.5):
            for name in self.swarm.names:
                theirs, mine = read_status(self.swarm.folder(name) / "state").get("links", (0, 0))
                was = self.most.get(name, (0, 0))
                self.most[name] = (max(was[0], theirs), max(was[1], mine))


def friends(views: Mapping[str, Sequence[str]], groups: Mapping[str, int | None]) -> float:
    """The share of friends in views."""
    known = [groups[me] == groups[j] for me, view in views.items() for j in view]
    return sum(known) / len(known)


def moved(what: str, records: Sequence[PeerRecord], more: Counter[str]) -> int:
    """Bytes that all have received."""
    keys = ("card_in", "model_in", "reply_in")
    each = {key: sum(getattr(r, key) for r in records) + more[key] for key in keys}
    last = max(r.round for r in records)
    right = statistics.fmean(r.accuracy or 0.0 for r in records if r.round == last)
    parts = ", ".join(f"{key} {size / 1e6:.3f} MB" for key, size in each.items())
    say(f"{what}: {parts}; accuracy {right:.1%} in the last round")
    return sum(each.values())


def simulated(plan: Config, out: Path, groups: Mapping[str, int | None]) -> tuple[int, float]:
    """Bytes, and the share of friends in views."""
    result = run(plan, out)
    views = {me: found["circle"][0] for me, found in next(commits(out)).memory.items()}
    return moved("simulated", result.metrics, Counter()), friends(views, groups)


def played(plan: Config, out: Path) -> tuple[Swarm, Watch]:
    """The real peers, to their end."""
    kinds = (f"{kind}: (worker_threads: {THREADS})" for kind in ("acc", "app", "net", "tx", "rx"))
    os.environ.setdefault("ZENOH_RUNTIME", f"({', '.join(kinds)})")
    swarm = Swarm(out, plan, NET)
    swarm.lay_out()
    watch = Watch(swarm)
    try:
        swarm.start()
        watch.start()
        swarm.wait(7200)
    finally:
        swarm.stop()
        watch.ended.set()
    return swarm, watch


def main(peers: int = 64, rounds: int = 10, seed: int = 11) -> int:
    plan = config(peers, rounds, seed)
    with tempfile.TemporaryDirectory() as home:
        began = time.monotonic()
        swarm, watch = played(plan, Path(home) / "swarm")
        seconds = time.monotonic() - began
        dealt = deal_out(swarm.config, swarm.dataset, swarm.names)
        groups = {name: data.group for name, data in dealt.items()}
        bytes_simulated, found_simulated = simulated(plan, Path(home) / "simulated", groups)
        records, log, views, more = [], Counter[str](), {}, Counter[str]()
        for name in swarm.names:
            state = swarm.folder(name) / "state"
            records += read_records(state / "metrics.jsonl", PeerRecord)
            views[name] = json.loads((state / CIRCLE).read_bytes())["view"]
            for line in read_lines(state / "audit.jsonl"):
                log[f"{line['event']} {line.get('why', '')}".strip()] += line.get("count", 1)
                if line["event"] == "stop":
                    more.update({key: n for key, n in line.items() if key.endswith("_in")})
        bytes_real = moved("real     ", records, more)
    found, ratio = friends(views, groups), bytes_real / bytes_simulated
    theirs, mine = zip(*watch.most.values(), strict=True)
    done = Counter(r.peer for r in records).values()
    say(f"{peers} peers, {rounds} rounds: {seconds:.0f} s; {dict(log.most_common())}")
    say(f"failed: {swarm.failed}; rounds done: {min(done)} at least, {max(done)} at most")
    say(f"friends in views: {found:.1%} real, {found_simulated:.1%} simulated")
    for what, most in (("to a peer", theirs), ("by a peer", mine)):
        say(f"links {what}: {max(most)} at most, {statistics.fmean(most):.1f} in the mean")
    say(f"bytes: real / simulated = {ratio:.3f}")
    bounded = max(theirs) <= NET.links and max(mine) <= 2 * (RULE.view + RULE.random)
    good = bounded and found > found_simulated - 0.1 and 0.9 < ratio < 1.1 and not swarm.failed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
