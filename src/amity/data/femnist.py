"""FEMNIST as LEAF writes it: JSON files of writers, who are the peers.

LEAF publishes a program, not files. Its JSON is large (a float in text for every pixel), so the
first read leaves a compact copy in the user's cache: one byte a pixel. The copy is bound to name,
size and time of every JSON file it was made of.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.data.published import Published, roots
from amity.errors import DataError, MissingData, StorageError
from amity.files import write_atomically
from amity.lazy import pooch

Array = np.ndarray[Any, Any]

LEAF = Published(
    "femnist",
    ("femnist/data", "femnist"),
    (),
    steps="""LEAF publishes a program that makes FEMNIST, not the data itself. Its steps:

    git clone https://github.com/TalwalkarLab/leaf
    cd leaf/data/femnist
    ./preprocess.sh -s niid --sf 0.05 -k 100 -t sample

then say where it is: data.dir=leaf/data/femnist/data, or AMITY_DATA=leaf/data.""",
)
CLASSES = 62


@datasets.register("femnist")
@dataclass(frozen=True)
class Femnist:
    """FEMNIST: handwritten digits and letters of 28 x 28, 62 classes, by writer (LEAF's JSON)."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""

    published: ClassVar[Published] = LEAF
    suits: ClassVar[Mapping[str, Any]] = {
        "partition": {"name": "natural"},
        "model": {"name": "femnist_small"},
        "train": {"lr": 0.1, "batch": 32},
    }

    def load(self) -> Dataset:
        folder = find(self.dir)
        arrays = _cached(folder)
        train = np.flatnonzero(~arrays["test"])
        return build(
            "femnist",
            arrays["x"].reshape(-1, 1, 28, 28),
            arrays["y"].astype(np.int64),
            train,
            np.flatnonzero(arrays["test"]),
            mean=0.9615 * 255,  # measured over 41,258 training images of 300 writers
            std=0.1642 * 255,
            writers=arrays["writer"].astype(np.int64),
            classes=CLASSES,
        )


def find(dir: str = "") -> Path:
    """The folder with train/*.json and test/*.json."""
    for root in roots(dir):
        for folder in (root / "femnist" / "data", root / "femnist", root / "data", root):
            if any((folder / "train").glob("*.json")) and any((folder / "test").glob("*.json")):
                return folder
    where = dir or ", ".join(str(root) for root in roots(dir))
    raise MissingData(
        f"femnist: LEAF's train/*.json and test/*.json were not found in {where}; `amity data get"
        " femnist` tells how to make them, data.dir=FOLDER or AMITY_DATA says where they are"
    )


def _cached(folder: Path) -> dict[str, Array]:
    """The arrays, from the compact copy if it is there and whole."""
    sources = sorted((*folder.glob("train/*.json"), *folder.glob("test/*.json")))
    stamp = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in sources]
    key = hashlib.sha256(json.dumps(stamp).encode()).hexdigest()[:24]
    cache = Path(os.environ.get("AMITY_CACHE") or pooch.os_cache("amity")) / f"femnist-{key}.npz"
    try:
        with open(cache, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in ("x", "y", "writer", "test")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # not there, or not whole: read the JSON
    arrays = _read(folder)
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cache, packed.getvalue())
    except (OSError, StorageError):
        pass  # no place for a copy: the next read is as slow as this one
    return arrays


def _read(folder: Path) -> dict[str, Array]:
    """All writers of all files. A writer's examples may stand in several files."""
    writers: dict[str, int] = {}
    parts: dict[str, list[Array]] = {"x": [], "y": [], "writer": [], "test": []}
    for split in ("train", "test"):
        for path in sorted((folder / split).glob("*.json")):
            for name, x, y in _users(path):
                number = writers.setdefault(name, len(writers))
                parts["x"].append(x)
                parts["y"].append(y)
                parts["writer"].append(np.full(len(y), number, np.int32))
                parts["test"].append(np.full(len(y), split == "test"))
    return {key: np.concatenate(values) for key, values in parts.items()}


def _users(path: Path) -> list[tuple[str, Array, Array]]:
    """Name, images (bytes) and labels of every writer in a file."""
    try:
        document = json.loads(path.read_bytes())
        users = document["user_data"]
        out = []
        for name in document["users"]:
            x, y = np.asarray(users[name]["x"], np.float32), np.asarray(users[name]["y"])
            out.append((str(name), *_checked(f"{path}: writer {name}", x, y)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: is not a file that LEAF wrote ({type(error).__name__}: {error})"
        ) from None
    return out


def _checked(where: str, x: Array, y: Array) -> tuple[Array, Array]:
    if len(y) == 0:
        return np.zeros((0, 784), np.uint8), np.zeros(0, np.uint8)
    if x.shape != (len(y), 784):
        raise DataError(f"{where}: images have shape {x.shape}, expected ({len(y)}, 784)")
    if not (np.isfinite(x).all() and x.min() >= 0 and x.max() <= 1):
        raise DataError(f"{where}: pixels must lie between 0 and 1")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= CLASSES:
        raise DataError(f"{where}: labels must be whole numbers from 0 to {CLASSES - 1}")
    return np.round(x * 255).astype(np.uint8), y.astype(np.uint8)
