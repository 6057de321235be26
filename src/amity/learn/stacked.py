r"""Many tiny models in one step: the parameters of G peers as rows of a matrix, one batched product
a layer.

A step of a tiny model is nearly all overhead, so G peers trained together cost little more than
one. Every peer keeps its own data, order of examples and number of steps; where batches differ in
size, the missing examples weigh nothing:

    loss = Σ_g Σ_b v_gb · CE(f(x_gb; θ_g), y_gb),   v_gb = 1/|batch of g| for real examples, else 0

so that ∂loss/∂θ_g is the gradient of peer g alone. `Learner.fit`, one peer after the other, is the
oracle in the tests; sums inside products may run in another order, so the two agree to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from amity.core import Fitted, Moments
from amity.data.samples import Samples
from amity.learn.chains import by_hand, chain_of, gradients_of, run_chain
from amity.learn.descent import Descent
from amity.learn.learner import FREE, Bounds, Learner, Score, score_of

EXAMPLES = 1 << 14
"""At most about so many examples in one forward pass when nothing is trained."""


@dataclass(frozen=True)
class FitJob:
    """One peer's part of a stacked `fit`."""

    theta: torch.Tensor
    data: Samples
    rng: np.random.Generator
    bounds: Bounds = FREE
    moments: Moments | None = None


@dataclass(frozen=True)
class _Steps:
    """Batches of all steps of G peers, by position in each peer's data: S x G x B, and the weight
    of each example."""

    position: torch.Tensor
    weight: torch.Tensor
    counts: list[int]
    """Steps of each peer, falling."""


AT_ONCE = 1 << 24
"""Numbers of a group's examples that are normalised once and kept; beyond, every step does its
own."""


