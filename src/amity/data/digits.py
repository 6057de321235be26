"""scikit-learn's digits: 1,797 real images of 8 x 8, built in, nothing to download."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.rng import rng


def _table() -> np.ndarray[Any, np.dtype[np.float64]]:
    """A row for each image: 64 numbers and the digit. Read from scikit-learn's own file, which
    spares a second of importing it; where that lies elsewhere, scikit-learn is asked."""
    found = importlib.util.find_spec("sklearn")
    file = Path(str(found and found.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    if file.is_file():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


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
        table = _table()
        x, y = table[:, :-1].reshape(-1, 1, 8, 8).astype(np.float32), table[:, -1].astype(np.int64)
        order = rng(0, "digits", "pools").permutation(len(x))
        train, test = order[: len(x) * 6 // 10], order[len(x) * 6 // 10 :]
        return build("digits", x, y, train, test, mean=4.88, std=6.02)
