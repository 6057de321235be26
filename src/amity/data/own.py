"""One's own data in files: arrays, image folders and tables. See `columns` for what they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from amity.data.base import Dataset, datasets
from amity.data.columns import Fraction, dataset_of, from_mapping
from amity.data.forms import Count, Form, KindName, fitting
from amity.data.kinds import Wish
from amity.data.schema import Scale, Schema, read_schema
from amity.data.tables import LABEL, Found, Roles, find_table
from amity.errors import ConfigError, DataError
from amity.registry import QUIET


def _joined(names: Any) -> Any:
    """Names as the command line has them (`a,b`), also where a file has a list, or where one looks
    like a number."""
    if isinstance(names, list | tuple):
        return ",".join(map(str, names))
    number = isinstance(names, int | float) and not isinstance(names, bool)
    return str(names) if number else names


Names = Annotated[str, BeforeValidator(_joined)]


def _existing(kind: str, path: str) -> Path:
    if not path:
        raise DataError(f"{kind}: say where it is with data.path=")
    if not Path(path).exists():
        raise DataError(f"{path}: does not exist")
    return Path(path)


@datasets.register("arrays")
@dataclass(frozen=True)
class Arrays:
    """Own arrays: a .npz file, or a folder of .npy files, with x (or several x_NAME), y and
    optionally lengths, peer, split and group."""

    path: str = ""
    """Where it is."""
    test_share: Fraction = 0.2
    """Share of the examples that is set aside for testing, where the data does not say which."""
    scale: Scale = field(default="standard", metadata=QUIET)
    """standard: inputs get mean 0 and deviation 1; none: they stay as they are."""
    kind: KindName = field(default="", metadata=QUIET)
    """What inputs are: table, series (channels x time), image or tokens; of several inputs
    name:kind, with commas between. Empty: what their shape says."""
    length: Count = field(default=0, metadata=QUIET)
    """Tokens of a sequence at most: longer ones are cut; 0: as many as the longest has."""
    vocabulary: Count = field(default=0, metadata=QUIET)
    """How many ids of tokens there are, 0 (padding) included; 0: one more than the last that
    occurs."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "mlp"}}

    @classmethod
    def suiting(cls, options: Mapping[str, Any], chosen: bool) -> Mapping[str, Any]:
        """What fits these arrays; `chosen`: somebody has said which model."""
        kind = options.get("kind") or ("tokens" if _has_lengths(options.get("path")) else "")
        return {**cls.suits, **fitting(kind)}

    def load(self) -> Dataset:
        return self._read(numbers=False)

    def numbers(self) -> Dataset:
        return self._read(numbers=True)

    def _read(self, *, numbers: bool) -> Dataset:
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
        columns = from_mapping(str(path), arrays)
        said = replace(columns, said=Form(self.kind, self.length, self.vocabulary))
        return dataset_of(str(path), said, self.test_share, self.scale, numbers)


def _has_lengths(path: Any) -> bool:
    """Whether arrays are sequences of tokens, one after the other."""
    try:
        if Path(path).is_dir():
            return (Path(path) / "lengths.npy").exists()
        with zipfile.ZipFile(path) as file:
            return "lengths.npy" in file.namelist()
    except (OSError, TypeError, ValueError, zipfile.BadZipFile):  # told when it is read
        return False


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
    scale: Scale = field(default="standard", metadata=QUIET)
    """standard: inputs get mean 0 and deviation 1; none: they stay as they are."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "fedavg_cnn"}}

    def load(self) -> Dataset:
        from amity.data.images import read_folder

        root = _existing("images", self.path)
        columns = read_folder(root, self.size, self.grey)
        return dataset_of(str(root), columns, self.test_share, self.scale)


@datasets.register("table")
@dataclass(frozen=True)
class Table:
    """Own table: a .csv or .parquet file with a label column, optional peer, split and group
    columns, and numbers, categories or dates. Columns are found by their names."""

    path: str = ""
    """Where it is."""
    label: str = LABEL
    """The column with the classes."""
    peer: str = ""
    """The column that says whose an example is; empty: there is none."""
    split: str = ""
    """The column that says `train` or `test`; empty: there is none."""
    drop: Names = ""
    """Columns that are no features, separated by commas."""
    test_share: Fraction = 0.2
    """Share of the examples that is set aside for testing, where the data does not say which."""
    group: str | None = None
    """The column with the hidden group of a peer; empty: there is none."""
    scale: Scale = field(default="standard", metadata=QUIET)
    """standard: numbers get mean 0 and deviation 1; none: they stay as they are."""
    missing: Literal["refuse", "median", "indicator"] = field(default="refuse", metadata=QUIET)
    """Missing values: refused, filled with the median, or filled with one more input that says so.
    A category that is missing is none of its values."""
    dates: Literal["refuse", "days"] = field(default="refuse", metadata=QUIET)
    """Dates: refused, or turned into days since 1970."""
    categories: Names = field(default="", metadata=QUIET)
    """Columns that are categories whatever they look like, separated by commas."""
    na: Names = field(default="", metadata=QUIET)
    """Words that stand for a missing value, separated by commas."""
    schema: str = field(default="", metadata=QUIET)
    """The file that all members agree on, as `amity data schema` writes it: kinds, values, rules,
    classes."""
    target: Names = field(default="", metadata=QUIET)
    """The columns with the answers where they are no classes, separated by commas: numbers
    (task=regress), or 0 and 1 for each label (task=multilabel). Empty: the label column."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "mlp"}}

    def load(self) -> Dataset:
        if self.target:
            raise DataError(
                f"data.target: {self.target} names numbers, and task=classify wants classes; use"
                " task=regress or task=multilabel, or data.label=COLUMN for a column of classes"
            )
        found = self.find()
        return dataset_of(found.where, found.columns(), self.test_share, found.schema.scale)

    def numbers(self) -> Dataset:
        found = self.find(numbers=True)
        scale = found.schema.scale
        return dataset_of(found.where, found.columns(), self.test_share, scale, numbers=True)

    def __post_init__(self) -> None:
        if self.target and self.label != LABEL:
            raise ValueError(
                f"label={self.label} and target={self.target} both name the answers; say one of"
                " them (drop=COLUMN leaves a column out)"
            )

    def find(self, *, numbers: bool = False) -> Found:
        """The table, understood as far as possible; with `numbers` its answers are no classes."""
        path, schema = _existing("table", self.path), self._agreed()
        wish = Wish(
            missing=self.missing,
            dates=self.dates == "days",
            categories=split_names(self.categories),
            scale=self.scale,
        )
        return find_table(
            path, self._roles(schema, numbers), wish, split_names(self.na), schema, self.schema
        )

    def _roles(self, schema: Schema | None, numbers: bool) -> Roles:
        agreed = schema.label if schema is not None and self.label == Table.label else ""
        label, agreed_on = agreed or self.label, schema.targets if schema is not None else ()
        targets = split_names(self.target) or tuple(c.name for c in agreed_on) or (label,)
        return Roles(
            label=targets[0] if numbers else label,
            targets=targets if numbers else (),
            peer=self.peer,
            split=self.split,
            group=self.group or "",
            drop=split_names(self.drop),
        )

    def _agreed(self) -> Schema | None:
        if not self.schema:
            return None
        for key in ("scale", "missing", "dates", "categories"):
            if getattr(self, key) != getattr(Table, key):
                raise ConfigError(
                    f"data.{key}: stands in the schema; change it in {self.schema} at all members"
                )
        return read_schema(Path(self.schema))


def split_names(text: str) -> tuple[str, ...]:
    """`a,b` as names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
