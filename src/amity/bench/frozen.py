"""What it is worth to compute the frozen part of a model once: a trained head on a frozen body, by
the plain loop, and by an engine that computes the body in every step, once a round, or once for
all; in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from amity.bench.plain import PlainLoop
from amity.config import Config, resolve
from amity.learn.freezing import freeze
from amity.round.build import load_data, one_thread
from amity.simulate import Simulation

REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class FrozenRow:
    """Seconds of a round's training, medians; and ratios to what is kept, each of rounds done one
    after the other."""

    model: str
    frozen: int
    trained: int
    """Parameters."""
    seconds_plain: float
    """The plain loop, which computes the body in every step."""
    seconds_steps: float
    """The engine, if it computes the body in every step."""
    seconds_rounds: float
    """`engine.cache=0`: where only the head is trained, it computes the body once a round."""
    seconds_kept: float
    """As it comes: the body's outputs are kept from round to round."""
    ratio_to_plain_loop: float
    ratio_to_steps: float
    ratio_to_rounds: float


def config_of(cache: int) -> Config:
    """Ten peers that train the head of a small CNN, five epochs a round."""
    return resolve(
        [
            {
                "data": {"name": "synthetic", "shape": "3x32x32", "train": 1000},
                "partition": {"name": "pathological", "classes": 10, "samples": 100, "test": 20},
                "model": {"name": "fedavg_cnn", "freeze": "0.*,1.*"},
                "strategy": "gossip",
                "method": {"name": "finetune", "tune_epochs": 0},
                "peers": 10,
                "rounds": 2 * REPEATS + 1,
                "train": {"epochs": 5, "batch": 20, "precision": "fp32"},
                "eval": {"every": 2 * REPEATS + 1, "gradients_every": 0},
                "engine": {"workers": 1, "vectorise": "off", "group": 1, "cache": cache},
            }
        ]
    )


def measure_frozen(say: Callable[[str], None]) -> list[FrozenRow]:
    """The first round of each is not counted: in it the outputs are computed."""
    config, kept_config = config_of(0), config_of(1024)
    dataset = load_data(config)
    plain = PlainLoop(config, dataset)
    freeze(plain.model, config.model.common.freeze)
    with (
        Simulation(config, dataset) as steps,
        Simulation(config, dataset) as rounds,
        Simulation(kept_config, dataset) as kept,
    ):
        steps.world.learner.reuses = False
        ways: list[Callable[[], float]] = [partial(_plain, plain)]
        ways += [partial(_engine, simulation) for simulation in (steps, rounds, kept)]
        times: list[list[float]] = []
        for repeat in range(REPEATS + 1):
            say(f"a frozen body, four ways ({repeat} of {REPEATS}; the first is not counted)")
            times.append([way() for way in ways])
        learner = kept.world.learner
    every = sum(p.numel() for p in learner.module.parameters())
    medians = [statistics.median(column) for column in zip(*times[1:], strict=True)]
    ratios = [statistics.median(row[k] / row[3] for row in times[1:]) for k in range(3)]
    return [
        FrozenRow(
            model=config.model.label,
            frozen=every - learner.layout.size,
            trained=learner.layout.size,
            seconds_plain=medians[0],
            seconds_steps=medians[1],
            seconds_rounds=medians[2],
            seconds_kept=medians[3],
            ratio_to_plain_loop=ratios[0],
            ratio_to_steps=ratios[1],
            ratio_to_rounds=ratios[2],
        )
    ]


def _engine(simulation: Simulation) -> float:
    """Seconds of a round's training by the engine."""
    return simulation.round().seconds["train"]


def _plain(loop: PlainLoop) -> float:
    """Seconds of a round of the plain loop, on one thread as the engine has."""
    with one_thread():
        began = time.perf_counter()
        for name in loop.names:
            loop.train(name, 0)
        return time.perf_counter() - began
