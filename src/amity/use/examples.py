"""New examples for a model: arrays, tables and folders of images, as its inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from amity.data.forms import gathered, is_input
from amity.data.frames import read_frame
from amity.data.images import KINDS, read_image
from amity.data.inputs import described
from amity.data.values import Values, word_of
from amity.errors import DataError, brief, unknown
from amity.use.fitting import Inputs, count, fitted
from amity.use.modelfile import Description
from amity.use.tables import inputs_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What a model is asked about."""

    x: Inputs
    ids: tuple[str, ...]
    """What each is called."""
    id_name: str
    labels: tuple[str, ...] | None = None
    """What each is, where that is known."""
    numbers: Array | None = None
    """The same of models that give no classes: a row for each."""
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
    """The examples of a .csv, .parquet, .npy, .npz or .txt file, or of a folder of images."""
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
    given = {n: part for n, part in found.items() if is_input(n)} if _has_x(found) else {}
    if not given:
        raise DataError(f"{path}: expected a .npz file with an array `x`, or several `x_NAME`")
    x = fitted(description, str(path), gathered(str(path), given))
    y, ids = found.get("y"), found.get(id_column) if id_column else None
    numbers = None
    if y is not None and not description.classes:
        numbers, y = _numbers(description, str(path), y, count(x)), None
    if id_column and ids is None:
        raise DataError(f"{path}: id: {unknown('array', id_column, found)}")
    for name, column in (("y", y), (id_column, ids)):
        if column is not None and column.shape != (count(x),):
            raise DataError(
                f"{path}: {name} must be one value for each of the {count(x)} examples, got"
                f" {column.shape}"
            )
    labels = None if y is None else tuple(map(word_of, y.tolist()))
    if ids is None:
        return replace(numbered_examples(x, labels), numbers=numbers)
    named = tuple(map(str, ids))
    return Examples(x=x, ids=named, id_name=id_column, labels=labels, numbers=numbers)


def _numbers(description: Description, where: str, y: Array, examples: int) -> Array | None:
    """What is true, if these are numbers; of sequences padded to the length that they were trained
    with."""
    if y.dtype.kind not in "buif" or len(y) != examples:
        return None
    rows = y.reshape(examples, -1).astype(np.float64)
    if not description.schema.vocabulary or description.schema.targets:
        return rows
    places, last = description.places or 1, description.size - 1
    if rows.shape[1] > places or not ((rows >= 0) & (rows <= last)).all():
        raise DataError(
            f"{where}: y must be ids of tokens from 0 (padding) to {last}, up to {places} for each"
            f" example, got {y.dtype} of shape {y.shape}"
        )
    return np.pad(rows, ((0, 0), (0, places - rows.shape[1])))


def _has_x(found: Any) -> bool:
    return isinstance(found, Mapping) and any(n == "x" or n.startswith("x_") for n in found)


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


def numbered_examples(x: Inputs, labels: tuple[str, ...] | None = None) -> Examples:
    return Examples(x=x, ids=tuple(map(str, range(count(x)))), id_name="example", labels=labels)


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
            f"{where}: the model was not trained on a table and knows no columns; it takes"
            f" {_taken(description)}" + (" or images" if description.pictures else "")
        )
    if len(frame) == 0:
        raise DataError(f"{where}: holds no rows")
    if how.id and how.id not in frame.columns:
        raise DataError(f"{where}: id: {unknown('column', how.id, map(str, frame.columns))}")
    encoded = inputs_of(schema, frame, where, how.fill)
    labels, targets = None, [column.name for column in schema.targets]
    if not targets and schema.label in frame.columns and not frame[schema.label].isna().any():
        labels = tuple(map(word_of, frame[schema.label].tolist()))
    known = {column.name for column in schema.columns} | {schema.label, how.id, *schema.ignore}
    known |= set(targets)
    unused = [name for name in map(str, frame.columns) if name not in known]
    notes = (*encoded.notes, *([f"not used: {', '.join(unused)}"] if unused else []))
    named = numbered_examples(encoded.x, labels)
    if targets and set(targets) <= set(frame.columns):
        truth = np.stack([Values(frame[name]).numbers for name in targets], 1)
        named = replace(named, numbers=truth if np.isfinite(truth).all() else None)
    if how.id:
        named = replace(named, ids=_ids(where, frame[how.id]), id_name=how.id)
    return replace(named, notes=notes)


def _taken(description: Description) -> str:
    """What a model takes, in words."""
    schema = description.schema
    plain = not schema.parts and not schema.vocabulary
    return f"arrays of shape {schema.shape}" if plain else described(schema.form)


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
            f"{root}: the model was not trained on images of bytes; it takes"
            f" {_taken(description)} as {', '.join(READERS)}"
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


# -- text ------------------------------------------------------------------------------------------


def _from_text(description: Description, path: Path, how: ReadAs) -> Examples:
    """Each line is one example."""
    from amity.use.texts import text_examples

    if how.id:
        raise DataError(f"{path}: id={how.id}: lines go by their numbers")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({brief(error)})") from None
    return text_examples(description, str(path), {str(n): t for n, t in enumerate(lines, 1) if t})


READERS: dict[str, Callable[[Description, Path, ReadAs], Examples]] = {
    ".csv": _from_table,
    ".parquet": _from_table,
    ".npy": _from_array,
    ".npz": _from_arrays,
    ".txt": _from_text,
}
