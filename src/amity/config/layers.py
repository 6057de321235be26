"""Puts layers together to one config. Later layers win: the defaults < what suits the dataset < the
file < the overrides.

`strategy=gossip` is short for `strategy.name=gossip`. If a layer names another entry, the options
that lower layers gave to the old entry are dropped.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.config import changes, stages, training
from amity.config.hints import unknown_key
from amity.config.picks import entry_of, named, once, pick, read_strategy, single, typed
from amity.config.schema import SILENT, Config
from amity.config.sections import PARTS, SCALARS, SECTIONS
from amity.config.words import parse
from amity.data.shift import Grouping
from amity.errors import ConfigError
from amity.registry import admit, reading, take_over
from amity.stages import GUARD
from amity.toml import read_toml


def load(
    file: str | Path | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    *,
    trust: bool = False,
    real: bool = False,
) -> Config:
    """From a TOML file (or none) and overrides, as `key=value` strings or as a mapping. Code that
    the file names must be yours already, or you say that you trust it. `real`: for real peers,
    which are on their guard."""
    given = nested(overrides if isinstance(overrides, Mapping) else parse(overrides))
    layers = [read_run(file) if file else {}, given]
    if file:
        admit(file, code_named(layers, but=given), trust)
    return resolve(guarded(layers) if real else layers)


def guarded(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What real peers start with, among whom may be a liar: where no stages are named, the one that
    goes with the strategy. `stages=none` is without."""
    if any("stages" in unfolded(layer) for layer in layers):
        return list(layers)
    strategy = resolve(layers).strategy.instance
    return [{"stages": getattr(strategy, "guard", GUARD)}, *layers]


def code_named(layers: Sequence[Mapping[str, Any]], but: Any = ()) -> list[str]:
    """The code that layers name, without running any. What stands in `but` was typed: it is yours,
    and left out."""
    with reading() as named:
        _ = resolve(layers).own_code  # proxies too are looked up for it
    typed_in = json.dumps(but, default=str)
    for name in [name for name in named if name in typed_in]:
        named.remove(name)
        take_over(name)
    return named


ASIDE = ("sinks",)
"""Keys that may stand in a file beside those of the run: no result depends on them."""


def read_run(file: str | Path) -> dict[str, Any]:
    """The keys of a file that belong to the run itself."""
    return {key: value for key, value in read_toml(file).items() if key not in ASIDE}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns {"a.b": 1} into {"a": {"b": 1}}. What is nested already stays. `a` beside `a.b` means
    `a.name`."""
    out: dict[str, Any] = {}
    flat = unfolded(flat)
    _check_sizes(flat)
    for key, value in flat.items():
        section, dot, option = key.partition(".")
        if section == "stages":
            more = stages.option_given(option, value) if option else stages.given(value)
            out["stages"] = stages.joined(out.get("stages", {}), more)
            continue
        if key in LISTS:
            out[key] = LISTS[key](value)
            continue
        if section in SECTIONS and option in ("", "name"):
            value, dot = named(section, value), ""
        if not dot and not isinstance(value, Mapping):
            out[section] = value
            continue
        table = out.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{key}: {section} is a single value and has no parts")
        out[section] = once(section, table, {option: value} if dot else value)
    return out


def unfolded(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer in which `strategy=gossip/krum@ditto`, as a comparison names its strategies, has
    become a strategy, stages and a method."""
    spec = layer.get("strategy")
    parts = read_strategy(spec, "strategy") if isinstance(spec, str) else {}
    if parts.keys() <= {"strategy"}:
        return layer
    for key in parts.keys() - {"strategy"} & layer.keys():
        raise ConfigError(f"{key}: is given twice, in strategy={spec} and by itself; leave one out")
    return {key: value for key, value in layer.items() if key != "strategy"} | parts


def _check_sizes(flat: Mapping[str, Any]) -> None:
    """Groups and sizes that are both given must agree. A config that was resolved has a number of
    groups beside any sizes, so this is about what was typed."""
    shift = flat.get("shift")
    typed_in = dict(named("shift", shift)) if isinstance(shift, str) else {}
    both = {key: flat.get(f"shift.{key}", typed_in.get(key)) for key in ("groups", "sizes")}
    if None not in both.values():
        grouping = typed("shift", Grouping, both)
        try:
            grouping.agree()
        except ValueError as error:
            raise ConfigError(f"shift: {error}") from None


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """One layer on top of another."""
    out = dict(low)
    for key, value in high.items():
        if key == "stages":
            out[key] = stages.joined(stages.given(low.get(key, {})), stages.given(value))
            continue
        if key in SECTIONS:
            value = named(key, value)
        if isinstance(value, Mapping) and key in SCALARS:
            raise ConfigError(f"{key}: is a single value, got {key}.{next(iter(value), '')}=")
        out[key] = _over(key, out.get(key, {}), value) if isinstance(value, Mapping) else value
    return out


