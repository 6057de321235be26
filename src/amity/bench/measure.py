"""ModelFact a workload: the engine, the plain loop and the machine's GEMM rate, in turn, in
processes of their own.

Machines are noisy, so the three are measured alternately, `REPEATS` times, and medians are
compared.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils.flop_counter import FlopCounterMode

from amity.bench.plain import PlainLoop
from amity.bench.workloads import Workload
from amity.config import Config
from amity.errors import Failure, brief
from amity.processes import cores
from amity.round.build import load_data, make_learner
from amity.simulate import Simulation

REPEATS = 3
PLAIN_SECONDS = 6.0
T = TypeVar("T")
PHASES = ("train", "select", "mix", "evaluate")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One row of the table."""

    workload: str
    strategy: str
    precision: str
    samples_per_s: float
    rounds_per_s: float
    ratio_to_plain_loop: float
    gemm_share: float
    """Of the training phase: model FLOPs done, over what all cores do in 1024 x 1024 matrix
    products."""
    peak_mb: float
    steps_per_round: int
    """Gradient steps, counted where they are done."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of a round, by phase; `evaluate` is outside the ratios."""
    ratio_to_gossip: float | None = None
    """Seconds of a round over those of Gossip in the same measurement, where the workload has
    Gossip."""


@dataclass(frozen=True)
class Timing:
    """One process's word on one measurement of the engine."""

    seconds: dict[str, float]
    peak_mb: float
    steps: int

    @property
    def round(self) -> float:
        return sum(value for phase, value in self.seconds.items() if phase != "evaluate")


Say = Callable[[str], None]


def measure(
    workload: Workload, precisions: tuple[str, ...], say: Say, repeats: int = REPEATS
) -> list[Measurement]:
    """All strategies of a workload in all precisions."""
    kinds = [(strategy, precision) for precision in precisions for strategy in workload.strategies]
    timings: dict[tuple[str, str], list[Timing]] = {kind: [] for kind in kinds}
    plain: list[float] = []
    gemm: dict[str, list[float]] = {precision: [] for precision in precisions}
    for repeat in range(repeats):
        say(f"{workload.name}: plain loop ({repeat + 1} of {repeats})")
        plain.append(in_child(partial(_plain_seconds, workload)))
        for precision in precisions:
            say(f"{workload.name}: matrix products in {precision}")
            gemm[precision].append(gemm_rate(precision))
        for strategy, precision in kinds:
            say(f"{workload.name}: {strategy} in {precision} ({repeat + 1} of {repeats})")
            timings[strategy, precision].append(
                in_child(partial(engine_timing, workload.config(strategy, precision)))
            )
    flops = in_child(partial(flops_per_sample, workload.config(workload.strategies[0], "fp32")))
    rows = []
    for strategy, precision in kinds:
        mine = timings[strategy, precision]
        seconds = {phase: statistics.median(t.seconds[phase] for t in mine) for phase in PHASES}
        rounds = statistics.median(t.round for t in mine)
        gossip = timings.get(("gossip", precision), [])
        rate = flops * workload.examples / seconds["train"]
        rows.append(
            Measurement(
                workload=workload.name,
                strategy=strategy,
                precision=precision,
                samples_per_s=workload.examples / rounds,
                rounds_per_s=1 / rounds,
                ratio_to_plain_loop=statistics.median(
                    p / t.round for p, t in zip(plain, mine, strict=True)
                ),
                gemm_share=rate / statistics.median(gemm[precision]),
                peak_mb=max(t.peak_mb for t in mine),
                steps_per_round=mine[0].steps,
                seconds=seconds,
                ratio_to_gossip=statistics.median(
                    t.round / g.round for t, g in zip(mine, gossip, strict=True)
                )
                if gossip
                else None,
            )
        )
    return rows


def _plain_seconds(workload: Workload) -> float:
    torch.set_num_threads(cores())
    config = workload.config(workload.strategies[0], "fp32")
    return PlainLoop(config, load_data(config)).seconds_of_round(PLAIN_SECONDS)


def engine_timing(config: Config) -> Timing:
    """Median seconds of each phase over all rounds but the first."""
    dataset = load_data(config)
    with memory_watch() as peak, Simulation(config, dataset) as simulation:
        rounds = [simulation.round().seconds for _ in range(config.rounds)]
        peak()
    seconds = {
        phase: statistics.median(r[phase] for r in rounds[1:])
        for phase in PHASES
        if phase != "evaluate"
    }
    return Timing({**seconds, "evaluate": rounds[-1]["evaluate"]}, peak() / 1e6, simulation.steps)


def flops_per_sample(config: Config) -> float:
    """Multiplications and additions of forward and backward, for one example."""
    dataset = load_data(config)
    learner = make_learner(config, dataset.shape, dataset.target)
    x, y = dataset.pixels.batch(torch.arange(8))
    for parameter in learner.module.parameters():
        parameter.requires_grad_(True)
    with FlopCounterMode(display=False) as counter:
        loss = learner.task.loss(learner.module(x), y, learner.target)
        torch.autograd.backward(loss)
    return float(counter.get_total_flops()) / len(x)


def gemm_rate(precision: str, seconds: float = 0.5) -> float:
    """FLOP/s of all cores together, each with products of its own, one thread each."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    pending = [_start(partial(_multiply, kind, seconds)) for _ in range(cores())]
    return sum(_finish(*child) for child in pending)


def _multiply(kind: torch.dtype, seconds: float, size: int = 1024) -> float:
    torch.set_num_threads(1)
    a, b = (torch.randn(size, size).to(kind) for _ in range(2))
    a @ b
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        a @ b
        count += 1
    return 2 * size**3 * count / spent


# -- processes of their own ------------------------------------------------------------------------


def in_child(work: Callable[[], T]) -> T:
    """Do something in a forked process: its threads and its memory are its own."""
    return _finish(*_start(work))


def _start(work: Callable[[], T]) -> tuple[Any, Connection, Callable[[], T]]:
    mine, theirs = multiprocessing.Pipe()

    def child() -> None:
        try:
            theirs.send((True, work()))
        except Exception as error:
            theirs.send((False, brief(error)))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    theirs.close()
    return process, mine, work


def _finish(process: Any, pipe: Connection, _work: Callable[[], T]) -> T:
    try:
        good, value = pipe.recv()
    except EOFError:
        good, value = False, "its process died (a lack of memory?)"
    finally:
        pipe.close()
    process.join()
    if not good:
        raise Failure(f"bench: {value}")
    result: T = value
    return result


@contextmanager
def memory_watch(every: float = 0.25) -> Iterator[Callable[[], int]]:
    """A function that tells the peak so far, in bytes, of this process and those it forked; shared
    pages count once."""
    peak, done = [0], threading.Event()

    def look() -> int:
        peak[0] = max(
            peak[0], sum(_proportional(pid) for pid in (os.getpid(), *_children(os.getpid())))
        )
        return peak[0]

    def watch() -> None:
        while not done.wait(every):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield look
    finally:
        done.set()
        thread.join()


def _proportional(pid: int) -> int:
    """PSS: own pages and one's part of those shared; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _children(pid: int) -> list[int]:
    try:
        found = [
            int(word)
            for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return []
    return found + [below for child in found for below in _children(child)]
