"""A table of several datasets, on a machine that has some of them."""

from __future__ import annotations

from dataclasses import replace

from amity.errors import MissingData
from amity.reproduce.design import Design
from amity.round.build import load_data


def without_missing(design: Design) -> Design:
    """Without the columns whose data are not here, and a line for every dataset that is missed.
    Where nothing would be left, that is refused."""
    panel, row = next(iter(design.panels)), next(iter(design.rows))
    missed: dict[str, list[str]] = {}
    errors: dict[str, MissingData] = {}
    for column in design.columns:
        config = design.config((panel, row, column), design.seeds[0])
        name = config.data.name
        try:
            if name not in errors:
                load_data(config)
        except MissingData as error:
            errors[name] = error
        if name in errors:
            missed.setdefault(name, []).append(column)
    gone = {column for columns in missed.values() for column in columns}
    if len(gone) == len(design.columns):
        raise next(iter(errors.values()))
    return replace(
        design,
        columns={name: layer for name, layer in design.columns.items() if name not in gone},
        left_out=tuple(
            f"left out: {len(columns)} columns ({', '.join(columns)}). {errors[name]}"
            for name, columns in missed.items()
        ),
    )
