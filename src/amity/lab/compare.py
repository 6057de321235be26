"""Compare strategies on the same data, graph and seeds: paired, parallel, resumable."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.config import Config, read_strategy, resolve
from amity.core import Strategy
from amity.errors import ConfigError, Failure, RunDirError, brief
from amity.files import write_atomically
from amity.lab.cells import Cell, run_cells
from amity.lab.comparison import Comparison
from amity.lab.result import Result
from amity.lab.run import Given, as_config, new_dir, sinks_of
from amity.peer.privacy import needs_opacus
from amity.round.build import bad_peers
from amity.sinks.stream import Stream, Wanted
from amity.store import RunDir, note_command, refuse_unusable
from amity.strategies import strategies as registry
from amity.topology import peer_names

DEFAULT_STRATEGIES = (
    "local",
    "fedavg",
    "gossip:k=5",
    "pens:k=5",
    "federico:k=5",
    "afind+:paper",
    "afind+:tuned",
    "friends",
    "oracle",
)


def parse_spec(spec: str | Strategy) -> tuple[str, dict[str, Any]]:
    """Turns `afind+:paper:tau=0.8/fomo@ditto:lam=1` into its label and the sections that it sets:
    the strategy with its options, the stages after it, and the method. Your own class, or an
    instance of it, may be given in place of a text."""
    if not isinstance(spec, str):
        return _label(spec), {"strategy": spec}
    layer = read_strategy(spec, "strategies")
    options = layer["strategy"]
    label = (
        spec
        if options["name"] in registry
        else spec.replace(options["name"], options["name"].rpartition(":")[2], 1)
    )
    return label, layer


def _label(thing: Any) -> str:
    """What an object is called in a table: its class, and the options that are not the default."""
    if not dataclasses.is_dataclass(thing):
        raise ConfigError(
            "strategies: expected names or instances of a frozen dataclass, or its class, got"
            f" {thing!r}"
        )
    if isinstance(thing, type):
        return thing.__name__
    fields = [f for f in dataclasses.fields(thing) if f.init]
    changed = [
        f"{f.name}={value}" for f in fields if (value := getattr(thing, f.name)) != f.default
    ]
    return ":".join([type(thing).__name__, *changed])


def slug(label: str) -> str:
    """A label as a folder name; different labels give different names."""
    name = re.sub(r"[^A-Za-z0-9._=-]", "_", label.replace("+", "-plus"))[:100]
    plain = re.fullmatch(r"[A-Za-z0-9.=+:, -]{1,90}", label)
    return name if plain else f"{name}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def with_layer(base: Config, layer: Mapping[str, Any]) -> Config:
    """The config with these sections, without anything that it had in them before."""
    rest = {key: value for key, value in base.to_dict().items() if key not in layer}
    return resolve([rest, layer])


def check_seeds(seeds: Sequence[int]) -> None:
    if not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds: expected a list of numbers, got {seeds!r}")
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds: expected different seeds, got {list(seeds)}")


def cells_for(
    base: Config, specs: Sequence[str | Strategy], seeds: Sequence[int], path: Path
) -> list[Cell]:
    """One cell per strategy and seed. The first seed of all strategies comes first."""
    parsed = [parse_spec(spec) for spec in specs]
    labels = [label for label, _ in parsed]
    if not labels:
        raise ConfigError("strategies: name at least one")
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"strategies: {label!r} is named twice")
    check_seeds(seeds)
    configs = {label: with_layer(base, layer) for label, layer in parsed}
    return [
        Cell(label, seed, config.replace(seed=seed), path / slug(label) / f"seed-{seed}")
        for seed in seeds
        for label, config in configs.items()
    ]


def _prepare(cells: Sequence[Cell], path: Path) -> dict[str, list[str]]:
    """Check that the directory can take these cells. Returns the content of comparison.json: old
    and new labels."""
    refuse_unusable(path)
    record = path / "comparison.json"
    if path.exists() and any(path.iterdir()) and not record.exists():
        raise RunDirError(f"{path}: is not empty and holds no comparison; choose another out=")
    for cell in cells:
        needs_opacus(cell.config.privacy.instance)
        bad_peers(cell.config, peer_names(cell.config.peers))
        RunDir.check(cell.path, cell.config)
    try:
        path.mkdir(parents=True, exist_ok=True)
        folders: dict[str, list[str]] = json.loads(record.read_bytes()) if record.exists() else {}
    except (OSError, ValueError) as error:
        raise RunDirError(f"{path}: cannot be used ({brief(error)}); choose another out=") from None
    for cell in cells:
        runs, name = folders.setdefault(cell.label, []), str(cell.path.relative_to(path))
        runs += [name] if name not in runs else []
    return folders


Before = Callable[[Sequence[Cell]], None]
"""Shown all cells before the first is run."""


def unseen(_cells: Sequence[Cell]) -> None:
    """Ignores the cells."""


def collect(
    cells: Sequence[Cell],
    path: Path,
    jobs: int,
    stream: Stream,
    ready: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run cells and gather them by label, in the order in which the labels first come. `ready` is
    called when the directory has been taken, before the first is run."""
    folders = _prepare(cells, path)
    with stream:
        write_atomically(path / "comparison.json", json.dumps(folders, indent=1).encode())
        note_command(path)
        ready()
        outcome = run_cells(cells, jobs, stream.take, path)
    results: dict[str, list[Result]] = {cell.label: [] for cell in cells}
    for at, result in sorted(outcome.results.items()):
        results[cells[at].label].append(result)
    errors = {
        f"{cells[at].label} seed {cells[at].seed}": error for at, error in outcome.errors.items()
    }
    if not outcome.results:
        raise Failure("no run succeeded; first error: " + next(iter(errors.values())))
    return Comparison(path, results, errors)


def compare(
    strategies: Sequence[str | Strategy] = DEFAULT_STRATEGIES,
    seeds: Sequence[int] = (0, 1, 2),
    config: Given = None,
    out: str | Path | None = None,
    jobs: int = 0,
    sinks: Wanted = None,
    before: Before = unseen,
    **overrides: Any,
) -> Comparison:
    """Compare strategies on the same data, graph and seeds, and write a report.

    `strategies` are names (`"gossip"`, `"afind+:paper:tau=0.8"`, `"my_file.py:Mine"`) or instances
    of your own class. `amity.compare(["local", "gossip", Mine(k=3)], seeds=[0, 1], peers=10)`

    `sinks` are told what happens, as in `run`. `before` is called with all cells before the first
    is run.
    """
    comparison = compared(strategies, seeds, config, out, jobs, sinks, before, **overrides)
    comparison.save()
    return comparison


def compared(
    strategies: Sequence[str | Strategy],
    seeds: Sequence[int],
    config: Given,
    out: str | Path | None,
    jobs: int,
    sinks: Wanted,
    before: Before,
    **overrides: Any,
) -> Comparison:
    """The same, without its report."""
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):
        raise ConfigError(f"strategies: expected a list, got {strategies!r}; use [{strategies!r}]")
    stream = Stream(sinks_of(config, sinks))
    base = as_config(config, overrides)
    path = Path(out) if out else new_dir("compare")
    cells = cells_for(base, strategies, seeds, path)
    before(cells)
    return collect(cells, path, jobs, stream)
