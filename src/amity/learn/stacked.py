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

from amity.core import Fitted
from amity.data.samples import Samples
from amity.learn.learner import FREE, Bounds, Learner, Score, score_of

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Identity)
EXAMPLES = 1 << 14
"""At most about so many examples in one forward pass when nothing is trained."""


Layers = list[tuple[str, nn.Module]]
"""Layers of a chain, with their names."""


@dataclass(frozen=True)
class FitJob:
    """One peer's part of a stacked `fit`."""

    theta: torch.Tensor
    data: Samples
    rng: np.random.Generator
    bounds: Bounds = FREE


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
        self._pixels, self._index = (
            datas[0].pixels,
            _padded([data.index for data in datas]).to(device),
        )
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
        self._layers = _chain(learner.module)
        kinds = (nn.Flatten, nn.Linear, nn.ReLU, nn.Conv2d)
        self._by_hand = self._layers is not None and learner.precision == "fp32"
        self._by_hand = self._by_hand and all(
            isinstance(layer, kinds) for _, layer in self._layers or ()
        )

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
            return self._run_chain(self._layers, parameters, x)[0][-1].float()

    @staticmethod
    def _run_chain(
        layers: Layers, parameters: dict[str, torch.Tensor], x: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What goes into each layer of a chain, and last what comes out; and the matrix that each
        multiplies."""
        seen, factors = [x], []
        for name, layer in layers:
            factors.append(x)
            if isinstance(layer, nn.Flatten):
                x = x.flatten(2)
            elif isinstance(layer, (nn.Linear, nn.Conv2d)):
                bias = parameters.get(f"{name}.bias")
                weight = _matrix(parameters[f"{name}.weight"]).transpose(1, 2)
                factors[-1] = a = _patches(x, layer) if isinstance(layer, nn.Conv2d) else x
                z = (
                    torch.bmm(a, weight)
                    if bias is None
                    else torch.baddbmm(bias[:, None], a, weight)
                )
                x = _images(z, x, layer) if isinstance(layer, nn.Conv2d) else z
            else:
                x = layer(x)
            seen.append(x)
        return seen, factors

    def fit(
        self, jobs: Sequence[FitJob], epochs: int, part: slice | None, round: int
    ) -> list[Fitted]:
        """As `Learner.fit`, for every job; all are bounded in the same way, or none is."""
        learner, recipe = self.learner, self.learner.recipe
        part = part or learner.layout.everything
        learner.module.train()
        ranked = sorted(range(len(jobs)), key=lambda g: -_steps(jobs[g], recipe.batch))
        plan = _plan([jobs[g] for g in ranked], recipe.batch, epochs)
        theta = torch.stack([jobs[g].theta for g in ranked])
        if not plan.counts or plan.counts[0] == 0 or part.start == part.stop:
            return [Fitted(job.theta.clone(), float("nan")) for job in jobs]
        images = self._layers is not None and any(
            isinstance(layer, nn.Conv2d) for _, layer in self._layers
        )
        examples = _Examples([jobs[g].data for g in ranked], learner.device, images)
        losses = self._descend(
            theta, plan, examples, part, recipe.decay**round, [jobs[g].bounds for g in ranked]
        )
        out: list[Fitted | None] = [None] * len(jobs)
        for row, g in enumerate(ranked):
            count, size = plan.counts[row], len(jobs[g].data)
            last = slice(count - count // epochs, count)
            sizes = (plan.weight[last, row] > 0).sum(1)
            mean = float((losses[last, row] * sizes).sum()) / size if size else float("nan")
            out[g] = Fitted(theta[row].clone(), mean)
        return [fitted for fitted in out if fitted is not None]

    def _descend(
        self,
        theta: torch.Tensor,
        plan: _Steps,
        examples: _Examples,
        part: slice,
        scale: float,
        bounds: Sequence[Bounds],
    ) -> torch.Tensor:
        """SGD on all rows of theta, in place, each for its own number of steps. Returns the losses,
        S x G."""
        learner, recipe = self.learner, self.learner.recipe
        slots = learner.layout.slots
        inside = [part.start <= slot.start < part.stop for slot in slots]
        rates = [
            (recipe.lr_head if slot.start >= learner.layout.head.start else recipe.lr) * scale
            for slot in slots
        ]
        anchor, mask = (_stacked([getattr(b, key) for b in bounds]) for key in ("anchor", "mask"))
        pull, trained_slots = (
            bounds[0].pull,
            [slot for slot, on in zip(slots, inside, strict=True) if on],
        )
        losses = torch.zeros(plan.position.shape[:2])
        active, leaves, momenta = 0, [torch.empty(0)] * len(slots), [torch.empty(0)] * len(slots)
        for step in range(len(plan.position)):
            going = sum(count > step for count in plan.counts)
            if going != active:
                self._put_back(theta, leaves)
                leaves = [
                    slot.of(theta[:going]).clone().requires_grad_(on and not self._by_hand)
                    for slot, on in zip(slots, inside, strict=True)
                ]
                momenta = [
                    m[:going].clone() if active else torch.zeros_like(v)
                    for m, v in zip(momenta, leaves, strict=True)
                ]
                active = going
            x, y = examples.batch(plan.position[step, :going])
            named = {slot.name: leaf for slot, leaf in zip(slots, leaves, strict=True)}
            weight = plan.weight[step, :going].to(x.device)
            trained = [leaf for leaf, on in zip(leaves, inside, strict=True) if on]
            if self._by_hand:
                each, found = self._chain_gradients(named, x, y, weight)
                gradients = [found[slot.name] for slot, on in zip(slots, inside, strict=True) if on]
            else:
                loss = F.cross_entropy(self._run(named, x).flatten(0, 1), y, reduction="none").view(
                    going, -1
                )
                each = (loss * weight).sum(1)
                gradients = list(torch.autograd.grad(each.sum(), trained))
            losses[step, :going] = each.detach()
            learner.steps += going
            kept = [m for m, on in zip(momenta, inside, strict=True) if on]
            near = (
                [slot.of(anchor[:going]) for slot in trained_slots]
                if anchor is not None and pull
                else []
            )
            self._update(
                trained,
                gradients,
                kept,
                [rate for rate, on in zip(rates, inside, strict=True) if on],
                near,
                pull,
            )
            if mask is not None:
                with torch.no_grad():
                    torch._foreach_mul_(
                        trained, [slot.of(mask[:going]).to(theta.dtype) for slot in trained_slots]
                    )
        self._put_back(theta, leaves)
        return losses

    @torch.no_grad()
    def _chain_gradients(
        self,
        parameters: dict[str, torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        weight: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        r"""Losses of G peers and the gradients of a chain of Linear, patch convolutions and ReLU,
        written out: a third of autograd's time.

        With z = a Wᵀ + b,  δ = ∂loss/∂z:   ∂W = δᵀ a,  ∂b = Σ δ,  ∂a = δ W;  ReLU lets δ through
        where its output is > 0; at the top δ = v (softmax(z) − onehot(y)).
        """
        layers = self._layers or []
        seen, factors = self._run_chain(layers, parameters, x)
        log_p, label = seen[-1].log_softmax(2), y.view(weight.shape)[:, :, None]
        each = -(log_p.gather(2, label)[:, :, 0] * weight).sum(1)
        delta = (
            log_p.exp_()
            .scatter_add_(2, label, torch.full_like(label, -1, dtype=log_p.dtype))
            .mul_(weight[:, :, None])
        )
        gradients: dict[str, torch.Tensor] = {}
        for at in range(len(layers) - 1, -1, -1):
            name, layer = layers[at]
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                weight_of = parameters[f"{name}.weight"]
                if isinstance(layer, nn.Conv2d):
                    delta = delta.permute(0, 1, 3, 4, 2).flatten(1, 3)
                gradients[f"{name}.weight"] = _unmatrix(
                    torch.bmm(delta.transpose(1, 2), factors[at]), weight_of
                )
                gradients[f"{name}.bias"] = delta.sum(1)
                if not any(isinstance(part, (nn.Linear, nn.Conv2d)) for _, part in layers[:at]):
                    break
                delta = torch.bmm(delta, _matrix(weight_of))
                delta = (
                    _unpatched(delta, seen[at], layer) if isinstance(layer, nn.Conv2d) else delta
                )
            elif isinstance(layer, nn.ReLU):
                delta = delta * (seen[at] > 0)
            else:
                delta = delta.view(seen[at].shape)
        return each, gradients

    def _put_back(self, theta: torch.Tensor, leaves: list[torch.Tensor]) -> None:
        for slot, leaf in zip(self.learner.layout.slots, leaves, strict=True):
            if len(leaf):
                slot.of(theta)[: len(leaf)].copy_(leaf.detach())

    @torch.no_grad()
    def _update(
        self,
        leaves: list[torch.Tensor],
        grads: list[torch.Tensor],
        momenta: list[torch.Tensor],
        rates: list[float],
        anchors: list[torch.Tensor],
        pull: float,
    ) -> None:
        recipe = self.learner.recipe
        if recipe.clip:
            norms = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
            factor = (recipe.clip / (norms + 1e-6)).clamp_max(1)
            for g in grads:
                g.mul_(factor.view(-1, *[1] * (g.dim() - 1)))
        if anchors:
            torch._foreach_add_(grads, torch._foreach_sub(leaves, anchors), alpha=pull)
        if recipe.weight_decay:
            torch._foreach_add_(grads, leaves, alpha=recipe.weight_decay)
        if recipe.momentum:
            torch._foreach_mul_(momenta, recipe.momentum)
            torch._foreach_add_(momenta, grads)
            grads = momenta
        for rate in sorted(set(rates)):
            mine = [k for k, other in enumerate(rates) if other == rate]
            torch._foreach_add_([leaves[k] for k in mine], [grads[k] for k in mine], alpha=-rate)

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


def _is_patch(layer: nn.Module) -> bool:
    """Whether a convolution looks at patches that do not overlap, so that it is a product after
    moving numbers around."""
    return (
        type(layer) is nn.Conv2d
        and layer.stride == layer.kernel_size
        and (layer.padding, layer.dilation, layer.groups) == ((0, 0), (1, 1), 1)
    )


def _grid(x: torch.Tensor, layer: nn.Conv2d) -> tuple[int, int, int, int]:
    """Rows and columns of patches, and the height and width of one."""
    high, wide = layer.kernel_size
    return x.shape[3] // high, x.shape[4] // wide, high, wide


def _matrix(weight: torch.Tensor) -> torch.Tensor:
    """G x out x in; a convolution's in the order (height, width, channel), in which images lie in
    memory here."""
    return weight if weight.dim() == 3 else weight.permute(0, 1, 3, 4, 2).flatten(2)


def _unmatrix(matrix: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Back into the weight's own shape."""
    if weight.dim() == 3:
        return matrix
    g, out, channels, high, wide = weight.shape
    return matrix.view(g, out, high, wide, channels).permute(0, 1, 4, 2, 3).contiguous()


def _patches(x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """Images G x B x C x H x W as G x (B · patches) x (patch); a margin that no patch covers is
    left out."""
    rows, columns, high, wide = _grid(x, layer)
    last = x.permute(0, 1, 3, 4, 2)[:, :, : rows * high, : columns * wide]
    cut = last.reshape(len(x), x.shape[1], rows, high, columns, wide, x.shape[2])
    return cut.transpose(3, 4).flatten(4).flatten(1, 3)


def _images(z: torch.Tensor, x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """What a convolution of x yields, a row a patch, as images G x B x channels x rows x
    columns."""
    rows, columns, _, _ = _grid(x, layer)
    return z.view(len(x), x.shape[1], rows, columns, -1).permute(0, 1, 4, 2, 3)


def _unpatched(delta: torch.Tensor, x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """The derivative by x from that by its patches; a margin has none."""
    rows, columns, high, wide = _grid(x, layer)
    cut = delta.view(len(x), x.shape[1], rows, columns, high, wide, x.shape[2]).transpose(3, 4)
    whole = cut.flatten(4, 5).flatten(2, 3)
    margin = (0, 0, 0, x.shape[4] - columns * wide, 0, x.shape[3] - rows * high)
    return (F.pad(whole, margin) if any(margin) else whole).permute(0, 1, 4, 2, 3)


def _chain(module: nn.Module, prefix: str = "") -> Layers | None:
    """The layers of a plain chain of Linear, patch convolutions and elementwise layers, with their
    names; else None."""
    if type(module) is not nn.Sequential:
        return None
    layers: Layers = []
    for name, layer in module.named_children():
        inner = _chain(layer, f"{prefix}{name}.") if type(layer) is nn.Sequential else None
        if inner is not None:
            layers += inner
        elif (
            type(layer) in (nn.Linear, *ELEMENTWISE)
            or _is_patch(layer)
            or (type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1))
        ):
            layers.append((prefix + name, layer))
        else:
            return None
    return layers


def _padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Index vectors as one matrix; short ones are filled up with their first entry."""
    width = max(len(row) for row in rows)
    out = torch.zeros(len(rows), width, dtype=torch.long)
    for g, row in enumerate(rows):
        out[g, : len(row)] = row
        out[g, len(row) :] = row[0] if len(row) else 0
    return out


def _stacked(vectors: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Vectors of all peers as one matrix, where they have any."""
    there = [vector for vector in vectors if vector is not None]
    return torch.stack(there) if len(there) == len(vectors) else None


def _steps(job: FitJob, batch: int) -> int:
    """Of one epoch."""
    return math.ceil(len(job.data) / batch)


def _plan(jobs: Sequence[FitJob], batch: int, epochs: int) -> _Steps:
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
