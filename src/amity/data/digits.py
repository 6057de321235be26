"""scikit-learn's digits: 1,797 real images of 8 x 8, built in, nothing to download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.rng import rng


@datasets.register("digits")
@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8, 10 classes, built in."""

    suits: ClassVar[Mapping[str, Any]] = {
        "peers": 20,
        "rounds": 25,
        "partition": {"name": "pathological", "classes": 4, "samples": 6, "test": 100},
        "model": {"name": "mlp"},
        "train": {"lr": 0.05, "batch": 8, "epochs": 5},
        "eval": {"gradients_every": 5},
    }

    def load(self) -> Dataset:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x, y = bunch.images.astype(np.float32)[:, None], bunch.target.astype(np.int64)
        order = rng(0, "digits", "pools").permutation(len(x))
        train, test = order[: len(x) * 6 // 10], order[len(x) * 6 // 10 :]
        return build("digits", x, y, train, test, mean=4.88, std=6.02)
