r"""Many tiny models in one step: the parameters of G peers as rows of a matrix, one batched product
a layer.

A step of a tiny model is nearly all overhead, so G peers trained together cost little more than
one. Every peer keeps its own data, order of examples and number of steps; where batches differ in
size, the missing examples weigh nothing:

    loss = Σ_g Σ_b v_gb · f(z(x_gb; θ_g), y_gb),   v_gb = 1/|batch of g| for real examples, else 0

so that ∂loss/∂θ_g is the gradient of peer g alone. What the frozen part of a module makes of the
examples is the same for all peers; where it is known, the stack begins above it. `Learner.fit`, one
peer after the other, is the oracle in the tests; sums inside products may run in another order, so
the two agree to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.func import vmap

from amity.core import Fitted, Moments
from amity.data.inputs import each, numbers
from amity.data.samples import Samples
from amity.learn.chains import ChainLayers, by_hand, chain_of, gradients_of, run_chain
from amity.learn.descent import Descent
from amity.learn.feeding import fed_with
from amity.learn.learner import FREE, Bounds, Learner
from amity.learn.prefix import Cut
from amity.tasks import Score

Named = dict[str, torch.Tensor]
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


class Remembered(NamedTuple):
    """Examples of G peers by what the frozen part makes of them: of each cut, G x B x shape."""

    outputs: list[torch.Tensor]


AT_ONCE = 1 << 24
"""Numbers of a group's examples that are normalised once and kept; beyond, every step does its
own."""


class _Examples:
    """The examples of G peers, by position in each peer's data."""

    def __init__(
        self,
        datas: Sequence[Samples],
        device: torch.device,
        channels_last: bool = False,
        recall: _Recall | None = None,
    ) -> None:
        self._pixels, self._recall = datas[0].pixels, recall
        self._index = _padded([data.index for data in datas]).to(device)
        self._y = torch.cat(
            [data.pixels.y[row] for data, row in zip(datas, self._index, strict=True)]
        )
        self._kept: Any = None
        if recall is None and self._index.numel() * numbers(self._pixels.x) <= AT_ONCE:
            self._kept = self._pixels.batch(self._index.flatten())[0]
        self._last = channels_last and self._kept is not None
        if self._kept is not None and self._last:
            self._kept = self._kept.permute(0, 2, 3, 1).contiguous()
        self._first = torch.arange(len(datas), device=device)[:, None] * self._index.shape[1]

    def batches(self, position_SGB: torch.Tensor) -> _Batches:
        """Those of all steps, looked up at once."""
        rows = self._first + position_SGB.to(self._index.device)
        return _Batches(self, position_SGB, rows, self._y[rows])

    def at(self, position: torch.Tensor, rows: torch.Tensor) -> Any:
        """x as G x B x shape."""
        kept, rows = self._kept, rows.flatten()
        if self._recall is not None:
            return self._recall.batch(position)
        x = (
            self._pixels.batch(self._index.flatten()[rows])[0]
            if kept is None
            else each(kept, lambda part: part.index_select(0, rows))
        )
        x = in_groups(x, position.shape[0])
        return x.permute(0, 1, 4, 2, 3) if self._last else x


class _Batches(NamedTuple):
    """Batches of S steps: positions in each peer's data, rows of all examples, and answers."""

    examples: _Examples
    position: torch.Tensor
    rows: torch.Tensor
    y: torch.Tensor

    def of(self, step: int, going: int) -> tuple[Any, torch.Tensor]:
        """Those of the first peers in one step: x as G x B x shape, and y one after the other."""
        x = self.examples.at(self.position[step, :going], self.rows[step, :going])
        return x, self.y[step, :going].flatten(0, 1)


