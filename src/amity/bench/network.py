"""`amity bench --peers`: what the network adds to a round's training, and how long small asks take
while models move.

Both with real peers: four processes on loopback, mutual TLS, signatures, checkpoints on disk.
`fedavg_cnn` on synthetic images of 28 x 28, five local epochs.
"""

from __future__ import annotations

import itertools
import multiprocessing
import secrets
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from amity.bench.measure import Say
from amity.config import Config, resolve
from amity.errors import Failure, brief
from amity.net.link.base import AskFailed
from amity.net.moment import frozen
from amity.net.node import Node
from amity.net.online import Online
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.sealed.boxes import KEY, lock, unlock
from amity.net.setup import read_setup
from amity.records import PeerRecord
from amity.store import read_lines, read_records

PEERS = 4
PHASES = ("train", "wait", "select", "mix", "store")
MOVING = 6.0
"""Seconds for which models move."""


@dataclass(frozen=True, kw_only=True)
class Networked:
    """One strategy on a real network; medians over peers and rounds, the first round left out."""

    strategy: str
    seconds: dict[str, float] = field(default_factory=dict)
    """Of a round, by phase: waiting for others' cards, asking (with transfers), mixing, checkpoint
    and log."""
    overhead: float = 0.0
    """(round - training) / training; waiting for others and the strategy's own losses are part of
    it, evaluation is not. Whether answering others slows training itself shows beside `local`,
    which moves no models."""
    model_mb: float = 0.0
    received_mb: float = 0.0
    """Of a peer in a round: bodies, as the books have them."""
    sealing_ms: float = 0.0
    """To seal a model and to open it again, both ends together, in parts as it travels."""
    asks: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    """Of small asks between all peers, while all of them pull each other's models and nobody
    trains."""
    moved_mb_s: float | None = None
    """Of all peers together, meanwhile."""


def bench_config(strategy: str, samples: int = 300, rounds: int = 4) -> Config:
    return resolve(
        [
            {
                "data": {"name": "synthetic", "train": PEERS * samples},
                "partition": {"name": "iid", "samples": samples, "test": 50},
                "model": "fedavg_cnn",
                "strategy": strategy,
                "peers": PEERS,
                "rounds": rounds,
                "train": {"epochs": 5, "batch": 64, "lr": 0.05, "precision": "fp32"},
                "eval": {"every": 1000, "gradients_every": 0},
            }
        ]
    )


def measure_network(say: Say) -> list[Networked]:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for strategy in ("local", "gossip", "afind+"):
            say(f"{PEERS} peers, {strategy}: rounds with training")
            rows.append(_rounds(Path(scratch) / strategy, bench_config(strategy)))
        say(f"{PEERS} peers, gossip in masked sums: rounds with training")
        config = bench_config("gossip")
        rows.append(_rounds(Path(scratch) / "masked", config, masked=True))
        say(f"{PEERS} peers: asks while models move")
        return [*rows, _moving(Path(scratch) / "moving", bench_config("gossip", 64))]


def _rounds(out: Path, config: Config, masked: bool = False) -> Networked:
    net = Net(gather=60, deadline=120, patience=60, masked=masked)
    swarm = Swarm(out, config, net)
    swarm.lay_out()
    swarm.start()
    try:
        swarm.wait(900)
    finally:
        swarm.stop()
    if swarm.failed:
        raise Failure(f"bench: {next(iter(swarm.failed.values()))}")
    rounds = []
    for name in swarm.names:
        lines = read_lines(swarm.folder(name) / "state" / "timings.jsonl")
        for before, now in itertools.pairwise(lines):
            period = now["at"] - before["at"] - now["evaluate"]
            rounds.append(
                {
                    **now,
                    "store": max(0.0, period - sum(now[phase] for phase in PHASES[:-1])),
                    "period": period,
                }
            )
    seconds = {phase: statistics.median(r[phase] for r in rounds) for phase in PHASES}
    overhead = statistics.median((r["period"] - r["train"]) / r["train"] for r in rounds)
    model_mb = _megabytes(swarm)
    return Networked(
        strategy=f"{config.label}, masked" if masked else config.label,
        seconds=seconds,
        overhead=overhead,
        model_mb=model_mb,
        received_mb=statistics.median(_received(swarm)) / 1e6,
        sealing_ms=1000 * _sealing(round(1e6 * model_mb), net.chunk),
    )


