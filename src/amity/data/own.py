"""One's own data in files: arrays, image folders and tables. See `columns` for what they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, datasets
from amity.data.columns import Fraction, dataset_of, from_mapping
from amity.errors import DataError


def _existing(kind: str, path: str) -> Path:
    if not path:
        raise DataError(f"{kind}: say where it is with data.path=")
    if not Path(path).exists():
        raise DataError(f"{path}: does not exist")
    return Path(path)


@datasets.register("arrays")
@dataclass(frozen=True)
class Arrays:
    """Own arrays: a .npz file, or a folder of .npy files, with x, y and optionally peer, split and
    group."""

    path: str = ""
    """Where it is."""
    test_share: Fraction = 0.2
    """Share of the examples that is set aside for testing, where the data does not say which."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "mlp"}}

    def load(self) -> Dataset:
        path = _existing("arrays", self.path)
        try:
            if path.is_dir():
                arrays = {
                    p.stem: np.load(p, allow_pickle=False) for p in sorted(path.glob("*.npy"))
                }
            else:
                with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
                    arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
            raise DataError(f"{path}: cannot be read as arrays ({error})") from None
        return dataset_of(str(path), from_mapping(str(path), arrays), self.test_share)


@datasets.register("images")
@dataclass(frozen=True)
class Images:
    """Own images: CLASS/file or PEER/CLASS/file, below train/ and test/ if there are such
    folders."""

    path: str = ""
    """Where it is."""
    size: Annotated[int, Field(ge=1)] = 32
    """Pixels of a side: all images are brought to this size."""
    grey: bool = False
    """Whether colours are given up."""
    test_share: Fraction = 0.2
    """Share of the examples that is set aside for testing, where the data does not say which."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "fedavg_cnn"}}

    def load(self) -> Dataset:
        from amity.data.images import read_folder

        root = _existing("images", self.path)
        return dataset_of(str(root), read_folder(root, self.size, self.grey), self.test_share)


@datasets.register("table")
@dataclass(frozen=True)
class Table:
    """Own table: a .csv or .parquet file with a label column, optional peer, split and group
    columns, and numbers."""

    path: str = ""
    """Where it is."""
    label: str = "label"
    """The column with the classes."""
    peer: str = ""
    """The column that says whose an example is; empty: there is none."""
    split: str = ""
    """The column that says `train` or `test`; empty: there is none."""
    drop: str = ""
    """Columns that are no features, separated by commas."""
    test_share: Fraction = 0.2
    """Share of the examples that is set aside for testing, where the data does not say which."""
    group: str | None = None
    """The column with the hidden group of a peer; empty: there is none."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "mlp"}}

    def load(self) -> Dataset:
        from amity.data.tables import read_table

        path = _existing("table", self.path)
        columns = read_table(
            path,
            self.label,
            [c for c in self.drop.split(",") if c],
            peer=self.peer,
            split=self.split,
            group=self.group or "",
        )
        return dataset_of(str(path), columns, self.test_share)


SUFFIXES = {".npz": "arrays", ".csv": "table", ".parquet": "table"}


def by_path(text: str) -> dict[str, str] | None:
    """`data=scans.npz`, `data=table.csv` and `data=folder/` name a source by what it is; None for
    anything else."""
    path = Path(text)
    if path.suffix in SUFFIXES:
        return {"name": SUFFIXES[path.suffix], "path": text}
    if path.is_dir() and text not in datasets:
        arrays = (path / "x.npy").exists()
        return {"name": "arrays" if arrays else "images", "path": text}
    return None
