"""Sweep: a grid over any keys, with the same number of tries for every strategy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from amity.config import Config, strategy_name
from amity.errors import ConfigError
from amity.lab.cells import Cell
from amity.lab.compare import (
    Before,
    check_seeds,
    collect,
    parse_spec,
    slug,
    unseen,
    with_layer,
)
from amity.lab.run import Given, as_config, new_dir, sinks_of
from amity.lab.tries import Spec, Sweep, Try, note_tries
from amity.rng import rng
from amity.show.tried import ChosenOn
from amity.sinks.stream import Stream, Wanted
from amity.strategies import strategies as registry

Grid = Mapping[str, Sequence[Any]]


def grid_sizes(strategies: Sequence[str], grid: Grid) -> dict[str, int]:
    """How many points each strategy's own grid has."""
    return {spec: len(space) for spec, space in _spaces(strategies, grid).items()}


def _spaces(strategies: Sequence[str], grid: Grid) -> dict[str, list[tuple[tuple[str, Any], ...]]]:
    """All points of every strategy: the common keys times its own."""
    spaces = {}
    for spec in strategies:
        own = strategy_name(spec)
        keys = {k: v for k, v in grid.items() if not _of_one(k, strategies)}
        keys |= {
            "strategy." + k.partition(".")[2]: v
            for k, v in grid.items()
            if k.partition(".")[0] == own
        }
        spaces[spec] = [
            tuple(zip(keys, values, strict=True)) for values in itertools.product(*keys.values())
        ]
    return spaces


def _of_one(key: str, strategies: Sequence[str]) -> bool:
    """Whether a key of the grid belongs to one strategy: `pens.k`."""
    section = key.partition(".")[0]
    return section in registry or section in map(strategy_name, strategies)


def _check_grid(strategies: Sequence[str], grid: Grid) -> None:
    """Refuse a grid that cannot be meant."""
    if not strategies:
        raise ConfigError("strategies: name at least one")
    for key, values in grid.items():
        if key in ("seed", "strategy", "strategy.name"):
            raise ConfigError(
                f"sweep: {key} is not a key of the grid; use"
                f" {'seeds=' if key == 'seed' else 'strategies='}"
            )
        if not values or len(set(map(str, values))) != len(values):
            raise ConfigError(
                f"sweep: {key}: expected different values, got"
                f" {', '.join(map(str, values)) or 'none'}"
            )
    if len(set(strategies)) != len(strategies):
        raise ConfigError("strategies: one is named twice")
    named = {strategy_name(spec) for spec in strategies}
    for key in grid:
        section = key.partition(".")[0]
        if section in registry and section not in named:
            raise ConfigError(
                f"sweep: {key} is an option of {section!r}, which is not among strategies="
            )


def choose_tries(strategies: Sequence[str], grid: Grid, budget: int, seed: int) -> list[Try]:
    """The tries of every strategy: the common keys times its own (`pens.k=2,5`), all cut to the
    same number.

    The number is `budget`, or (0) the size of the smallest grid; from a larger grid as many points
    are drawn at random.
    """
    _check_grid(strategies, grid)
    spaces = _spaces(strategies, grid)
    if max(map(len, spaces.values())) == 1:
        raise ConfigError(
            "sweep: there is no grid; give a key several values, as in train.lr=0.01,0.1"
            " (strategies beside each other: `amity compare`)"
        )
    smallest = min(len(space) for space in spaces.values())
    if budget > smallest:
        raise ConfigError(
            f"sweep: budget={budget} is more than the smallest grid has ({smallest} points)"
        )
    size = budget or smallest
    tries = []
    for spec, space in spaces.items():
        chosen = sorted(rng(seed, "sweep", spec).choice(len(space), size, replace=False))
        tries += [Try(spec, space[k]) for k in chosen]
    return tries


def sweep(
    strategies: Sequence[Spec],
    grid: Grid,
    seeds: Sequence[int] = (0,),
    budget: int = 0,
    *,
    config: Given = None,
    out: str | Path | None = None,
    jobs: int = 0,
    sinks: Wanted = None,
    before: Before = unseen,
    **overrides: Any,
) -> Sweep:
    """`amity.sweep(["pens", "afind+"], {"train.lr": [0.01, 0.1], "afind+.tau": [0.2, 0.5]},
    seeds=[0, 1])`. `sinks` and `before` are those of `compare`."""
    stream = Stream(sinks_of(config, sinks))
    base = as_config(config, overrides)
    path = Path(out) if out else new_dir("sweep")
    specs = {parse_spec(spec)[0]: spec for spec in strategies}
    tries = [
        replace(a_try, spec=specs[a_try.strategy])
        for a_try in choose_tries(list(specs), grid, budget, base.seed)
    ]
    cells = cells_of_tries(base, tries, seeds, path)
    before(cells)
    chosen_on: ChosenOn = "validation" if base.partition.instance.validation > 0 else "test"
    comparison = collect(cells, path, jobs, stream, lambda: note_tries(path, tries, chosen_on))
    result = Sweep(comparison, tries, chosen_on)
    result.save()
    return result


def cells_of_tries(
    base: Config, tries: Sequence[Try], seeds: Sequence[int], path: Path
) -> list[Cell]:
    """One cell per try and seed."""
    check_seeds(seeds)
    cells = []
    for seed in seeds:
        for a_try in tries:
            _, layer = parse_spec(a_try.spec or a_try.strategy)
            config = with_layer(base, layer).replace(**dict(a_try.values), seed=seed)
            cells.append(Cell(a_try.label, seed, config, path / slug(a_try.label) / f"seed-{seed}"))
    return cells
