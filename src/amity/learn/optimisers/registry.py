"""Where optimisers register, and what one is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

from amity.lazy import torch
from amity.registry import Registry

Tensors = list["torch.Tensor"]
Vectors = dict[str, list["torch.Tensor | None"]]
"""What an optimiser remembers, by name: one tensor for each parameter. None: still zeros."""


class Move(NamedTuple):
    """What one step is made of. Parameters and vectors are written in place."""

    parameters: Tensors
    gradients: Tensors
    vectors: Vectors
    steps: Sequence[int]
    """How many steps there are by now, this one included: of each parameter, or of each row."""
    rate: float


class Optimiser:
    """How gradients become steps. A frozen dataclass: its fields are its options.

    It acts coordinate by coordinate, sees nothing but gradients and parameters, and writes in
    place. So it serves one peer as it does a stack of peers, any part of a model, and gradients
    that DP-SGD has made private: what follows from those costs no further ε.
    """

    rate: ClassVar[float] = 0.01
    """`train.lr`, where nobody says it."""

    @property
    def remembers(self) -> tuple[str, ...]:
        """Names of what it remembers from step to step, as long as the parameters and zero at
        first."""
        return ()

    def step(self, move: Move) -> None:
        """One step of some parameters, each with its number of steps."""
        raise NotImplementedError

    def step_rows(self, move: Move) -> None:
        """One step of several peers at once: each tensor has a row for each, and `steps` a number.
        Rows that have come equally far step as one."""
        parameters, gradients, vectors, steps, rate = move
        if min(steps) == max(steps):
            self.step(move._replace(steps=[steps[0]] * len(parameters)))
            return
        ends, runs = 0, []
        for count, same in groupby(steps):
            begins, ends = ends, ends + len(list(same))
            runs.append((slice(begins, ends), count))
        self.step(
            Move(
                [p[rows] for rows, _ in runs for p in parameters],
                [g[rows] for rows, _ in runs for g in gradients],
                {
                    name: [None if v is None else v[rows] for rows, _ in runs for v in held]
                    for name, held in vectors.items()
                },
                [count for _, count in runs for _ in parameters],
                rate,
            )
        )


optimisers: Registry[Optimiser] = Registry(
    "optimiser",
    "step",
    "step_rows",
    attributes=("rate", "remembers"),
    home="amity.learn.optimisers",
)