def _received(swarm: Swarm) -> list[int]:
    """Bytes by peer and round, the first round left out."""
    states = [swarm.folder(name) / "state" for name in swarm.names]
    records = [one for state in states for one in read_records(state / "metrics.jsonl", PeerRecord)]
    return [one.received for one in records if one.round > 0]


def _sealing(size: int, chunk: int, repeats: int = 5) -> float:
    """Seconds to seal so many bytes in parts, and to open them again; the median of some times."""
    key, part, took = secrets.token_bytes(KEY), secrets.token_bytes(chunk), list[float]()
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(-(-size // chunk)):
            unlock(key, lock(key, part, "bench"), "bench")
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _megabytes(swarm: Swarm) -> float:
    path = next((swarm.folder(swarm.names[0]) / "state" / "checkpoint").glob("*.safetensors"), None)
    return path.stat().st_size / 1e6 if path else 0.0


# -- small asks while models move ------------------------------------------------------------------


def _moving(out: Path, config: Config) -> Networked:
    swarm = Swarm(out, config, Net(requests=10_000, bandwidth=2**31 - 1, transfers=8))
    swarm.lay_out()
    fork = multiprocessing.get_context("fork")
    children = []
    for name in swarm.names:
        mine, theirs = fork.Pipe()
        process = fork.Process(target=_mover, args=(swarm.folder(name), theirs))
        process.start()
        theirs.close()
        children.append((process, mine))
    latencies: list[float] = []
    moved = 0
    for process, pipe in children:
        try:
            found, size = pipe.recv()
        except EOFError:
            raise Failure("bench: a peer died") from None
        finally:
            process.join()
        if isinstance(found, str):
            raise Failure(f"bench: {found}")
        latencies, moved = latencies + found, moved + size
    p50, p95 = (1000 * float(np.quantile(latencies, q)) for q in (0.5, 0.95))
    return Networked(
        strategy="asks while models move",
        asks=len(latencies),
        p50_ms=p50,
        p95_ms=p95,
        moved_mb_s=moved / MOVING / 1e6,
    )


def _mover(folder: Path, pipe: Connection) -> None:
    """One peer that trains nothing: it pulls everybody's model again and again, and times small
    asks."""
    try:
        node = Node(read_setup(folder))
        peer, world = node.workshop.peer, node.workshop.shard.world
        peer.trained.copy_(peer.start)
        with node.connected() as online:
            online.answers.offer(online.moment(frozen(peer, world, 0), None, 0, "ready"))
            others = [name for name in online.membership.roster().names if name != node.me]
            until = time.monotonic() + 60
            while not all(online.board.alive(j) for j in others) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(1)
            pipe.send(_move(online, others))
            time.sleep(2)  # the others may still be asking
    except Exception as error:
        pipe.send((brief(error), 0))


def _move(online: Online, others: list[str]) -> tuple[list[float], int]:
    until, latencies, moved = time.monotonic() + MOVING, list[float](), [0]

    def pull(j: str) -> None:
        while time.monotonic() < until:
            try:
                moved[0] += online.courier.model(j, "share", 0)[0].nbytes
            except AskFailed:
                time.sleep(0.05)

    threads = [threading.Thread(target=pull, args=(j,)) for j in others]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        for j in others:
            began = time.perf_counter()
            try:
                online.courier.hello(j, 5.0)
                latencies.append(time.perf_counter() - began)
            except AskFailed:
                latencies.append(5.0)
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    return latencies, moved[0]
