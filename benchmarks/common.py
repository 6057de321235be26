"""What every racer shares: the workloads, their data and nets in plain PyTorch, the step counter,
the stopwatch, the report.

Nothing of Amity is imported here: the numbers of the other frameworks must not depend on it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "src" / "amity" / "bench" / "workloads.toml"
AUDIT = "RACE_AUDIT"
"""Environment variable: the file that every SGD step of every process of a racer adds one byte
to."""
LR = 0.05
CLASSES = 10
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Workload:
    """One entry of workloads.toml."""

    name: str
    model: str
    shape: tuple[int, ...]
    peers: int
    samples: int
    batch: int
    epochs: int
    rounds: int
    strategies: tuple[str, ...]
    hidden: int = 16

    @property
    def steps(self) -> int:
        """Gradient steps that one round must have."""
        return self.peers * self.epochs * math.ceil(self.samples / self.batch)

    @property
    def examples(self) -> int:
        """Examples that one round must train on."""
        return self.peers * self.epochs * self.samples


def load(name: str) -> Workload:
    """A workload by name; only those that average everyone's models and whose net is built here can
    be raced."""
    table = tomllib.loads(WORKLOADS.read_text(encoding="utf-8"))
    if name not in table:
        raise SystemExit(f"unknown workload {name!r}; there are {', '.join(table)}")
    entry: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in table[name].items()
    }
    known = entry["model"] in ("mlp", "fedavg_cnn") and entry["strategies"] == ("fedavg",)
    if not known or "optimiser" in entry:
        raise SystemExit(
            f"workload {name!r} cannot be raced: only plain averaging of an mlp or a fedavg_cnn"
            " that SGD trains can"
        )
    return Workload(name=name, **entry)


@cache
def data(workload: Workload, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (peers, samples, *shape) and labels (peers, samples): uniform labels, a class mean
    plus noise."""
    draw = np.random.default_rng(seed)
    means = draw.normal(size=(CLASSES, *workload.shape)).astype(np.float32)
    labels = draw.integers(CLASSES, size=(workload.peers, workload.samples))
    noise = draw.standard_normal(
        (workload.peers, workload.samples, *workload.shape), dtype=np.float32
    )
    return torch.from_numpy(means[labels] + noise), torch.from_numpy(labels)


