"""FashionMNIST from its four idx files."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.errors import DataError

FILES = {
    ("train", "x"): ("train-images-idx3-ubyte", (60000, 28, 28)),
    ("train", "y"): ("train-labels-idx1-ubyte", (60000,)),
    ("test", "x"): ("t10k-images-idx3-ubyte", (10000, 28, 28)),
    ("test", "y"): ("t10k-labels-idx1-ubyte", (10000,)),
}
USUAL = (Path("/usr/share/datasets/fashion-mnist"),)


def _folders(dir: str) -> Iterator[Path]:
    """Where the files may lie: the given folder or AMITY_DATA, in torchvision's layout or flat; then Debian's package."""
    given = dir or os.environ.get("AMITY_DATA", "")
    roots = [Path(given)] if given else []
    for root in roots:
        yield from (root, root / "FashionMNIST" / "raw", root / "fashion-mnist")
    if not dir:
        yield from USUAL


def read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An idx file of unsigned bytes, packed or not; its header and its length must agree with `shape`."""
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch the file again") from None
    head = 4 + 4 * len(shape)
    if len(raw) < head or raw[:4] != bytes([0, 0, 8, len(shape)]):
        raise DataError(f"{path}: is no idx file of {len(shape)}-dimensional unsigned bytes")
    found = struct.unpack(f">{len(shape)}I", raw[4:head])
    if found != shape or len(raw) - head != int(np.prod(shape)):
        raise DataError(f"{path}: holds {found} in {len(raw) - head} bytes, expected {shape}; fetch the file again")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape)


def find(dir: str) -> dict[tuple[str, str], Path]:
    """The four files, all from one folder."""
    for folder in _folders(dir):
        paths = {key: folder / name for key, (name, _) in FILES.items()}
        found = {k: next((c for c in (p, p.with_name(p.name + ".gz")) if c.is_file()), None) for k, p in paths.items()}
        complete = {k: p for k, p in found.items() if p is not None}
        if len(complete) == len(FILES):
            return complete
    raise DataError(
        "fashionmnist: its four *-ubyte files were not found; give their folder with data.dir=FOLDER or AMITY_DATA, "
        "or install Debian's package dataset-fashion-mnist"
    )


@datasets.register("fashionmnist")
@dataclass(frozen=True)
class FashionMnist:
    """FashionMNIST: 70,000 images of 28 x 28, 10 classes, from idx files in `dir` or Debian's package."""

    dir: str = ""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "fashion_cnn2"}, "train": {"batch": 64}}

    def load(self) -> Dataset:
        paths = find(self.dir)
        part = {key: read_idx(path, FILES[key][1]) for key, path in paths.items()}
        x = np.concatenate([part["train", "x"], part["test", "x"]])[:, None]
        y = np.concatenate([part["train", "y"], part["test", "y"]]).astype(np.int64)
        split = len(part["train", "y"])
        return build("fashionmnist", x, y, np.arange(split), np.arange(split, len(x)), mean=0.2860 * 255, std=0.3530 * 255)
