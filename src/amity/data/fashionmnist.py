"""FashionMNIST from its four idx files, packed or not."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.data.published import Download, File, Published, read_all
from amity.errors import DataError

SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
RAW = "FashionMNIST/raw"

FASHION = Published(
    "fashionmnist",
    (RAW, "fashion-mnist"),
    (
        File("train-images-idx3-ubyte", 47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        File("train-labels-idx1-ubyte", 60_008, "9018921c3c673c538a1fc5bad174d6f9"),
        File("t10k-images-idx3-ubyte", 7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
        File("t10k-labels-idx1-ubyte", 10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    (
        Download(f"{SITE}/train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", RAW),
        Download(f"{SITE}/train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", RAW),
        Download(f"{SITE}/t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", RAW),
        Download(f"{SITE}/t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", RAW),
    ),
    system=("/usr/share/datasets/fashion-mnist",),
    also="Debian's package dataset-fashion-mnist brings them",
)


def parse_idx(where: str, data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An idx file of unsigned bytes; its header and its length must agree."""
    if len(data) < 4 or data[:3] != bytes([0, 0, 8]):
        raise DataError(f"{where}: is no idx file of unsigned bytes")
    head = 4 + 4 * data[3]
    shape = struct.unpack(f">{data[3]}I", data[4:head]) if len(data) >= head else ()
    if len(shape) != data[3] or len(data) - head != int(np.prod(shape)):
        raise DataError(f"{where}: its header says {shape}, but {len(data) - head} bytes follow")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


@datasets.register("fashionmnist")
@dataclass(frozen=True)
class FashionMnist:
    """FashionMNIST: 70,000 images of 28 x 28, 10 classes (Xiao et al. 2017), idx files."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""

    published: ClassVar[Published] = FASHION
    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "fashion_cnn2"}, "train": {"batch": 64}}

    def load(self) -> Dataset:
        files = {name: parse_idx(name, data) for name, data in read_all(FASHION, self.dir).items()}
        train_x, train_y, test_x, test_y = (files[file.name] for file in FASHION.files)
        x, y = (
            np.concatenate([train_x, test_x])[:, None],
            np.concatenate([train_y, test_y]).astype(np.int64),
        )
        split = len(train_y)
        pools = np.arange(split), np.arange(split, len(x))
        return build("fashionmnist", x, y, *pools, mean=0.2860 * 255, std=0.3530 * 255)