def _over(key: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """One table on top of another; another name or preset drops what belonged to the old one."""
    if key == "train":
        return training.over(low, high)
    renamed = "name" in high and high["name"] != low.get("name")
    base = {} if renamed and key in SECTIONS else dict(low)
    if "preset" in high and not renamed and high["preset"] != base.get("preset"):
        base = {"name": base["name"]} if "name" in base else {}
    return base | dict(high)


def resolve(layers: Iterable[Mapping[str, Any]]) -> Config:
    """Merge, check and build."""
    given: dict[str, Any] = {}
    for layer in layers:
        given = _merge(given, unfolded(layer))
    known = [*SECTIONS, "stages", *PARTS, *SCALARS, *LISTS]
    given |= {key: _by_path(key, given[key]) for key in SECTIONS if "path" in given.get(key, {})}
    merged = _merge(_suits(given), given)
    for key, value in given.items():
        if key not in known:
            raise ConfigError(unknown_key(key, value, merged, known))
    _check_silent(merged)
    values: dict[str, Any] = {
        key: pick(key, section, merged.get(key, {})) for key, section in SECTIONS.items()
    }
    merged["train"], choices = training.divided(merged.get("train", {}))
    values |= choices
    values |= {key: typed(key, part, merged.get(key, {})) for key, part in PARTS.items()}
    values |= {key: single(key, merged[key]) for key in SCALARS if key in merged}
    values["stages"] = stages.pick_stages(stages.given(merged.get("stages", {})))
    values["extended"] = _extensions(merged.get("extended", []))
    config = _held_out(_grouped(_stepping(Config(**values))))
    planned = _changes(merged.get("changes", []))
    config = dataclasses.replace(config, changes=changes.plan(config, planned, resolve))
    return _judged(_held_out(config))


def _changes(value: Any) -> list[dict[str, Any]]:
    return changes.given(value, nested)


def _extensions(value: Any) -> tuple[tuple[int, int], ...]:
    """Written by Amity itself when a run is extended."""
    pairs = value if isinstance(value, list | tuple) else [value]
    if not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(n) is int for n in pair)
        for pair in pairs
    ):
        raise ConfigError(f"extended: expected pairs of numbers of rounds, got {value!r}")
    return tuple((int(at), int(before)) for at, before in pairs)


LISTS: Mapping[str, Callable[[Any], Any]] = {"changes": _changes, "extended": _extensions}
"""Keys that hold a list, and what brings it into one form. A higher layer replaces it whole."""


def _by_path(key: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """`data.path=a.csv` says what it is, as `data=a.csv` does."""
    if "name" in options:
        return options
    found = SECTIONS[key].read(str(options["path"]))
    if found is None:
        raise ConfigError(
            f"{key}.path: cannot tell what {options['path']!r} is; expected an existing folder, or"
            f" a file .csv, .parquet or .npz (or say {key}=NAME)"
        )
    return {**found, **options}


def _suits(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that fit a dataset, used if nothing else is said."""
    section, data = SECTIONS["data"], given.get("data", {})
    source = entry_of(section, str(data.get("name", section.default))).cls
    suiting: Callable[..., Mapping[str, Any]] | None = getattr(source, "suiting", None)
    suits: Mapping[str, Any] = getattr(source, "suits", {})
    chosen = "name" in given.get("model", {})
    return suits if suiting is None else suiting(data, chosen)


def _check_silent(given: Mapping[str, Any]) -> None:
    """Options of an entry that was not picked would be ignored in silence."""
    for key, nothing in SILENT.items():
        section = SECTIONS[key]
        options = dict(given.get(key, {}))
        own = section.registry[nothing].options()
        options = {name: value for name, value in options.items() if name not in own}
        if options.pop("name", nothing) == nothing and options:
            option = next(iter(options))
            others = [entry for entry in section.registry if entry.name != nothing]
            owners = [entry for entry in others if option in entry.options()] or others
            raise ConfigError(
                f"{key}.{option}: there is no {key} to which it belongs; say which:"
                f" {key}={' or '.join(entry.name for entry in owners)}, or leave it out"
            )


def _stepping(config: Config) -> Config:
    """A schedule must fit the number of rounds, and what shall be kept must exist."""
    if not config.schedule.absent and (misfit := config.schedule.instance.misfit(config.rounds)):
        raise ConfigError(misfit)
    optimiser = config.optimiser
    if config.train.keep and not optimiser.absent and not optimiser.instance.remembers:
        raise ConfigError(
            f"train.keep: {optimiser.label} with {_said(optimiser.options)} remembers nothing that"
            " could be kept; leave it out"
        )
    return config


def _said(options: Mapping[str, Any]) -> str:
    return " ".join(f"train.{key}={value}" for key, value in options.items())


def _grouped(config: Config) -> Config:
    """The groups of a shift must fit the number of peers."""
    if not config.shift.absent and not config.shift.instance.plain:
        config.shift.common.counts(config.peers)
    return config


def _judged(config: Config) -> Config:
    """Who ends a run early must have examples to judge by."""
    judge = config.partition.absent or config.partition.instance.validation
    if config.stop.patience and not judge:
        raise ConfigError(
            "stop.patience: there are no validation examples to judge by (test examples have no say"
            " in it); set partition.validation=0.2"
        )
    return config


def _held_out(config: Config) -> Config:
    """Some strategies and stages measure on examples that are not used for training. They say by
    `held_out` how many to set aside, unless the partition says it."""
    wanted = max(
        float(getattr(one.instance, "held_out", 0.0))
        for key, one in config.picks
        if key in ("strategy", "stages")
    )
    if not wanted or config.partition.absent or config.partition.instance.validation:
        return config
    options = {**config.partition.to_dict(), "validation": wanted}
    return dataclasses.replace(config, partition=pick("partition", SECTIONS["partition"], options))
