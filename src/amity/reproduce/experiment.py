"""An experiment: every row with every column in every panel, at the sizes of a preset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from amity.config import Config, Crowd, nested, read_run, resolve
from amity.errors import ConfigError, unknown
from amity.lab.cells import Cell
from amity.lab.compare import check_seeds, parse_spec
from amity.strategies import strategies

Layer = Mapping[str, Any]
"""A piece of config."""
Key = tuple[str, str, str]
"""Panel, row and column."""
PresetName = Literal["smoke", "cpu", "paper"]


@dataclass(frozen=True)
class Experiment:
    """What is run, and how it is compared and drawn. A layer is a piece of config; later ones
    win."""

    name: str
    title: str
    rows: Mapping[str, Layer]
    columns: Mapping[str, Layer]
    sizes: Mapping[str, Layer]
    """By dataset: everything that the preset sets. The dataset is what the column, else the row,
    names."""
    panels: Mapping[str, Layer] = field(default_factory=lambda: {"": {}})
    over: Layer = field(default_factory=dict)
    """On top of everything: the preset's stand-in data."""
    against: str = ""
    """The row that others are compared with; `|clean` is a column."""
    seeds: tuple[int, ...] = (0, 1, 2)
    first: tuple[str, ...] = ()
    """Rows that are run before all others: the most informative."""
    note: str = ""
    picture: str = "points"
    printed: str = ""
    """The panel that the paper's numbers belong to; empty: all."""
    focus: str = ""
    """The only peer that is measured; empty: all."""
    called: str = ""
    """Its name in the paper."""
    friends: bool = False
    """Whether the table also shows how many of those taken are friends."""
    whole: frozenset[Key] = frozenset()
    """All cells of the table, also where only some rows or columns of it are asked for."""
    stand_in: str = ""
    """What is wrong with the numbers, where other data stand in: they are not judged, nor put
    beside the paper's."""
    budget: float = 0.0
    """Seconds that a cell is meant to take at this preset."""

    @property
    def varied(self) -> set[str]:
        """The sections that rows, columns and panels set."""
        layers = (*self.rows.values(), *self.columns.values(), *self.panels.values())
        return {key for layer in layers for key in layer}

    def with_rows(self, specs: Sequence[str]) -> Experiment:
        """With these rows only: of the table's own, or as comparisons name them
        (`gossip:k=5/mine.py:MyGate`)."""
        if not specs:
            return self
        rows: dict[str, Layer] = {}
        for spec in specs:
            label, layer = (spec, self.rows[spec]) if spec in self.rows else self._own(spec)
            if label in rows:
                raise ConfigError(f"rows: {label!r} is named twice")
            rows[label] = layer
        return replace(self, rows=rows)

    def _own(self, spec: str) -> tuple[str, Layer]:
        """A row that the table does not have. It must not be called like one that it has, nor set
        what a column sets."""
        try:
            label, layer = parse_spec(spec)
            strategies[layer["strategy"]["name"]]
        except ConfigError as error:
            raise ConfigError(
                f"rows: {error} (the table's own rows: {', '.join(self.rows)})"
            ) from None
        if label in self.rows:
            raise ConfigError(
                f"rows: {spec!r} would be called {label!r}, as a row of the table is; give its"
                " class another name"
            )
        others = {**self.columns, **self.panels}
        for name, other in others.items():
            if both := sorted(layer.keys() & other.keys()):
                raise ConfigError(
                    f"rows: {spec!r} sets {both[0]}, which {name!r} of the table of {self.name!r}"
                    " sets; use `amity compare`"
                )
        return label, layer

    def only(self, axis: Literal["columns", "panels"], words: Sequence[str]) -> Experiment:
        """With the columns or panels only whose names contain one of these, as whole words."""
        if not words:
            return self
        have: Mapping[str, Layer] = getattr(self, axis)
        if list(have) == [""]:
            raise ConfigError(f"{axis}: the table of {self.name!r} has none to choose from")
        for word in words:
            if not any(_named(label, word) for label in have):
                raise ConfigError(f"{axis}: {unknown('name', word, have)}")
        kept = {
            label: layer
            for label, layer in have.items()
            if any(_named(label, word) for word in words)
        }
        return replace(self, columns=kept) if axis == "columns" else replace(self, panels=kept)

    # -- configs -----------------------------------------------------------------------------------

    def refuse(self, given: Sequence[Layer]) -> None:
        """What the table varies cannot be set from outside."""
        for layer in given:
            for key, value in layer.items():
                if key == "seed":
                    raise ConfigError(f"seed: a table has several; use seeds={value}")
                if key not in self.varied or (
                    key == "attack" and isinstance(value, Mapping) and set(value) == {"fraction"}
                ):
                    continue
                if key == "partition" and isinstance(value, Mapping) and set(value) <= set(SIZES):
                    continue  # sizes of a partition may change, its kind not
                raise ConfigError(
                    f"{key}: is what the table of {self.name!r} varies; use `amity compare` for"
                    " others"
                )

    def config(self, key: Key, seed: int, given: Sequence[Layer] = ()) -> Config:
        """The run of one cell."""
        panel, row, column = (self.panels[key[0]], self.rows[key[1]], self.columns[key[2]])
        layers = [panel, column, row]
        data = next(
            (layer["data"] for layer in reversed(layers) if "data" in layer), next(iter(self.sizes))
        )
        under = self.sizes.get(data, next(iter(self.sizes.values())))
        mine = _merged([{"data": data}, under, *layers, self.over])
        config = resolve([mine, *(_elsewhere(layer, mine) for layer in given), {"seed": seed}])
        if config.attack.name == "none" and config.attack.common != Crowd():
            # a share of no attackers is the same run whatever it says
            config = config.replace(attack={"name": "none"})
        return config

    def keys(self) -> list[Key]:
        """All cells, the most informative first."""
        rows = [*self.first, *(row for row in self.rows if row not in self.first)]
        ranked = [row for row in rows if row in self.rows]
        return [
            (panel, row, column)
            for row in ranked
            for panel in self.panels
            for column in self.columns
        ]

    def cells(
        self, seeds: Sequence[int], root: Path, given: Sequence[Layer] = ()
    ) -> list[tuple[Key, Cell]]:
        """One cell a key and seed, all of the first seed first. A cell's folder is named by what it
        depends on, so that tables that have cells in common share them."""
        check_seeds(seeds)
        self.refuse(given)
        out = []
        for seed in seeds:
            for key in self.keys():
                config = self.config(key, seed, given)
                label = " | ".join(part for part in key if part)
                out.append((key, Cell(label, seed, config, root / "cells" / cell_name(config))))
        return out


