"""Tables (CSV, Parquet) and Hugging Face datasets as arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amity.data.columns import Array, Columns
from amity.data.schema import Column, Schema
from amity.errors import DataError, unknown

LABELS = ("label", "labels", "fine_label", "target", "y")
EXAMPLES = ("image", "img", "pixel_values", "features", "x")
PEERS = ("peer", "writer", "writer_id", "user", "client", "hospital")
GROUPS = ("group",)


def read_table(path: Path, label: str, drop: Sequence[str], **other: str) -> Columns:
    """The label column, `other` columns (peer, split, group; empty: there is none), and all that
    are left as features."""
    frame = _read_frame(path)
    for key, name in (("label", label), *other.items(), *(("drop", name) for name in drop)):
        if name and name not in frame.columns:
            raise DataError(
                f"{path}: data.{key}: {unknown('column', name, map(str, frame.columns))}"
            )
    features = frame.drop(columns=[name for name in (label, *other.values(), *drop) if name])
    if features.shape[1] == 0:
        raise DataError(f"{path}: no columns are left as features")
    for name in features.columns:
        if features[name].dtype.kind not in "buif":
            # a column `group` is likely to be that
            free = sorted((key for key, given in other.items() if not given), key=name.__ne__)
            names = [f"data.{key}={name}" for key in free]
            said = f"say what it names ({', '.join(names)}), " if names else ""
            raise DataError(
                f"{path}: column {name!r} is no number; {said}turn it into numbers, or leave it out"
                f" with data.drop={name}"
            )
    missing = features.isna().to_numpy()
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise DataError(
            f"{path}: row {row + 1} has no value in column {features.columns[column]!r}"
        )
    if frame[label].isna().any():
        raise DataError(
            f"{path}: row {int(frame[label].isna().to_numpy().argmax()) + 1} has no label"
        )
    names = sorted(map(str, features.columns), key=natural)
    x = features[names].to_numpy(dtype=np.float32)
    rest: Any = {key: frame[name].to_numpy() for key, name in other.items() if name}
    form = Schema(
        classes=(),
        columns=tuple(Column(name=name) for name in names),
        label=label,
        ignore=tuple(name for name in (*other.values(), *drop) if name),
    )
    return Columns(x, frame[label].to_numpy(), form=form, **rest)


def natural(name: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """By this order columns are inputs, wherever they stand in a file: `f2` is before `f10`."""
    parts = re.findall(r"(\D*)(\d*)", name)
    return tuple((text.lower(), int(digits or -1)) for text, digits in parts), name


def _read_frame(path: Path) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise DataError(f"{path}: tables need pandas: pip install 'amity[tables]'") from None
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except ImportError:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'amity[tables]'") from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as a table ({str(error).splitlines()[0]})"
        ) from None


def read_hugging_face(where: str, found: Any) -> Columns:
    """A `datasets.Dataset`, or a `DatasetDict` with train and test. Images may be pictures or
    arrays."""
    if isinstance(found, dict):
        parts = {
            name: read_hugging_face(f"{where}[{name}]", part)
            for name, part in found.items()
            if name in ("train", "test")
        }
        if set(parts) != {"train", "test"}:
            raise DataError(f"{where}: expected the splits train and test, got {', '.join(found)}")
        train, test = parts["train"], parts["test"]
        split = np.array(["train"] * len(train.y) + ["test"] * len(test.y))
        return Columns(
            np.concatenate([train.x, test.x]),
            np.concatenate([train.y, test.y]),
            _both(train.peer, test.peer),
            split,
            _both(train.group, test.group),
        )
    names = list(found.column_names)
    label = _one(where, "label", LABELS, names)
    example = _one(where, "example", EXAMPLES, names)
    known = {"peer": PEERS, "group": GROUPS}
    rest = {key: next((n for n in known[key] if n in names), None) for key in known}
    try:
        x = np.stack([np.asarray(value) for value in found[example]])
    except ValueError:
        raise DataError(
            f"{where}: examples in {example!r} differ in shape; resize them first"
        ) from None
    given: Any = {key: np.asarray(found[name]) for key, name in rest.items() if name is not None}
    return Columns(x, np.asarray(found[label]), **given)


def _both(one: Array | None, other: Array | None) -> Array | None:
    """A column of two parts, where both have it."""
    return None if one is None or other is None else np.concatenate([one, other])


def _one(where: str, what: str, known: Sequence[str], names: Sequence[str]) -> str:
    found = next((name for name in known if name in names), None)
    if found is None:
        raise DataError(
            f"{where}: no {what} column; expected one of {', '.join(known)}, got {', '.join(names)}"
        )
    return found
