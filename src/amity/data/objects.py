"""One's own data as Python has it: anything that a function returns, or that was passed itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, datasets
from amity.data.columns import COLUMNS, Columns, Fraction, dataset_of, from_mapping
from amity.data.forms import Count, Form, KindName, fitting, is_input, ragged
from amity.data.hugging_face import TOKENS, read_hugging_face
from amity.data.inputs import kind_of
from amity.data.schema import Scale
from amity.errors import DataError, unknown
from amity.registry import QUIET, fingerprint

PICTURE = 16
"""Pixels of a side, from which images are given to convolutions."""
SOME = 20
"""Examples of a dataset that are looked at to see what they are."""


def adapt(
    where: str,
    found: Any,
    test_share: float,
    scale: Scale = "standard",
    said: Form | None = None,
    numbers: bool = False,
) -> Dataset:
    """A dataset out of what a function returned: a Dataset, arrays (tuple or mapping), a Hugging
    Face dataset, or a torch Dataset of (example, label) or (example, label, peer). Examples may be
    mappings of arrays, and lists of tokens. With `numbers` labels are no classes."""
    if isinstance(found, Dataset):
        return found
    columns = _columns(where, found)
    said = said or Form()
    columns = replace(columns, said=replace(said, kind=said.kind or columns.said.kind))
    return dataset_of(where, columns, test_share, scale, numbers)


def _columns(where: str, found: Any) -> Columns:
    if type(found).__module__.partition(".")[0] == "datasets":
        return read_hugging_face(where, found)
    if isinstance(found, Mapping):
        for name in found:
            if name not in COLUMNS and not is_input(str(name)):
                raise DataError(f"{where}: {unknown('array', str(name), COLUMNS)}")
        return from_mapping(where, found)
    if isinstance(found, tuple) and 2 <= len(found) <= 4:
        y = found[1] if ragged(found[1]) else np.asarray(found[1])
        return Columns(found[0], y, *map(np.asarray, found[2:]))
    try:
        rows = [tuple(found[k]) for k in range(len(found))]
        x, *rest = zip(*rows, strict=True)
        columns = [np.stack([np.asarray(value) for value in column]) for column in rest]
        inputs = _inputs(x)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(
            f"{where}: returned {type(found).__name__}, expected x and y, a mapping with them, or a"
            f" dataset ({error})"
        ) from None
    if not 1 <= len(columns) <= 3:
        raise DataError(
            f"{where}: its examples have {1 + len(columns)} parts, expected (x, y) or (x, y, peer)"
        )
    return Columns(inputs, *columns)


def _inputs(examples: Sequence[Any]) -> Any:
    """The examples of a dataset as one: stacked, or as sequences that differ in length."""
    if isinstance(examples[0], Mapping):
        return {name: _inputs([one[name] for one in examples]) for name in examples[0]}
    arrays = [np.asarray(one) for one in examples]
    return arrays if ragged(arrays) else np.stack(arrays)


@dataclass(frozen=True, eq=False)
class Made:
    """Loads what a function returns. Each function has a subclass of its own, and two of them are
    equal if their keys are: a dataset that is in memory is not loaded again."""

    test_share: Fraction = 0.2
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
    key: ClassVar[object] = None
    where: ClassVar[str] = ""
    make: ClassVar[Callable[..., Any]]
    unseen: ClassVar[bool] = False
    """Whether it is a function, of which nobody knows yet what it returns."""
    waiting: ClassVar[list[Any]]
    """What was made to be looked at, until it is read."""

    def load(self) -> Dataset:
        return self._read(numbers=False)

    def numbers(self) -> Dataset:
        return self._read(numbers=True)

    def _read(self, *, numbers: bool) -> Dataset:
        said = Form(self.kind, self.length, self.vocabulary)
        found = self.waiting.pop() if self.waiting else self.make()
        return adapt(self.where, found, self.test_share, self.scale, said, numbers)

    @classmethod
    def suiting(cls, options: Mapping[str, Any], chosen: bool) -> Mapping[str, Any]:
        """What fits it. What a function returns is looked at where it matters: if neither a kind
        nor a model is `chosen`."""
        kind = str(options.get("kind", ""))
        looked = {} if kind or chosen or not cls.unseen else _suited(cls._found())
        return {**cls.suits, **looked, **fitting(kind)}

    @classmethod
    def _found(cls) -> Any:
        """What it returns, made once for whoever looks at it and whoever reads it next."""
        if not cls.waiting:
            cls.waiting.append(cls.make())
        return cls.waiting[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.key, self.test_share, self.scale, self.kind, self.length, self.vocabulary


def _made(
    label: str,
    where: str,
    key: object,
    make: Callable[[], Any],
    *,
    unseen: bool = False,
    **suits: Any,
) -> type[Any]:
    suited = {**Made.suits, **suits}
    own: dict[str, Any] = {"key": key, "where": where, "make": staticmethod(make)}
    own |= {"suits": suited, "waiting": [], "unseen": unseen}
    return type(label.rpartition(".")[2], (Made,), own)


def wrap(thing: Any) -> type[Any] | None:
    """A dataset out of a plain function (`data=file.py:function`), or out of what such a function
    returns: arrays, or a dataset of another library. None for plain values and for options."""
    if thing is None or isinstance(thing, str | int | float):
        return None
    if isinstance(thing, Mapping):
        return _given("arrays", thing) if _are_arrays(thing) else None
    if not callable(thing):
        return _given(type(thing).__name__, thing)
    label = getattr(thing, "__qualname__", type(thing).__name__)
    return _made(label, f"{getattr(thing, '__module__', '')}:{label}", thing, thing, unseen=True)


def _are_arrays(options: Mapping[str, Any]) -> bool:
    """Whether this is `{"x": ..., "y": ...}`, and no table of options."""
    given = [value for key, value in options.items() if key == "x" or str(key).startswith("x_")]
    return bool(given) and not any(isinstance(value, str | int | float) for value in given)


def _given(label: str, found: Any) -> type[Any]:
    """A dataset out of what is there already. It must stay as it was when it was passed."""
    digest = fingerprint(found)

    def same() -> Any:
        if fingerprint(found) != digest:
            raise DataError(f"data {label}: has been changed since it was passed; pass it again")
        return found

    fits = _suited(found)
    peers = found.get("peer") if isinstance(found, Mapping) else None
    if peers is None:
        return _made(label, f"data {label}", digest, same, **fits)
    count = len(np.unique(np.asarray(peers)))
    natural: dict[str, Any] = {"partition": {"name": "natural"}, "peers": count}
    return _made(label, f"data {label}", digest, same, **fits, **natural)


def _suited(found: Any) -> dict[str, Any]:
    """The model for what was found; empty: that of any data."""
    return fitting(_kind(found)) or ({"model": {"name": "fedavg_cnn"}} if _pictured(found) else {})


def _pictured(found: Any) -> bool:
    """Whether its examples are images that are large enough for convolutions."""
    if isinstance(found, Dataset):
        shape: Any = found.shape
        return isinstance(shape, tuple) and len(shape) == 3 and min(shape[1:]) >= PICTURE
    try:
        x: Any = found.get("x") if isinstance(found, Mapping) else found[0]
        first = np.asarray(x[0])
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):  # told when it is read
        return False
    return first.ndim in (2, 3) and sorted((1, *first.shape))[-2] >= PICTURE


def _kind(found: Any) -> str:
    """What its examples are, where that can be seen at once; empty: what their shape says."""
    if isinstance(found, Dataset):
        return kind_of(found.shape)
    names = getattr(found, "column_names", ())  # of a Hugging Face dataset, or of each of its parts
    names = [n for part in names.values() for n in part] if isinstance(names, Mapping) else names
    if any(name in TOKENS for name in names):
        return "tokens"
    if isinstance(found, Mapping):
        return "tokens" if "lengths" in found or ragged(found.get("x")) else ""
    if isinstance(found, tuple):
        return "tokens" if found and ragged(found[0]) else ""
    try:
        first = [found[k][0] for k in range(min(SOME, len(found)))]
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):  # told when it is read
        return ""
    return "tokens" if ragged(first) else ""


datasets.wrap_objects(wrap)
