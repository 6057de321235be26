"""Local training and evaluation: the hot path.

One module serves all peers of a process. Its parameters are views of one flat vector and its gradients views of
another, so loading a peer is one copy, an optimiser step a few vector operations, and nothing is ever deep-copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from amity.layout import Layout

CHUNK = 1024
"""Examples in one forward pass when nothing is trained."""


@dataclass(frozen=True)
class Pixels:
    """All examples of a dataset, once in memory; batches are normalised on the fly."""

    x: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor

    def to(self, device: str) -> Pixels:
        """The same on a device; nothing is copied where it lies there already."""
        return Pixels(*(part.to(device) for part in (self.x, self.y, self.mean, self.std)))

    def batch(self, index: torch.Tensor, augment: np.random.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised examples and their labels; with a generator, cropped and mirrored at random."""
        x = self.x[index]
        x = x if augment is None else crop_flip(x, augment)
        x = x.to(torch.float32) if x.dtype != torch.float32 else x
        return x.sub_(self.mean).div_(self.std), self.y[index]


PADDING = 4


def crop_flip(x: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """Each image of a batch, padded by black, cut out at a random place and mirrored half of the time."""
    count, _, height, width = x.shape
    down, right = torch.from_numpy(draw.integers(2 * PADDING + 1, size=(2, count))).to(x.device)
    mirror = torch.from_numpy(draw.random(count) < 0.5).to(x.device)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).repeat(count, 1)
    columns = torch.where(mirror[:, None], width - 1 - columns, columns) + right[:, None]
    padded = F.pad(x, (PADDING,) * 4)
    picture = torch.arange(count, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[picture, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Samples:
    """Some examples of a dataset, by index."""

    pixels: Pixels
    index: torch.Tensor

    def __len__(self) -> int:
        return len(self.index)

    def first(self, count: int) -> Samples:
        """At most `count` of them; 0 means all."""
        return Samples(self.pixels, self.index[:count]) if count else self

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for part in torch.split(self.index, size):
            yield self.pixels.batch(part)


@dataclass(frozen=True)
class Score:
    """Accuracy, its mean over the classes that occur (balanced), and mean cross-entropy."""

    accuracy: float
    balanced: float
    loss: float


@dataclass(frozen=True)
class Recipe:
    """How local training steps: SGD with momentum, a fresh optimiser for every phase of every round."""

    lr: float
    lr_head: float
    momentum: float
    weight_decay: float
    batch: int
    clip: float
    decay: float = 1.0
    augment: bool = False


class Learner:
    """Runs one module for every peer of this process, and counts what that costs in examples."""

    def __init__(self, module: nn.Module, layout: Layout, recipe: Recipe, device: str = "cpu") -> None:
        self.module, self.layout, self.recipe = module.to(device), layout, recipe
        self.device = torch.device(device)
        self.flat = torch.zeros(layout.size, device=self.device)
        self.grad = torch.zeros(layout.size, device=self.device)
        self.forward_examples = 0
        self.backward_examples = 0
        self._features: torch.Tensor | None = None
        self._parameters = self._bind()
        module.get_submodule(layout.head_name).register_forward_pre_hook(self._catch)

    def _bind(self) -> list[tuple[int, nn.Parameter]]:
        named = dict(self.module.named_parameters())
        bound = []
        for slot in self.layout.slots:
            parameter = named[slot.name]
            part = slice(slot.start, slot.start + parameter.numel())
            self.flat[part].copy_(parameter.data.reshape(-1))
            parameter.data = self.flat[part].view(slot.shape)
            parameter.grad = self.grad[part].view(slot.shape)
            bound.append((slot.start, parameter))
        return bound

    def _catch(self, _module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._features = inputs[0]

    def initial(self) -> torch.Tensor:
        """The parameters that the module was built with (call it before anything is loaded)."""
        return self.flat.clone()

    def costs(self) -> tuple[int, int]:
        """Forward and backward examples so far; the difference of two calls is what lay between them."""
        return self.forward_examples, self.backward_examples

    def _load(self, theta: torch.Tensor, part: slice | None) -> None:
        """Put theta in, with gradients only for `part` (None: for nothing)."""
        self.flat.copy_(theta)
        for start, parameter in self._parameters:
            parameter.requires_grad_(part is not None and part.start <= start < part.stop)

    def fit(
        self,
        theta: torch.Tensor,
        data: Samples,
        rng: np.random.Generator,
        epochs: int,
        part: slice | None = None,
        round: int = 0,
    ) -> tuple[torch.Tensor, float]:
        """`epochs` epochs of SGD on `part` of theta (None: all of it). Returns the new theta and the mean loss of the
        last epoch. Everything outside `part` comes back bit-identical."""
        part = part or self.layout.everything
        if epochs == 0 or len(data) == 0 or part.start == part.stop:
            return theta.clone(), float("nan")
        self._load(theta, part)
        self.module.train()
        momentum = torch.zeros_like(self.flat[part])
        loss_sum, scale = 0.0, self.recipe.decay**round
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            for _ in range(epochs):
                order = data.index[torch.from_numpy(rng.permutation(len(data)))]
                losses = []
                for chosen in torch.split(order, self.recipe.batch):
                    x, y = data.pixels.batch(chosen, rng if self.recipe.augment else None)
                    self.grad.zero_()
                    loss = F.cross_entropy(self.module(x), y)
                    torch.autograd.backward(loss)
                    self._step(part, momentum, scale)
                    losses.append(loss.detach() * len(chosen))
                loss_sum = float(torch.stack(losses).sum())
        self.forward_examples += epochs * len(data)
        self.backward_examples += epochs * len(data)
        return self.flat.clone(), loss_sum / len(data)

    @torch.no_grad()
    def _step(self, part: slice, momentum: torch.Tensor, scale: float) -> None:
        recipe, gradient, weights = self.recipe, self.grad[part], self.flat[part]
        if recipe.weight_decay:
            gradient.add_(weights, alpha=recipe.weight_decay)
        if recipe.clip:
            gradient.mul_(min(1.0, recipe.clip / (float(gradient.norm()) + 1e-12)))
        momentum.mul_(recipe.momentum).add_(gradient)
        border = min(max(self.layout.head.start - part.start, 0), len(momentum))
        weights[:border].sub_(momentum[:border], alpha=recipe.lr * scale)
        weights[border:].sub_(momentum[border:], alpha=recipe.lr_head * scale)

    def gradient(self, theta: torch.Tensor, data: Samples, part: slice | None = None) -> tuple[torch.Tensor, float]:
        """The gradient of the mean loss over all of `data` with respect to `part`, and that loss. Nothing is trained."""
        part = part or self.layout.everything
        self._load(theta, part)
        self.module.eval()
        self.grad.zero_()
        total = 0.0
        for x, y in data.chunks():
            loss = F.cross_entropy(self.module(x), y, reduction="sum")
            torch.autograd.backward(loss)
            total += float(loss.detach())
        self.forward_examples += len(data)
        self.backward_examples += len(data)
        count = max(len(data), 1)
        return self.grad[part] / count, total / count

    @torch.no_grad()
    def loss(self, theta: torch.Tensor, data: Samples) -> float:
        """Mean cross-entropy of theta on `data`, in evaluation mode."""
        self._load(theta, None)
        self.module.eval()
        total = sum(float(F.cross_entropy(self.module(x), y, reduction="sum")) for x, y in data.chunks())
        self.forward_examples += len(data)
        return total / max(len(data), 1)

    @torch.no_grad()
    def mean_feature(self, theta: torch.Tensor, data: Samples) -> torch.Tensor:
        """The mean of what the body hands to the head."""
        self._load(theta, None)
        self.module.eval()
        sums: list[torch.Tensor] = []
        for x, _ in data.chunks():
            self.module(x)
            if self._features is not None:
                sums.append(self._features.flatten(1).sum(0))
        self.forward_examples += len(data)
        return torch.stack(sums).sum(0) / max(len(data), 1)

    @torch.no_grad()
    def score(self, theta: torch.Tensor, data: Samples) -> Score:
        """Accuracy, balanced accuracy and loss on `data`: measurement, so it is not counted as a cost."""
        self._load(theta, None)
        self.module.eval()
        hits, labels, loss = [], [], 0.0
        for x, y in data.chunks():
            logits = self.module(x)
            loss += float(F.cross_entropy(logits, y, reduction="sum"))
            hits.append(logits.argmax(1) == y)
            labels.append(y)
        hit, y = torch.cat(hits), torch.cat(labels)
        count = torch.bincount(y)
        right = torch.bincount(y[hit], minlength=len(count))
        recall = right[count > 0] / count[count > 0]
        return Score(float(hit.float().mean()), float(recall.mean()), loss / max(len(data), 1))

    @torch.no_grad()
    def probabilities(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Class probabilities for normalised inputs."""
        self._load(theta, None)
        self.module.eval()
        return torch.cat([torch.softmax(self.module(part), 1) for part in torch.split(x, CHUNK)])
