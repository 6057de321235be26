"""Hugging Face datasets as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amity.data.columns import Array, Columns
from amity.data.forms import Form
from amity.data.kinds import ROLES
from amity.errors import DataError

LABELS = ("label", "labels", "fine_label", "target", "y")
TOKENS = ("input_ids", "tokens")
EXAMPLES = ("image", "img", "pixel_values", "features", "x", *TOKENS)


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
            [*train.x, *test.x] if train.said.kind else np.concatenate([train.x, test.x]),
            np.concatenate([train.y, test.y]),
            _both(train.peer, test.peer),
            split,
            _both(train.group, test.group),
            said=train.said,
        )
    names = list(found.column_names)
    label = _one(where, "label", LABELS, names)
    example = _one(where, "example", EXAMPLES, names)
    rest = {key: next((n for n in ROLES[key] if n in names), None) for key in ("peer", "group")}
    given: Any = {key: np.asarray(found[name]) for key, name in rest.items() if name is not None}
    if example in TOKENS:
        ids = list(found[example])
        return Columns(ids, np.asarray(found[label]), **given, said=Form("tokens"))
    try:
        x = np.stack([np.asarray(value) for value in found[example]])
    except ValueError:
        raise DataError(
            f"{where}: examples in {example!r} differ in shape; resize them first"
        ) from None
    return Columns(x, np.asarray(found[label]), **given)


def _both(one: Array | None, other: Array | None) -> Array | None:
    """A column of two parts, where both have it."""
    return None if one is None or other is None else np.concatenate([one, other])


def _one(where: str, what: str, known: Sequence[str], names: Sequence[str]) -> str:
    found = next((name for name in known if name in names), None)
    if found is None:
        text = "; turn text into ids of tokens first (input_ids)" if "text" in names else ""
        raise DataError(
            f"{where}: no {what} column; expected one of {', '.join(known)}, got"
            f" {', '.join(names)}{text}"
        )
    return found
