"""Inputs of one's own as arrays: what was given, what it is taken for, and what was done to it.

Arrays are what their shape says: rows of a table (2 dimensions), images (3: grey, 4: with
channels). Lists of unequal length are sequences of tokens. `data.kind` says it otherwise: `series`
for channels x time, `tokens` for ids, and of several inputs `name:kind` with commas between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import numpy as np
from pydantic import BeforeValidator, Field

from amity.data.base import refuse_ids
from amity.data.inputs import PAD, Kind
from amity.errors import DataError, unknown

Array = np.ndarray[Any, Any]
KINDS = tuple(kind for kind in get_args(Kind) if kind not in ("several", "array"))


def _spelled(given: Any) -> Any:
    """`text:tokens,scan:series`; in Python also a mapping."""
    if isinstance(given, Mapping):
        given = ",".join(f"{name}:{kind}" for name, kind in given.items())
    for part in str(given).split(",") if given else ():
        kind = part.rpartition(":")[2].strip()
        if kind not in KINDS:
            raise ValueError(f"kind: {unknown('kind', kind, KINDS)}")
    return given


KindName = Annotated[str, BeforeValidator(_spelled)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


def fitting(kind: str) -> dict[str, Any]:
    """The model for a kind, as a part of a config; empty: that of the source."""
    models = {"series": "cnn1d", "tokens": "gru"}
    return {"model": {"name": models[kind]}} if kind in models else {}


@dataclass(frozen=True)
class Form:
    """What is said of inputs beside them."""

    kind: str = ""
    length: int = 0
    vocabulary: int = 0

    def kind_of(self, name: str) -> str:
        """Of one input; empty: it is not said."""
        said = [part.strip().rpartition(":") for part in self.kind.split(",") if part.strip()]
        general = next((kind for of, _, kind in said if not of), "")
        return next((kind for of, _, kind in said if of == name and name), general)

    @property
    def names(self) -> list[str]:
        """Inputs that are named."""
        return [of for part in self.kind.split(",") if (of := part.strip().rpartition(":")[0])]


@dataclass(frozen=True)
class Given:
    """Inputs as arrays, by name where there are several."""

    x: Any
    vocabulary: Any = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.x.values()))) if isinstance(self.x, Mapping) else len(self.x)


def read_inputs(where: str, x: Any, form: Form) -> Given:
    """Check what was given; `where` names the source in messages."""
    if not isinstance(x, Mapping):
        if form.names:
            raise DataError(f"{where}: data.kind names {form.names[0]!r}, but x is one input")
        return _one(where, x, form, form.kind_of(""))
    if not x or not all(isinstance(name, str) and name.isidentifier() for name in x):
        raise DataError(
            f"{where}: several inputs must have names that `forward` can have, got {list(x)}"
        )
    for name in form.names:
        if name not in x:
            raise DataError(f"{where}: data.kind: {unknown('input', name, x)}")
    found = {n: _one(f"{where}: x[{n!r}]", part, form, form.kind_of(n)) for n, part in x.items()}
    counts = {name: len(one) for name, one in found.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(f"{where}: inputs differ in their number of examples: {said}")
    return Given(
        {name: one.x for name, one in found.items()},
        {name: one.vocabulary for name, one in found.items()},
        tuple(f"{name}: {note}" for name, one in found.items() for note in one.notes),
    )


def _one(where: str, x: Any, form: Form, kind: str) -> Given:
    if kind == "tokens" or (not kind and ragged(x)):
        return _tokens(where, x, form)
    try:
        array = np.asarray(x)
    except ValueError:
        raise DataError(
            f"{where}: examples differ in shape; resize them, or give sequences of tokens as lists"
            " of whole numbers"
        ) from None
    if not kind:
        return Given(images_first(where, array), 0, tuple(_guessed(array)))
    wanted = {"table": (2,), "series": (2, 3), "image": (3, 4)}[kind]
    if array.ndim not in wanted:
        raise DataError(
            f"{where}: data.kind={kind} needs {' or '.join(map(str, wanted))} dimensions (examples"
            f" first), got shape {array.shape}"
        )
    if kind == "image":
        return Given(images_first(where, array))
    array = as_numbers(where, array)
    if kind == "series" and array.dtype == np.uint8:
        array = array.astype(np.float32)
    return Given(array[:, None] if kind == "series" and array.ndim == 2 else array)


def _guessed(x: Array) -> Iterator[str]:
    """What was taken for granted, where it may well be otherwise."""
    if x.ndim == 3 and x.dtype != np.uint8:
        yield (
            f"arrays of {x.shape[1]} x {x.shape[2]} are taken for grey images; data.kind=series"
            " takes them for channels x time"
        )
    if x.ndim == 2 and x.dtype.kind in "ui" and x.dtype != np.uint8:
        yield (
            "whole numbers are taken for columns of a table; data.kind=tokens takes them for ids of"
            " tokens"
        )


# -- numbers ---------------------------------------------------------------------------------------


def as_numbers(where: str, x: Array) -> Array:
    """Bytes or finite floats."""
    if len(x.shape) and not len(x):
        raise DataError(f"{where}: holds no examples")
    if x.dtype.kind in "US" or (x.dtype == object and x.size and isinstance(x.flat[0], str)):
        raise DataError(
            f"{where}: x must be numbers, got text; give ids of tokens, a list of whole numbers for"
            " each example"
        )
    if x.dtype == object or x.dtype.kind not in "buif":
        raise DataError(f"{where}: x must be numbers, got {x.dtype}")
    if x.ndim < 2:
        raise DataError(
            f"{where}: x must hold one row (or image) for each example, got shape {x.shape}"
        )
    if x.dtype == np.uint8:
        return x
    finite = np.isfinite(x.reshape(len(x), -1)).all(1)
    if not finite.all():
        raise DataError(
            f"{where}: example {int(finite.argmin())} has NaN or Inf ({int((~finite).sum())}"
            " such examples); fill them in or leave them out, or give a table (.csv), which"
            " data.missing=median fills"
        )
    return x.astype(np.float32)


def images_first(where: str, x: Array) -> Array:
    """Examples as bytes or float32; images with the channels in front."""
    x = as_numbers(where, x)
    if x.ndim == 3:
        return x[:, None]
    channels_last = x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if channels_last else x


# -- tokens ----------------------------------------------------------------------------------------


def ragged(x: Any) -> bool:
    """Whether this is a list of lists of whole numbers that differ in length."""
    if not isinstance(x, Sequence | np.ndarray) or isinstance(x, str | bytes):
        return False
    if isinstance(x, np.ndarray) and x.dtype != object:
        return False
    rows = [row for row in x if not isinstance(row, str) and hasattr(row, "__len__")]
    if len(rows) < len(x) or len({len(row) for row in rows}) < 2:
        return False
    first = next(np.asarray(row) for row in rows if len(row))
    return first.ndim == 1 and first.dtype.kind in "ui"


def _tokens(where: str, x: Any, form: Form) -> Given:
    rows = _rows(where, x)
    longest = max(map(len, rows))
    most = form.length or longest
    cut = sum(len(row) > most for row in rows)
    ids = np.full((len(rows), most), PAD, np.int64)
    for at, row in enumerate(rows):
        ids[at, : min(len(row), most)] = row[:most]
    last = int(ids.max())
    refuse_ids(where, ids, form.vocabulary or last + 1)
    notes = [
        f"{len(rows):,} sequences of {min(map(len, rows))} to {longest} tokens, padded with id"
        f" {PAD} to {most}"
    ]
    if cut:
        notes.append(f"{cut:,} sequences are longer and cut to their first {most} (data.length)")
    if not form.vocabulary:
        notes.append(f"the last id that occurs is {last}; data.vocabulary says how many there are")
    return Given(ids, form.vocabulary or last + 1, tuple(notes))


def _rows(where: str, x: Any) -> list[Array]:
    """Sequences without what pads them. Ids inside are checked where the dataset is built."""
    try:
        rows = [np.asarray(row) for row in x]
    except TypeError:
        rows = []
    for at, row in enumerate(rows):
        if row.dtype.kind == "U":
            raise DataError(
                f"{where}: sequence {at} is text; give ids of tokens, whole numbers from 1"
            )
        whole = row.dtype.kind in "ui" or (row.dtype.kind == "f" and (row == row.round()).all())
        if row.ndim != 1 or not len(row) or not whole:
            got = "nothing" if not row.size else f"{row.dtype} of shape {row.shape}"
            raise DataError(
                f"{where}: sequence {at} must be ids of tokens, whole numbers from 1, got {got}"
            )
    if not rows:
        raise DataError(f"{where}: holds no sequences")
    return [np.trim_zeros(row.astype(np.int64), "b") if row[-1] == PAD else row for row in rows]


def next_tokens(where: str, x: Any) -> Array:
    """Of every sequence: at each position the id that follows, and padding after the last."""
    if not isinstance(x, Given) or isinstance(x.x, Mapping) or not x.vocabulary:
        raise DataError(f"{where}: no array 'y'; only sequences of tokens can go without answers")
    ids: Array = np.zeros_like(x.x)
    ids[:, :-1] = x.x[:, 1:]
    if not ids.any(1).all():
        at = int((~ids.any(1)).argmax())
        raise DataError(
            f"{where}: sequence {at} has one token, and none that follows; leave it out"
        )
    return ids


def like_inputs(where: str, y: Any, x: Any, given: Any) -> Array:
    """Answers at every position, as long as the sequences that they belong to; `given` are these
    before they were padded or cut."""
    rows = _rows(f"{where}: y", y)
    if not isinstance(x, Given) or isinstance(x.x, Mapping) or not x.vocabulary:
        raise DataError(f"{where}: y are sequences, but x are none")
    if len(rows) != len(x):
        raise DataError(f"{where}: {len(x)} sequences but {len(rows)} answers")
    ids: Array = np.zeros_like(x.x)
    for at, (row, tokens) in enumerate(zip(rows, _rows(where, given), strict=True)):
        if len(row) > len(tokens):
            raise DataError(
                f"{where}: sequence {at} has {len(tokens)} tokens but {len(row)} answers; give one"
                " for each token"
            )
        cut = row[: ids.shape[1]]
        ids[at, : len(cut)] = cut
    return ids


# -- names in files --------------------------------------------------------------------------------


def is_input(name: str) -> bool:
    """Whether an array of this name belongs to x: `x`, `lengths`, `x_NAME`, `lengths_NAME`."""
    return name in ("x", "lengths") or name.startswith(("x_", "lengths_"))


def gathered(where: str, arrays: Mapping[str, Any]) -> Any:
    """x out of arrays by name: one, or several as `x_NAME`. Where `lengths` stands beside it, x is
    the tokens of all sequences, one after the other."""
    several = {name.removeprefix("x_"): name for name in arrays if name.startswith("x_")}
    if several and "x" in arrays:
        raise DataError(f"{where}: has both x and {next(iter(several.values()))}; give one of them")
    for name in (n for n in arrays if n.startswith("lengths")):
        if name.replace("lengths", "x", 1) not in arrays:
            raise DataError(f"{where}: {name} says how x is cut, but there is no such x")
    if not several:
        return _cut(where, arrays["x"], arrays.get("lengths"))
    return {n: _cut(where, arrays[key], arrays.get(f"lengths_{n}")) for n, key in several.items()}


def _cut(where: str, x: Any, lengths: Any) -> Any:
    if lengths is None:
        return x
    x, lengths = np.asarray(x), np.asarray(lengths)
    sound = x.ndim == 1 and lengths.ndim == 1 and lengths.dtype.kind in "ui"
    if not sound or lengths.sum() != len(x) or (len(lengths) and lengths.min() < 1):
        raise DataError(
            f"{where}: lengths must be whole numbers from 1 that add up to the {x.size} tokens in"
            f" x, got a sum of {lengths.sum()}"
        )
    return np.split(x, np.cumsum(lengths)[:-1])