class _Recall:
    """What the frozen part makes of the examples of G peers, by position in each peer's data."""

    def __init__(self, cuts: Sequence[Cut], outputs: Sequence[list[torch.Tensor]]) -> None:
        self._cuts = cuts
        self._all = [torch.cat([one[at] for one in outputs]) for at in range(len(cuts))]
        sizes = torch.tensor([len(one[0]) for one in outputs])
        self._first = (sizes.cumsum(0) - sizes)[:, None]
        self._last = max(1, int(sizes.sum())) - 1

    def batch(self, position: torch.Tensor) -> Remembered:
        at = (self._first[: len(position)] + position).flatten().clamp_max(self._last)
        pairs = zip(self._cuts, self._all, strict=True)
        rows = [cut.rows(every, at.to(every.device)) for cut, every in pairs]
        return Remembered([in_groups(one, len(position)) for one in rows])


class Stack:
    """The passes of a `Learner`, for several peers at once."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._layers = chain_of(learner.module)
        self._above = self._beyond_cut()
        self._by_hand = learner.precision == "fp32" and by_hand(self._layers)

    @staticmethod
    def suits(learner: Learner, example: Any) -> bool:
        """Whether the module can be stacked: nothing random, and torch can batch its operations."""
        if learner.recipe.augment:
            return False
        try:
            learner.mode(True)
            theta = torch.zeros(2, learner.layout.size, device=learner.device)
            with torch.no_grad():
                Stack(learner).forward(theta, in_groups(example[[0, 0]], 2))
        except Exception:  # it may be anybody's module, and then it trains one peer at a time
            return False
        return True

    # -- passes ------------------------------------------------------------------------------------

    def forward(self, theta_GP: torch.Tensor, x_GB: Any) -> torch.Tensor:
        """What the models give, G x B x the shape of the target."""
        return self._run({slot.name: slot.of(theta_GP) for slot in self.learner.layout.slots}, x_GB)

    def _beyond_cut(self) -> ChainLayers | None:
        """The layers of a chain above what is known of the frozen part."""
        memory = self.learner.memory
        if self._layers is None or memory is None or len(memory.prefix.kept) != 1:
            return None
        name = memory.prefix.kept[0].name
        below = [at for at, (n, _) in enumerate(self._layers) if f"{n}.".startswith(f"{name}.")]
        return self._layers[below[-1] + 1 :] if below else None

    def _chain(
        self, parameters: Named, x: Any, count: int
    ) -> tuple[ChainLayers, Named, torch.Tensor] | None:
        """The layers that examples go through, their parameters and what goes into the first; None
        where the module is no chain."""
        layers, x = (self._above, x.outputs[0]) if isinstance(x, Remembered) else (self._layers, x)
        if layers is None:
            return None
        named = self.learner.module.get_parameter
        frozen = {name: named(name).detach() for name in self.learner.layout.frozen}
        alike = {name: p.expand(count, *p.shape) for name, p in frozen.items()}
        return layers, parameters | alike if alike else parameters, x

    def recall(self, datas: Sequence[Samples]) -> _Recall | None:
        """What the frozen part makes of the examples of some peers; None: it is computed with the
        rest, because nothing is frozen or these are too many at once."""
        memory = self.learner.memory
        if memory is None or not memory.prefix.blind or not memory.fits(sum(map(len, datas))):
            return None
        found = [one for data in datas if (one := memory.of(data)) is not None]
        return _Recall(memory.prefix.kept, found)

    def _run(self, parameters: Named, x: Any) -> torch.Tensor:
        with self.learner.autocast():
            chain = self._chain(parameters, x, len(next(iter(parameters.values()))))
            if chain is not None:
                return run_chain(*chain)[0][-1].float()
            inside = x.outputs if isinstance(x, Remembered) else x
            logits: torch.Tensor = vmap(self._one)(parameters, inside)
            self.learner.forget()
            return logits.float()

    def _one(self, parameters: Named, x: Any) -> torch.Tensor:
        """What the module says for one peer."""
        module, memory = self.learner.module, self.learner.memory
        if not isinstance(x, list) or memory is None:
            return fed_with(module, parameters, x)
        with memory.prefix.given(x):
            return fed_with(module, parameters, memory.prefix.blank(x[0]))

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
        learner.mode(True)
        ranked = sorted(range(len(jobs)), key=lambda g: -_steps(jobs[g], recipe.batch))
        steps = _steps_of([jobs[g] for g in ranked], recipe.batch, epochs)
        theta = torch.stack([jobs[g].theta for g in ranked])
        if not steps.counts or steps.counts[0] == 0 or part.start == part.stop:
            return [Fitted(job.theta.clone(), float("nan")) for job in jobs]
        images = self._layers is not None and any(
            isinstance(layer, nn.Conv2d) for _, layer in self._layers
        )
        datas = [jobs[g].data for g in ranked]
        examples = _Examples(datas, learner.device, images, self.recall(datas))
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
        batches, weights = examples.batches(steps.position), steps.weight.to(self.learner.device)
        for step in range(steps.counts[0]):
            going = sum(count > step for count in steps.counts)
            descent.go_on(going)
            x, y = batches.of(step, going)
            each, gradients = self._gradients(descent, x, y, weights[step, :going])
            losses[step, :going] = each.detach()
            self.learner.steps += going
            descent.step(gradients)
        descent.put_back()
        return losses

    def _gradients(
        self, descent: Descent, x: Any, y: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Losses of those who go on, and the gradients of what is trained."""
        task, target = self.learner.task, self.learner.target
        chain = self._chain(descent.parameters, x, len(weight))
        if chain is not None and self._by_hand:
            each, found = gradients_of(*chain, lambda z: task.slopes(z, y, weight, target))
            return each, [found[name] for name in descent.names]
        z = self._run(descent.parameters, x).flatten(0, 1)
        each = (task.losses(z, y, target).view(weight.shape) * weight).sum(1)
        return each, list(torch.autograd.grad(each.sum(), descent.trained))

    @torch.no_grad()
    def outputs(
        self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]
    ) -> list[torch.Tensor]:
        """Of each model on its own examples, in evaluation mode."""
        self.learner.mode(False)
        out: list[torch.Tensor] = []
        at, most = 0, self._at_once()
        while at < len(thetas):
            width = len(datas[at])
            upto = at + 1
            while upto < len(thetas) and max(width, len(datas[upto])) * (upto + 1 - at) <= most:
                width, upto = max(width, len(datas[upto])), upto + 1
            x = self._side_by_side(datas[at:upto], width)
            logits = self.forward(torch.stack(list(thetas[at:upto])), x)
            out += [logits[g, : len(data)] for g, data in enumerate(datas[at:upto])]
            at = upto
        return out

    def _at_once(self) -> int:
        """How many examples go through in one pass."""
        memory = self.learner.memory
        return EXAMPLES if memory is None else min(EXAMPLES, 4 * AT_ONCE // memory.prefix.nbytes)

    def _side_by_side(self, datas: Sequence[Samples], width: int) -> Any:
        """All examples of some peers, the shorter filled up."""
        recall = self.recall(datas)
        if recall is not None:
            at = torch.arange(width).expand(len(datas), width)
            sizes = torch.tensor([[max(1, len(data))] for data in datas])
            return recall.batch(torch.where(at < sizes, at, 0))
        index = _padded([data.index for data in datas])
        x, _ = datas[0].pixels.batch(index.flatten().to(self.learner.device))
        return in_groups(x, len(datas))

    def losses(self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]) -> list[float]:
        """Mean loss of each model on its own examples."""
        task, target = self.learner.task, self.learner.target
        answers = (data.answers for data in datas)
        return [
            float(task.loss(z, y, target))
            for z, y in zip(self.outputs(thetas, datas), answers, strict=True)
        ]

    def scores(
        self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples], whole: bool = True
    ) -> list[Score]:
        """As `Learner.score`, of each model on its own examples."""
        task, target = self.learner.task, self.learner.target
        answers = (data.answers for data in datas)
        return [
            task.score(z, y, target, whole)
            for z, y in zip(self.outputs(thetas, datas), answers, strict=True)
        ]


def in_groups(x: Any, groups: int) -> Any:
    """Examples of G peers, one peer after the other, as G x B x shape."""
    return each(x, lambda part: part.view(groups, -1, *part.shape[1:]))


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
