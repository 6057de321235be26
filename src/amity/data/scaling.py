"""By which statistics inputs are scaled: whose they are, and what is left as it is."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from amity.data.schema import Column, Schema

Array = np.ndarray[Any, Any]
Statistics = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation, by channel (images) or by input (rows)."""
EXACT = 2**24
"""Whole numbers up to this one are exact as the floats that a model computes with."""


def statistics(x: Array, rows: Array) -> Statistics:
    """Of some examples. What is the same everywhere is not scaled."""
    axes = (0,) if x.ndim == 2 else (0, *range(2, x.ndim))
    part = x[rows]
    mean, std = part.mean(axes, dtype=np.float64), part.std(axes, dtype=np.float64)
    std = np.where(std > 1e-12, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())


def unscaled(x: Array) -> Statistics:
    """Those that leave inputs as they are."""
    return (0.0,) * x.shape[1], (1.0,) * x.shape[1]


def scaling(schema: Schema) -> Statistics:
    """Of each input of a table, or of each channel. Numbers and dates are scaled; the inputs of a
    category, and those that say that a value is missing, stay 0 or 1."""
    if not schema.columns:
        return schema.mean, schema.std
    means: list[float] = []
    deviations: list[float] = []
    for column in schema.columns:
        plain = schema.scale == "none" or column.kind == "category"
        mean, std = (0.0, 1.0) if plain else (column.mean or 0.0, column.std or 1.0)
        rest = len(column.inputs) - 1
        means += [mean, *[0.0] * rest]
        deviations += [std, *[1.0] * rest]
    return tuple(means), tuple(deviations)


def scaled_by(schema: Schema, found: Statistics) -> Schema:
    """A table's schema with statistics of its inputs."""
    at, columns = 0, []
    for column in schema.columns:
        columns.append(_with(column, found[0][at], found[1][at]))
        at += len(column.inputs)
    return dataclasses.replace(schema, columns=tuple(columns))


def _with(column: Column, mean: float, std: float) -> Column:
    if column.kind == "category":
        return column
    return dataclasses.replace(column, mean=mean, std=std)
