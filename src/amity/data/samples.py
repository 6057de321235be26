"""Examples in memory, some of them by index, and what one peer holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from amity.data.inputs import Several, are_ids, each
from amity.lazy import torch

CHUNK = 1024
"""Examples in one forward pass when nothing is trained."""


@dataclass(frozen=True)
class Pixels:
    """All examples of a dataset, once in memory; batches are normalised on the fly. Where there are
    several inputs, `mean` and `std` have the same names; ids of tokens are never normalised."""

    x: Any
    """`Inputs`: a tensor, or several by name."""
    y: torch.Tensor
    mean: Any
    std: Any

    def to(self, device: str) -> Pixels:
        """The same on a device; nothing is copied where it lies there already."""
        parts = (self.x, self.y, self.mean, self.std)
        return Pixels(*(each(part, lambda one: one.to(device)) for part in parts))

    def batch(
        self, index: torch.Tensor, augment: np.random.Generator | None = None
    ) -> tuple[Any, torch.Tensor]:
        """Normalised examples and their labels; with a generator, cropped and mirrored at
        random."""
        x: Any = self.x[index]
        if isinstance(x, Several):
            return self._several(x), self.y[index]
        x = x if augment is None else crop_flip(x, augment)
        return normalised(x, self.mean, self.std), self.y[index]

    def _several(self, x: Several) -> Several:
        means, stds = (by.parts if isinstance(by, Several) else {} for by in (self.mean, self.std))
        return Several({n: normalised(part, means[n], stds[n]) for n, part in x.parts.items()})


def normalised(x: torch.Tensor, mean: Any, std: Any) -> torch.Tensor:
    """Floats to mean 0 and deviation 1, in place where they are floats already; ids as long
    numbers."""
    if are_ids(x):
        return x.long()
    x = x.to(torch.float32) if x.dtype != torch.float32 else x
    return x.sub_(mean).div_(std)


PADDING = 4


def crop_flip(x: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """Each image of a batch, padded by black, cut out at a random place and mirrored half of the
    time."""
    count, _, height, width = x.shape
    down, right = torch.from_numpy(draw.integers(2 * PADDING + 1, size=(2, count))).to(x.device)
    mirror = torch.from_numpy(draw.random(count) < 0.5).to(x.device)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).repeat(count, 1)
    columns = torch.where(mirror[:, None], width - 1 - columns, columns) + right[:, None]
    padded = torch.nn.functional.pad(x, (PADDING,) * 4)
    picture = torch.arange(count, device=x.device)[:, None, None]
    return (
        padded.permute(0, 2, 3, 1)[picture, rows[:, :, None], columns[:, None, :]]
        .permute(0, 3, 1, 2)
        .contiguous()
    )


@dataclass(frozen=True)
class Samples:
    """Some examples of a dataset, by index."""

    pixels: Pixels
    index: torch.Tensor

    def __len__(self) -> int:
        return self.index.shape[0]  # len() of a tensor costs a microsecond, and this is asked often

    @property
    def answers(self) -> torch.Tensor:
        return self.pixels.y[self.index]

    def first(self, count: int) -> Samples:
        """At most `count` of them; 0 means all."""
        return Samples(self.pixels, self.index[:count]) if count else self

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[Any, torch.Tensor]]:
        for part in torch.split(self.index, size):
            yield self.pixels.batch(part)


@dataclass(frozen=True)
class PeerData:
    """What one peer holds: indices into the common dataset, and its label distribution over all
    classes."""

    train: Samples
    test: Samples
    validation: Samples
    labels: tuple[float, ...]
    origin: str = ""
    """Who this is in the data (a writer, a hospital), where the partition is natural."""
    group: int | None = None
    """To which hidden group it belongs, where the world has groups. No peer is told."""
