"""Made-up images for measuring speed: nothing to download, any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, build, datasets
from amity.rng import rng


@datasets.register("synthetic")
@dataclass(frozen=True)
class Synthetic:
    """Images that are noise around a picture of their class: for benchmarks and tests of size, not
    for science."""

    shape: Annotated[str, Field(pattern=r"^[1-9]\d{0,3}x[1-9]\d{0,3}x[1-9]\d{0,3}$")] = "1x28x28"
    """Channels, height and width."""
    classes: Annotated[int, Field(ge=2, le=1000)] = 10
    """How many classes there are."""
    train: Annotated[int, Field(ge=1)] = 6000
    """Training examples, of all peers together."""
    test: Annotated[int, Field(ge=1)] = 1000
    """Test examples, of all peers together."""

    suits: ClassVar[Mapping[str, Any]] = {
        "peers": 20,
        "rounds": 10,
        "partition": {"samples": 100},
        "model": {"name": "mlp"},
    }

    def load(self) -> Dataset:
        draw = rng(0, "synthetic", self.shape, self.classes)
        shape = tuple(int(part) for part in self.shape.split("x"))
        pictures = draw.integers(64, 192, size=(self.classes, *shape), dtype=np.uint8)
        count = self.train + self.test
        y = np.arange(count) % self.classes
        x = np.empty((count, *shape), np.uint8)
        step = max(1, (1 << 24) // math.prod(shape))
        for at in range(0, count, step):
            part = slice(at, min(at + step, count))
            noise = draw.integers(0, 64, size=(part.stop - at, *shape), dtype=np.uint8)
            np.add(pictures[y[part]], noise, out=x[part])
        index = np.arange(count)
        return build(
            "synthetic", x, y, index[: self.train], index[self.train :], mean=160.0, std=42.0
        )