class _Examples:
    """The examples of G peers, by position in each peer's data."""

    def __init__(
        self, datas: Sequence[Samples], device: torch.device, channels_last: bool = False
    ) -> None:
        self._pixels = datas[0].pixels
        self._index = _padded([data.index for data in datas]).to(device)
        self._y = torch.cat(
            [data.pixels.y[row] for data, row in zip(datas, self._index, strict=True)]
        )
        self._kept: torch.Tensor | None = None
        if self._index.numel() * self._pixels.x[0].numel() <= AT_ONCE:
            self._kept = self._pixels.batch(self._index.flatten())[0]
        self._last = channels_last and self._kept is not None
        if self._kept is not None and self._last:
            self._kept = self._kept.permute(0, 2, 3, 1).contiguous()
        self._first = torch.arange(len(datas), device=device)[:, None] * self._index.shape[1]

    def batch(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x as G x B x shape, and y in one row."""
        at = (self._first[: len(position)] + position.to(self._index.device)).flatten()
        kept = self._kept
        x = (
            self._pixels.batch(self._index.flatten()[at])[0]
            if kept is None
            else kept.index_select(0, at)
        )
        x = x.view(len(position), -1, *x.shape[1:])
        return x.permute(0, 1, 4, 2, 3) if self._last else x, self._y.index_select(0, at)


class Stack:
    """The passes of a `Learner`, for several peers at once."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._layers = chain_of(learner.module)
        self._by_hand = learner.precision == "fp32" and by_hand(self._layers)

    @staticmethod
    def suits(learner: Learner, example: torch.Tensor) -> bool:
        """Whether the module can be stacked: nothing random, and torch can batch its operations."""
        if learner.recipe.augment:
            return False
        try:
            learner.module.train()
            theta = torch.zeros(2, learner.layout.size, device=learner.device)
            with torch.no_grad():
                Stack(learner).forward(theta, example.expand(2, 1, *example.shape))
        except Exception:  # it may be anybody's module, and then it trains one peer at a time
            return False
        return True

    # -- passes ------------------------------------------------------------------------------------

    def forward(self, theta_GP: torch.Tensor, x_GB: torch.Tensor) -> torch.Tensor:
        """Logits, G x B x classes."""
        return self._run({slot.name: slot.of(theta_GP) for slot in self.learner.layout.slots}, x_GB)

    def _run(self, parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        with self.learner.autocast():
            if self._layers is None:
                module = self.learner.module
                logits: torch.Tensor = vmap(lambda p, one: functional_call(module, p, (one,)))(
                    parameters, x
                )
                self.learner.forget()
                return logits.float()
            return run_chain(self._layers, parameters, x)[0][-1].float()

    def fit(
        self,
        jobs: Sequence[FitJob],
        epochs: int,
        part: slice | None,
        round: int,
        rounds: int = 0,
    ) -> list[Fitted]:
        """As `Learner.fit`, for every job; all are bounded in the same way, or none is, and all
        have moments, or none has."""
        learner, recipe = self.learner, self.learner.recipe.at(round)
        part = part or learner.layout.everything
        learner.module.train()
        ranked = sorted(range(len(jobs)), key=lambda g: -_steps(jobs[g], recipe.batch))
        steps = _steps_of([jobs[g] for g in ranked], recipe.batch, epochs)
        theta = torch.stack([jobs[g].theta for g in ranked])
        if not steps.counts or steps.counts[0] == 0 or part.start == part.stop:
            return [Fitted(job.theta.clone(), float("nan")) for job in jobs]
        images = self._layers is not None and any(
            isinstance(layer, nn.Conv2d) for _, layer in self._layers
        )
        examples = _Examples([jobs[g].data for g in ranked], learner.device, images)
        descent = Descent(
            theta,
            learner.layout,
            recipe,
            part=part,
            scale=recipe.scale(round, rounds),
            bounds=[jobs[g].bounds for g in ranked],
            tracked=not self._by_hand,
            moments=[m for g in ranked if (m := jobs[g].moments) is not None],
        )
        losses = self._descend(descent, steps, examples)
        descent.keep()
        out: list[Fitted | None] = [None] * len(jobs)
        for row, g in enumerate(ranked):
            count, size = steps.counts[row], len(jobs[g].data)
            last = slice(count - count // epochs, count)
            sizes = (steps.weight[last, row] > 0).sum(1)
            mean = float((losses[last, row] * sizes).sum()) / size if size else float("nan")
            out[g] = Fitted(theta[row].clone(), mean)
        return [fitted for fitted in out if fitted is not None]

    def _descend(self, descent: Descent, steps: _Steps, examples: _Examples) -> torch.Tensor:
        """All steps of all peers. Returns the losses, S x G."""
        losses = torch.zeros(steps.position.shape[:2])
        for step in range(len(steps.position)):
            going = sum(count > step for count in steps.counts)
            descent.go_on(going)
            x, y = examples.batch(steps.position[step, :going])
            weight = steps.weight[step, :going].to(x.device)
            each, gradients = self._gradients(descent, x, y, weight)
            losses[step, :going] = each.detach()
            self.learner.steps += going
            descent.step(gradients)
        descent.put_back()
        return losses

    def _gradients(
        self, descent: Descent, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Losses of those who go on, and the gradients of what is trained."""
        if self._layers is not None and self._by_hand:
            each, found = gradients_of(self._layers, descent.parameters, x, y, weight)
            return each, [found[name] for name in descent.names]
        logits = self._run(descent.parameters, x).flatten(0, 1)
        each = (F.cross_entropy(logits, y, reduction="none").view(len(x), -1) * weight).sum(1)
        return each, list(torch.autograd.grad(each.sum(), descent.trained))

    @torch.no_grad()
    def logits(
        self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]
    ) -> list[torch.Tensor]:
        """Of each model on its own examples, in evaluation mode."""
        self.learner.module.eval()
        out: list[torch.Tensor] = []
        at = 0
        while at < len(thetas):
            width = len(datas[at])
            upto = at + 1
            while upto < len(thetas) and max(width, len(datas[upto])) * (upto + 1 - at) <= EXAMPLES:
                width, upto = max(width, len(datas[upto])), upto + 1
            index = _padded([data.index for data in datas[at:upto]])
            x, _ = datas[at].pixels.batch(index.flatten().to(self.learner.device))
            logits = self.forward(
                torch.stack(list(thetas[at:upto])), x.view(upto - at, width, *x.shape[1:])
            )
            out += [logits[g, : len(data)] for g, data in enumerate(datas[at:upto])]
            at = upto
        return out

    def losses(self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]) -> list[float]:
        """Mean cross-entropy of each model on its own examples."""
        labels = (data.pixels.y[data.index] for data in datas)
        return [
            float(F.cross_entropy(z, y))
            for z, y in zip(self.logits(thetas, datas), labels, strict=True)
        ]

    def scores(self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]) -> list[Score]:
        labels = (data.pixels.y[data.index] for data in datas)
        return [score_of(z, y) for z, y in zip(self.logits(thetas, datas), labels, strict=True)]


def _padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Index vectors as one matrix; short ones are filled up with their first entry."""
    width = max(len(row) for row in rows)
    out = torch.zeros(len(rows), width, dtype=torch.long)
    for g, row in enumerate(rows):
        out[g, : len(row)] = row
        out[g, len(row) :] = row[0] if len(row) else 0
    return out


def _steps(job: FitJob, batch: int) -> int:
    """Of one epoch."""
    return math.ceil(len(job.data) / batch)


def _steps_of(jobs: Sequence[FitJob], batch: int, epochs: int) -> _Steps:
    """Every peer's own order of examples, drawn as `Learner.fit` draws it."""
    counts = [epochs * _steps(job, batch) for job in jobs]
    width = min(batch, max((len(job.data) for job in jobs), default=0))
    position = np.zeros((max(counts, default=0), len(jobs), width), np.int64)
    weight = np.zeros(position.shape, np.float32)
    for g, job in enumerate(jobs):
        job.rng.integers(2**62)  # what `Learner.fit` seeds torch with
        size, steps = len(job.data), _steps(job, batch)
        for epoch in range(epochs):
            order = np.zeros(steps * batch, np.int64)
            order[:size] = job.rng.permutation(size)
            real = (np.arange(steps * batch) < size).reshape(steps, batch)
            where = slice(epoch * steps, (epoch + 1) * steps)
            position[where, g] = order.reshape(steps, batch)[:, :width]
            weight[where, g] = (real / real.sum(1, keepdims=True))[:, :width]
    return _Steps(torch.from_numpy(position), torch.from_numpy(weight), counts)
