"""CIFAR-10 and CIFAR-100 from the official binary version (the Python version is a pickle, which we
do not open)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.data.published import Download, File, Published, read_all

PIXELS = 3 * 32 * 32
POOLS = (np.arange(50_000), np.arange(50_000, 60_000))
SITE = "https://www.cs.toronto.edu/~kriz"

CIFAR10 = Published(
    "cifar10",
    ("cifar-10-batches-bin",),
    (
        File("data_batch_1.bin", 10_000 * (1 + PIXELS), "5dd7e06a14cb22eb9f671a540d1b7c25"),
        File("data_batch_2.bin", 10_000 * (1 + PIXELS), "5ea93a67294ea407fff1d09f752e9692"),
        File("data_batch_3.bin", 10_000 * (1 + PIXELS), "942cd6a4bcdd0dd3c604fbe906cb4421"),
        File("data_batch_4.bin", 10_000 * (1 + PIXELS), "ae636b3ba5c66a11e91e8cb52e771fcb"),
        File("data_batch_5.bin", 10_000 * (1 + PIXELS), "53f37980c15c3d472c316c40844f3f0d"),
        File("test_batch.bin", 10_000 * (1 + PIXELS), "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    (
        Download(
            f"{SITE}/cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            "cifar-10-batches-bin",
        ),
    ),
)
CIFAR100 = Published(
    "cifar100",
    ("cifar-100-binary",),
    (
        File("train.bin", 50_000 * (2 + PIXELS), "6172c7755cfe09b2fe270c85cebc1b15"),
        File("test.bin", 10_000 * (2 + PIXELS), "4499cfba6c016c1be1438163640a0898"),
    ),
    (
        Download(
            f"{SITE}/cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            "cifar-100-binary",
        ),
    ),
)


def _records(data: bytes, label_bytes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images and label columns of records of `label_bytes` labels and 3,072 pixels."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, label_bytes + PIXELS)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, :label_bytes]


@datasets.register("cifar10")
@dataclass(frozen=True)
class Cifar10:
    """CIFAR-10: 60,000 colour images of 32 x 32, 10 classes (Krizhevsky 2009), binary version."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""

    published: ClassVar[Published] = CIFAR10
    suits: ClassVar[Mapping[str, Any]] = {
        "model": {"name": "fedavg_cnn"},
        "train": {"augment": "crop_flip"},
    }

    def load(self) -> Dataset:
        files = read_all(CIFAR10, self.dir)
        parts = [_records(files[file.name], 1) for file in CIFAR10.files]
        x, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1][:, 0] for p in parts])
        mean, std = _bytes(0.4914, 0.4822, 0.4465), _bytes(0.2470, 0.2435, 0.2616)
        return build("cifar10", x, y.astype(np.int64), *POOLS, mean=mean, std=std)


@datasets.register("cifar100")
@dataclass(frozen=True)
class Cifar100:
    """CIFAR-100: 60,000 colour images of 32 x 32, 100 classes (or 20 coarse ones), binary
    version."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""
    labels: Literal["fine", "coarse"] = "fine"
    """The 100 classes, or the 20 that they are grouped into."""

    published: ClassVar[Published] = CIFAR100
    suits: ClassVar[Mapping[str, Any]] = {
        "model": {"name": "resnet18_gn"},
        "train": {"augment": "crop_flip"},
    }

    def load(self) -> Dataset:
        files = read_all(CIFAR100, self.dir)
        parts = [_records(files[file.name], 2) for file in CIFAR100.files]
        x, labels = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        y = labels[:, 1 if self.labels == "fine" else 0].astype(np.int64)
        mean, std = _bytes(0.5071, 0.4865, 0.4409), _bytes(0.2673, 0.2564, 0.2762)
        return build("cifar100", x, y, *POOLS, mean=mean, std=std)


def _bytes(*constants: float) -> tuple[float, ...]:
    """Constants for pixels from 0 to 1 as constants for bytes."""
    return tuple(255 * constant for constant in constants)
