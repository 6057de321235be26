"""New examples for a model: arrays, tables and folders of images, as its inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from amity.data.columns import images_first
from amity.data.frames import read_frame
from amity.data.images import KINDS, read_image
from amity.data.schema import Schema
from amity.data.values import word_of
from amity.errors import DataError, brief, unknown
from amity.use.modelfile import Description
from amity.use.tables import inputs_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What a model is asked about."""

    x: Array
    ids: tuple[str, ...]
    """What each is called."""
    id_name: str
    labels: tuple[str, ...] | None = None
    """What each is, where that is known."""
    notes: tuple[str, ...] = ()
    """What was filled or left out, in lines."""


@dataclass(frozen=True)
class ReadAs:
    """How examples are to be read."""

    id: str = ""
    """A column that is kept; empty: examples are numbered."""
    fill: bool = False
    """Whether what is missing or unknown in a table is filled with what was usual in training."""
    na: tuple[str, ...] = ()
    """Further words that stand for a missing value."""


def read_examples(description: Description, path: Path, how: ReadAs) -> Examples:
    """The examples of a .csv, .parquet, .npy or .npz file, or of a folder of images."""
    if not path.exists():
        raise DataError(f"{path}: does not exist")
    if path.is_dir():
        return _from_folder(description, path, how)
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{path}: expected a folder of images or a file that ends in {', '.join(READERS)}"
        )
    return READERS[path.suffix.lower()](description, path, how)


# -- arrays ----------------------------------------------------------------------------------------


def _from_array(description: Description, path: Path, how: ReadAs) -> Examples:
    if how.id:
        raise DataError(f"{path}: id={how.id}: an array has no columns; use a .npz file")
    found = _load(path)
    if not isinstance(found, np.ndarray):
        raise DataError(f"{path}: is no .npy array")
    return numbered_examples(fitted(description, str(path), found))


def _from_arrays(description: Description, path: Path, how: ReadAs) -> Examples:
    found, id_column = _load(path), how.id
    if not isinstance(found, Mapping) or "x" not in found:
        raise DataError(f"{path}: expected a .npz file with an array `x`")
    x = fitted(description, str(path), found["x"])
    y, ids = found.get("y"), found.get(id_column) if id_column else None
    if id_column and ids is None:
        raise DataError(f"{path}: id: {unknown('array', id_column, found)}")
    for name, column in (("y", y), (id_column, ids)):
        if column is not None and column.shape != (len(x),):
            raise DataError(
                f"{path}: {name} must be one value for each of the {len(x)} examples, got"
                f" {column.shape}"
            )
    labels = None if y is None else tuple(map(word_of, y.tolist()))
    if ids is None:
        return numbered_examples(x, labels)
    return Examples(x=x, ids=tuple(map(str, ids)), id_name=id_column, labels=labels)


