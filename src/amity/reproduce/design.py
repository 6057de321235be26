"""What a table of runs is made of: every row with every column in every panel, at the sizes of a
preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amity.config import Config, Crowd, resolve
from amity.errors import ConfigError
from amity.reproduce.presets import Layer

CellKey = tuple[str, str, str]
"""Panel, row and column."""
SIZES = ("samples", "test", "validation")
"""What every partition has."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is run. A layer is a piece of config; later ones win."""

    rows: Mapping[str, Layer]
    columns: Mapping[str, Layer]
    sizes: Mapping[str, Layer]
    """By dataset: everything that the preset sets. The dataset is what the column, else the row,
    names."""
    seeds: tuple[int, ...]
    panels: Mapping[str, Layer] = field(default_factory=lambda: {"": {}})
    over: Layer = field(default_factory=dict)
    """On top of everything: the preset's stand-in data."""
    first: tuple[str, ...] = ()
    """Rows that are run before all others: the most informative."""
    name: str = ""
    """Of its experiment."""
    whole: frozenset[CellKey] = frozenset()
    """All cells of the table, also where only some rows or columns of it are asked for."""
    stand_in: str = ""
    """What is wrong with the numbers, where other data stand in: they are not judged, nor put
    beside the paper's."""
    left_out: tuple[str, ...] = ()
    """What cannot be run here, and why: a line each."""
    budget: float = 0.0
    """Seconds that a cell is meant to take at this preset."""

    @property
    def varied(self) -> set[str]:
        """The sections that rows, columns and panels set."""
        layers = (*self.rows.values(), *self.columns.values(), *self.panels.values())
        return {key for layer in layers for key in layer}

    def cell_keys(self) -> list[CellKey]:
        """All cells, the most informative first."""
        rows = [*self.first, *(row for row in self.rows if row not in self.first)]
        ranked = [row for row in rows if row in self.rows]
        return [
            (panel, row, column)
            for row in ranked
            for panel in self.panels
            for column in self.columns
        ]

    def refuse(self, given: Sequence[Layer]) -> None:
        """What the table varies cannot be set from outside."""
        for layer in given:
            for key, value in layer.items():
                if key == "seed":
                    raise ConfigError(f"seed: a table has several; use seeds={value}")
                if key in self.varied and not _only_sizes(key, value):
                    raise ConfigError(
                        f"{key}: is what the table of {self.name!r} varies; use `amity compare`"
                        " for others"
                    )

    def config(self, key: CellKey, seed: int, given: Sequence[Layer] = ()) -> Config:
        """The run of one cell."""
        layers = [self.panels[key[0]], self.columns[key[2]], self.rows[key[1]]]
        named = (layer["data"] for layer in reversed(layers) if "data" in layer)
        data = next(named, next(iter(self.sizes)))
        under = self.sizes.get(data, next(iter(self.sizes.values())))
        mine = _merged([{"data": data}, under, *layers, self.over])
        config = resolve([mine, *(_elsewhere(layer, mine) for layer in given), {"seed": seed}])
        if config.attack.instance.harmless and config.attack.common != Crowd():
            # a share of no attackers is the same run whatever it says
            config = config.replace(attack={"name": config.attack.name})
        return config


def _only_sizes(key: str, value: object) -> bool:
    """How many attack and how many examples a peer holds may change; who attacks and how examples
    are dealt may not."""
    if not isinstance(value, Mapping):
        return False
    sizes = {"attack": {"fraction"}, "partition": set(SIZES)}.get(key, set())
    return set(value) <= sizes


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Layers on top of each other. Another partition keeps its sizes: how many examples a peer
    holds."""
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = out.get(key)
            if isinstance(old, Mapping) and isinstance(value, Mapping):
                value = {**_kept(key, old, value), **value}
            out[key] = value
    return out


def _kept(key: str, old: Layer, new: Layer) -> Layer:
    """What stays of a section when another layer sets it; one that names another thing starts
    anew."""
    if "name" not in new:
        return old
    return {k: v for k, v in old.items() if key == "partition" and k in SIZES}


def _elsewhere(given: Layer, mine: Layer) -> Layer:
    """Another engine (`engine=ray`) computes the same thing elsewhere: how peers are grouped is
    part of the thing."""
    if not isinstance(given.get("engine"), Mapping):
        return given
    kept = {k: v for k, v in mine.get("engine", {}).items() if k in ("vectorise", "group")}
    return {**given, "engine": {**kept, **given["engine"]}}
