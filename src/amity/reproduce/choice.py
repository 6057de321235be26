"""A part of a table: some of its rows, columns or panels, and rows of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from amity.errors import ConfigError, unknown
from amity.lab.compare import parse_spec
from amity.reproduce.design import Design
from amity.reproduce.presets import Layer
from amity.strategies import strategies


def part_of(
    design: Design, rows: Sequence[str], columns: Sequence[str], panels: Sequence[str]
) -> Design:
    """With these rows, columns and panels only; all of them where none is named."""
    chosen = with_rows(design, rows) if rows else design
    if columns:
        chosen = replace(chosen, columns=_only(design.name, "columns", design.columns, columns))
    if panels:
        chosen = replace(chosen, panels=_only(design.name, "panels", design.panels, panels))
    return chosen


def with_rows(design: Design, specs: Sequence[str]) -> Design:
    """With these rows only: of the table's own, or as comparisons name them
    (`gossip:k=5/mine.py:MyGate`)."""
    rows: dict[str, Layer] = {}
    for spec in specs:
        label, layer = (spec, design.rows[spec]) if spec in design.rows else _own(design, spec)
        if label in rows:
            raise ConfigError(f"rows: {label!r} is named twice")
        rows[label] = layer
    return replace(design, rows=rows)


def _own(design: Design, spec: str) -> tuple[str, Layer]:
    """A row that the table does not have. It must not be called like one that it has, nor set what
    a column sets."""
    try:
        label, layer = parse_spec(spec)
        strategies[layer["strategy"]["name"]]
    except ConfigError as error:
        raise ConfigError(
            f"rows: {error} (the table's own rows: {', '.join(design.rows)})"
        ) from None
    if label in design.rows:
        raise ConfigError(
            f"rows: {spec!r} would be called {label!r}, as a row of the table is; give its class"
            " another name"
        )
    for name, other in {**design.columns, **design.panels}.items():
        if both := sorted(layer.keys() & other.keys()):
            raise ConfigError(
                f"rows: {spec!r} sets {both[0]}, which {name!r} of the table of {design.name!r}"
                " sets; use `amity compare`"
            )
    return label, layer


def _only(
    table: str, axis: str, have: Mapping[str, Layer], words: Sequence[str]
) -> dict[str, Layer]:
    """Those whose names contain one of these words, as whole words."""
    if list(have) == [""]:
        raise ConfigError(f"{axis}: the table of {table!r} has none to choose from")
    for word in words:
        if not any(_named(label, word) for label in have):
            raise ConfigError(f"{axis}: {unknown('name', word, have)}")
    return {
        label: layer for label, layer in have.items() if any(_named(label, word) for word in words)
    }


def _named(label: str, word: str) -> bool:
    """Whether a label contains words as they are."""
    return f" {word} " in f" {label} "