def _load(path: Path) -> Any:
    try:
        with open(path, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(
            f"{path}: expected a .npy array or a .npz file with x ({brief(error)})"
        ) from None


def fitted(description: Description, where: str, x: Array) -> Array:
    """Examples in the shape that the model takes."""
    if x.dtype.kind not in "buif" or x.ndim == 0 or len(x) == 0:
        raise DataError(f"{where}: expected examples as numbers, got {x.dtype} of shape {x.shape}")
    shape = description.shape
    if description.schema.columns:
        _refuse_encoded(description.schema, where)
    if x.shape[1:] != shape and x.ndim > 1:
        x = images_first(where, x)
    if x.shape[1:] != shape:
        raise DataError(f"{where}: examples have shape {x.shape[1:]}, the model expects {shape}")
    finite = np.isfinite(x).reshape(len(x), -1).all(1)
    if not finite.all():
        raise DataError(f"{where}: example {int(finite.argmin())} has NaN or Inf")
    return x.astype(np.float32)


def _refuse_encoded(schema: Schema, where: str) -> None:
    """Rows without names are the columns in their order, where each is one number."""
    if schema.inputs != tuple(column.name for column in schema.columns):
        raise DataError(
            f"{where}: the model's columns are not all plain numbers; give a table (.csv, .parquet)"
            f" with the columns {', '.join(column.name for column in schema.columns)}"
        )


def numbered_examples(x: Array, labels: tuple[str, ...] | None = None) -> Examples:
    return Examples(x=x, ids=tuple(map(str, range(len(x)))), id_name="example", labels=labels)


# -- tables ----------------------------------------------------------------------------------------


def _from_table(description: Description, path: Path, how: ReadAs) -> Examples:
    columns = description.schema.columns
    words = [column.name for column in columns if column.kind == "category"]
    found = read_frame(path, (*description.na, *how.na), [*words, how.id])
    wanted = {column.name for column in columns} | {how.id}
    twice = next((name for name in found.twice if name in wanted), None)
    if twice is not None:
        raise DataError(f"{path}: column {twice!r} is there twice; give every column its own name")
    examples = of_frame(description, str(path), found.data, how)
    return replace(examples, notes=(*found.notes, *examples.notes))


def of_frame(description: Description, where: str, frame: Any, how: ReadAs) -> Examples:
    """The rows of a pandas DataFrame; columns are found by their names."""
    schema = description.schema
    if not schema.columns:
        raise DataError(
            f"{where}: the model was not trained on a table and knows no columns; it takes arrays"
            f" of shape {description.shape}" + (" or images" if description.pictures else "")
        )
    if len(frame) == 0:
        raise DataError(f"{where}: holds no rows")
    if how.id and how.id not in frame.columns:
        raise DataError(f"{where}: id: {unknown('column', how.id, map(str, frame.columns))}")
    encoded = inputs_of(schema, frame, where, how.fill)
    labels = None
    if schema.label in frame.columns and not frame[schema.label].isna().any():
        labels = tuple(map(word_of, frame[schema.label].tolist()))
    known = {column.name for column in schema.columns} | {schema.label, how.id, *schema.ignore}
    unused = [name for name in map(str, frame.columns) if name not in known]
    notes = (*encoded.notes, *([f"not used: {', '.join(unused)}"] if unused else []))
    named = numbered_examples(encoded.x, labels)
    if how.id:
        named = replace(named, ids=_ids(where, frame[how.id]), id_name=how.id)
    return replace(named, notes=notes)


def _ids(where: str, column: Any) -> tuple[str, ...]:
    """As they are written."""
    absent = column.isna().to_numpy()
    if absent.any():
        raise DataError(
            f"{where}: id: row {int(absent.argmax()) + 1} has none (it is empty, or a word such as"
            " NA that stands for nothing)"
        )
    return tuple(value if isinstance(value, str) else word_of(value) for value in column)


# -- images ----------------------------------------------------------------------------------------


def _from_folder(description: Description, root: Path, how: ReadAs) -> Examples:
    """All images below a folder; where every one lies in the folder of a class, that is its
    label."""
    if how.id:
        raise DataError(f"{root}: id={how.id}: images go by the names of their files")
    if not description.pictures:
        raise DataError(
            f"{root}: the model was not trained on images of bytes; it takes examples of shape"
            f" {description.shape} as {', '.join(READERS)}"
        )
    files = sorted(p for p in root.rglob("*") if p.suffix.lower() in KINDS and p.is_file())
    if not files:
        raise DataError(f"{root}: no images")
    channels, height, width = description.shape
    x = np.stack([read_image(path, (width, height), grey=channels == 1) for path in files])
    folders = [path.parent.name if path.parent != root else "" for path in files]
    known = set(folders) <= set(description.classes)
    names = tuple(path.relative_to(root).as_posix() for path in files)
    return Examples(
        x=x.astype(np.float32),
        ids=names,
        id_name="file",
        labels=tuple(folders) if known else None,
    )


READERS: dict[str, Callable[[Description, Path, ReadAs], Examples]] = {
    ".csv": _from_table,
    ".parquet": _from_table,
    ".npy": _from_array,
    ".npz": _from_arrays,
}