def _named(label: str, word: str) -> bool:
    """Whether a label contains words as they are."""
    return f" {word} " in f" {label} "


def cell_name(config: Config) -> str:
    """What a run depends on, as the name of its folder: its config, and the code of classes of
    one's own."""
    code = "".join(config.own_code.values())
    return config.digest[:20] + (
        f"-{hashlib.sha256(code.encode()).hexdigest()[:8]}" if code else ""
    )


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Layers on top of each other. Another partition keeps its sizes: how many examples a peer
    holds."""
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = out.get(key)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                kept = (
                    old
                    if "name" not in value
                    else {k: v for k, v in old.items() if key == "partition" and k in SIZES}
                )
                value = {**kept, **value}
            out[key] = value
    return out


def _elsewhere(given: Layer, mine: Layer) -> Layer:
    """Another engine (`engine=ray`) computes the same thing elsewhere: how peers are grouped is
    part of the thing."""
    if not isinstance(given.get("engine"), Mapping):
        return given
    how = {
        key: value for key, value in mine.get("engine", {}).items() if key in ("vectorise", "group")
    }
    return {**given, "engine": {**how, **given["engine"]}}


SIZES = ("samples", "test", "validation")
"""What every partition has."""


def given_layers(file: str | Path | None, overrides: Mapping[str, Any]) -> list[Layer]:
    """A file's and the caller's own keys."""
    return [layer for layer in (read_run(file) if file else {}, nested(overrides)) if layer]
