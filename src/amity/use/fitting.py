"""New examples as a model takes them: in its shape, not scaled yet, or as ids of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amity.data.forms import Form, images_first, read_inputs
from amity.data.inputs import Shape, Tokens, described
from amity.data.schema import Schema
from amity.errors import DataError
from amity.use.modelfile import Description

Array = np.ndarray[Any, Any]
Inputs = Any
"""An array, or arrays by name where a model takes several inputs."""


def fitted(description: Description, where: str, x: Any) -> Inputs:
    """Examples in the shape that the model takes."""
    schema = description.schema
    if not schema.parts:
        if schema.columns:
            _refuse_encoded(schema, where)
        form = schema.form
        return _one(where, x, form if isinstance(form, tuple) else ())
    names = [part.name for part in schema.parts]
    if not isinstance(x, Mapping) or sorted(x) != sorted(names):
        got = f"got {', '.join(map(str, x))}" if isinstance(x, Mapping) else "got one"
        raise DataError(f"{where}: the model takes the inputs {', '.join(names)}, {got}")
    found = {p.name: _one(f"{where}: {p.name}", x[p.name], p.form) for p in schema.parts}
    if len({len(one) for one in found.values()}) > 1:
        raise DataError(f"{where}: inputs differ in their number of examples")
    return found


def count(x: Inputs) -> int:
    """Of examples."""
    return len(next(iter(x.values()))) if isinstance(x, Mapping) else len(x)


def _one(where: str, x: Any, shape: Shape) -> Array:
    if isinstance(shape, Tokens):
        return _sequences(where, x, shape)
    try:
        x = np.asarray(x)
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{where}: the examples differ in shape") from None
    if x.dtype.kind not in "buif" or x.ndim == 0 or len(x) == 0:
        raise DataError(f"{where}: expected examples as numbers, got {x.dtype} of shape {x.shape}")
    if x.shape[1:] != shape and x.ndim > 1 and len(shape) != 2:
        x = images_first(where, x)
    if x.shape[1:] != shape:
        raise DataError(f"{where}: examples have shape {x.shape[1:]}, the model expects {shape}")
    finite = np.isfinite(x).reshape(len(x), -1).all(1)
    if not finite.all():
        raise DataError(f"{where}: example {int(finite.argmin())} has NaN or Inf")
    return np.asarray(x, np.float32)


def _sequences(where: str, x: Any, shape: Tokens) -> Array:
    """Padded to the length that the model was trained with."""
    ids: Array = read_inputs(where, x, Form("tokens", 0, shape.vocabulary)).x
    longest = shape[0]
    if ids.shape[1] > longest:
        row = int((ids[:, longest] != 0).argmax())
        raise DataError(
            f"{where}: sequence {row} has more than {longest} tokens, and the model takes"
            f" {described(shape)}; cut it"
        )
    return np.pad(ids, ((0, 0), (0, longest - ids.shape[1])))


def _refuse_encoded(schema: Schema, where: str) -> None:
    """Rows without names are the columns in their order, where each is one number."""
    if schema.inputs != tuple(column.name for column in schema.columns):
        raise DataError(
            f"{where}: the model's columns are not all plain numbers; give a table (.csv, .parquet)"
            f" with the columns {', '.join(column.name for column in schema.columns)}"
        )
