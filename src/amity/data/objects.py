"""One's own data as Python has it: anything that a function returns, or that was passed itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, datasets
from amity.data.columns import COLUMNS, Columns, Fraction, dataset_of, from_mapping
from amity.data.schema import Scale
from amity.errors import DataError, unknown
from amity.registry import QUIET, fingerprint


def adapt(where: str, found: Any, test_share: float, scale: Scale = "standard") -> Dataset:
    """A dataset out of what a function returned: a Dataset, arrays (tuple or mapping), a Hugging
    Face dataset, or a torch Dataset of (example, label) or (example, label, peer)."""
    if isinstance(found, Dataset):
        return found
    if type(found).__module__.partition(".")[0] == "datasets":
        from amity.data.hugging_face import read_hugging_face

        return dataset_of(where, read_hugging_face(where, found), test_share, scale)
    if isinstance(found, Mapping):
        for name in found:
            if name not in COLUMNS:
                raise DataError(f"{where}: {unknown('array', str(name), COLUMNS)}")
        return dataset_of(where, from_mapping(where, found), test_share, scale)
    if isinstance(found, tuple) and 2 <= len(found) <= 4:
        return dataset_of(where, Columns(*map(np.asarray, found)), test_share, scale)
    try:
        rows = [tuple(found[k]) for k in range(len(found))]
        columns = [
            np.stack([np.asarray(value) for value in column]) for column in zip(*rows, strict=True)
        ]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(
            f"{where}: returned {type(found).__name__}, expected x and y, a mapping with them, or a"
            f" dataset ({error})"
        ) from None
    if not 2 <= len(columns) <= 4:
        raise DataError(
            f"{where}: its examples have {len(columns)} parts, expected (x, y) or (x, y, peer)"
        )
    return dataset_of(where, Columns(*columns), test_share, scale)


@dataclass(frozen=True, eq=False)
class Made:
    """Loads what a function returns. Each function has a subclass of its own, and two of them are
    equal if their keys are: a dataset that is in memory is not loaded again."""

    test_share: Fraction = 0.2
    scale: Scale = field(default="standard", metadata=QUIET)
    """standard: inputs get mean 0 and deviation 1; none: they stay as they are."""

    suits: ClassVar[Mapping[str, Any]] = {"model": {"name": "mlp"}}
    key: ClassVar[object] = None
    where: ClassVar[str] = ""
    make: ClassVar[Callable[..., Any]]

    def load(self) -> Dataset:
        return adapt(self.where, self.make(), self.test_share, self.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, float, str]:
        return self.key, self.test_share, self.scale


def _made(label: str, where: str, key: object, make: Callable[[], Any], **suits: Any) -> type[Any]:
    suited = {**Made.suits, **suits}
    own = {"key": key, "where": where, "make": staticmethod(make), "suits": suited}
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
    return _made(label, f"{getattr(thing, '__module__', '')}:{label}", thing, thing)


def _are_arrays(options: Mapping[str, Any]) -> bool:
    """Whether this is `{"x": ..., "y": ...}`, and no table of options."""
    return "x" in options and not isinstance(options["x"], str | int | float)


def _given(label: str, found: Any) -> type[Any]:
    """A dataset out of what is there already. It must stay as it was when it was passed."""
    digest = fingerprint(found)

    def same() -> Any:
        if fingerprint(found) != digest:
            raise DataError(f"data {label}: has been changed since it was passed; pass it again")
        return found

    peers = found.get("peer") if isinstance(found, Mapping) else None
    if peers is None:
        return _made(label, f"data {label}", digest, same)
    count = len(np.unique(np.asarray(peers)))
    return _made(label, f"data {label}", digest, same, partition={"name": "natural"}, peers=count)


datasets.wrap_objects(wrap)