def net(workload: Workload, seed: int = 0) -> nn.Sequential:
    """The net of a workload, layer by layer the one that Amity builds under this name."""
    torch.manual_seed(seed)
    if workload.model == "mlp":
        hidden = workload.hidden
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(workload.shape), hidden),
            nn.ReLU(),
            nn.Linear(hidden, CLASSES),
        )
    channels, side = workload.shape[0], ((workload.shape[1] - 4) // 2 - 4) // 2
    convs = [
        nn.Conv2d(channels, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return nn.Sequential(
        *convs, nn.Flatten(), nn.Linear(64 * side * side, 512), nn.ReLU(), nn.Linear(512, CLASSES)
    )


@cache
def kept_net(workload: Workload) -> nn.Sequential:
    """One net for the whole life of a worker process."""
    return net(workload)


def batches(
    x: torch.Tensor, y: torch.Tensor, size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One epoch in random order, the last batch as small as it comes."""
    for index in torch.randperm(len(x)).split(size):
        yield x[index], y[index]


def fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, workload: Workload) -> None:
    """Local training as researchers write it, for the racers whose framework leaves it to the
    user."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    model.train()
    for _ in range(workload.epochs):
        for inputs, labels in batches(x, y, workload.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


@cache
def count_steps() -> None:
    """Count the steps of every `torch.optim.SGD` (not of subclasses) of this process from now on.

    One byte is appended to a file that worker processes find through the environment, so its size
    is the count of all.
    """
    if AUDIT not in os.environ:
        os.environ[AUDIT] = tempfile.mkstemp(prefix="race-steps-")[1]
    file = os.open(os.environ[AUDIT], os.O_WRONLY | os.O_APPEND)

    def count(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if type(optimizer) is torch.optim.SGD:
            os.write(file, b".")

    register_optimizer_step_post_hook(count)


def steps_so_far() -> int:
    return os.stat(os.environ[AUDIT]).st_size


class Memory(threading.Thread):
    """Peak memory of this process and all below it, sampled twice a second; pages that they share
    count once (PSS)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0

    def run(self) -> None:
        while True:
            self.sample()
            time.sleep(0.5)

    def sample(self) -> None:
        import psutil

        me, total = psutil.Process(), 0
        for process in (me, *me.children(recursive=True)):
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        self.peak = max(self.peak, total)


@dataclass
class Stopwatch:
    """Takes the time and the step count at the end of every round. The first round is a warm-up:
    only its end counts."""

    framework: str
    package: str
    workload: Workload
    setting: str
    notes: list[str] = field(default_factory=list)
    laps: list[tuple[float, int]] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    before: int = 0

    def __post_init__(self) -> None:
        count_steps()
        self.memory.start()

    def start(self) -> None:
        """Rounds begin now. Only needed where a framework trains before its first round."""
        self.before = steps_so_far()

    def lap(self) -> None:
        """A round has ended."""
        self.laps.append((time.perf_counter(), steps_so_far()))

    def even(self) -> bool:
        """No timed round had fewer or more steps than it must, but for what another process was
        ahead when it ended."""
        counts = [after - before for (_, before), (_, after) in pairwise(self.laps)]
        return all(
            abs(count - self.workload.steps) < 0.05 * self.workload.steps for count in counts
        )

    def report(self) -> None:
        """One line of JSON, the last that a racer prints, when all its workers are done.

        Seconds are the median of the timed rounds, as in `amity bench`. Steps are the mean of all
        rounds, the warm-up among them, and must be exactly those of the workload.
        """
        self.memory.sample()
        seconds = median(after - before for (before, _), (after, _) in pairwise(self.laps))
        steps = (steps_so_far() - self.before) / len(self.laps)
        line = {
            "framework": self.framework,
            "version": version(self.package),
            "workload": self.workload.name,
            "setting": self.setting,
            "rounds": len(self.laps) - 1,
            "seconds_per_round": seconds,
            "rounds_per_s": 1 / seconds,
            "samples_per_s": self.workload.examples / seconds,
            "startup_s": max(0.0, self.laps[0][0] - _started() - seconds),
            "steps_per_round": steps,
            "expected_steps": self.workload.steps,
            "equal_work": steps == self.workload.steps and self.even(),
            "peak_mb": self.memory.peak / 1e6,
            "notes": "; ".join(self.notes),
        }
        os.unlink(os.environ[AUDIT])
        emit(line)


def _started() -> float:
    """When this process was started, on the clock of `time.perf_counter`."""
    import psutil

    return time.perf_counter() - (time.time() - float(psutil.Process().create_time()))


def emit(line: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps(line) + "\n")
    sys.stdout.flush()


def arguments(description: str | None, workers: int = 1) -> argparse.Namespace:
    """`WORKLOAD [--threads N] [--workers N] [--rounds N]`; the workload is loaded, the threads are
    set."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", type=load)
    parser.add_argument(
        "--threads",
        type=int,
        default=max(1, CORES // workers),
        help="torch threads of each process",
    )
    parser.add_argument(
        "--workers", type=int, default=workers, help="processes that train (flower, pfl)"
    )
    parser.add_argument(
        "--rounds", type=int, help="timed rounds, instead of the workload's own number"
    )
    args = parser.parse_args()
    args.rounds = args.rounds or args.workload.rounds
    torch.set_num_threads(args.threads)
    return args


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def import_torchvision() -> None:
    """Import torchvision, which two frameworks want though these workloads never use it.

    PyPI's build is made for CUDA and fails to import beside a CPU build of torch: its operators are
    missing. Then two of them are declared (not defined), which is all that the import asks for.
    """
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401

        _KEPT.append(library)


_KEPT: list[Any] = []
"""A torch library is undone when it is garbage-collected."""
