"""Puts layers together to one config. Later layers win: the defaults < what suits the dataset < the
file < the overrides.

`strategy=gossip` is short for `strategy.name=gossip`. If a layer names another entry, the options
that lower layers gave to the old entry are dropped.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from amity.config import stages, training
from amity.config.picks import named, pick, single, typed
from amity.config.schema import SILENT, Config
from amity.config.sections import PARTS, SCALARS, SECTIONS
from amity.config.words import parse
from amity.data.shift import Grouping
from amity.errors import ConfigError, brief, unknown


def load(
    file: str | Path | None = None, overrides: Iterable[str] | Mapping[str, Any] = ()
) -> Config:
    """From a TOML file (or none) and overrides, as `key=value` strings or as a mapping."""
    given = nested(overrides if isinstance(overrides, Mapping) else parse(overrides))
    return resolve([read_run(file) if file else {}, given])


ASIDE = ("sinks",)
"""Keys that may stand in a file beside those of the run: no result depends on them."""


def read_run(file: str | Path) -> dict[str, Any]:
    """The keys of a file that belong to the run itself."""
    return {key: value for key, value in read_toml(file).items() if key not in ASIDE}


def read_toml(file: str | Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: is not valid TOML ({brief(error)})") from None


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns {"a.b": 1} into {"a": {"b": 1}}. What is nested already stays. `a` beside `a.b` means
    `a.name`."""
    out: dict[str, Any] = {}
    _check_sizes(flat)
    for key, value in flat.items():
        section, dot, option = key.partition(".")
        if section == "stages":
            more = stages.option_given(option, value) if option else stages.given(value)
            out["stages"] = stages.joined(out.get("stages", {}), more)
            continue
        if section in SECTIONS and not dot:
            value = named(section, value)
        target = out.setdefault(section, {}) if dot or isinstance(value, Mapping) else out
        if not isinstance(target, dict):
            raise ConfigError(f"{key}: {section} is a single value and has no parts")
        target.update(
            {option: value} if dot else value if isinstance(value, Mapping) else {section: value}
        )
    return out


def _check_sizes(flat: Mapping[str, Any]) -> None:
    """Groups and sizes that are both given must agree. A config that was resolved has a number of
    groups beside any sizes, so this is about what was typed."""
    both = {key: flat.get(f"shift.{key}") for key in ("groups", "sizes")}
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
        given = _merge(given, layer)
    known = [*SECTIONS, "stages", *PARTS, *SCALARS]
    for key in given:
        if key not in known:
            raise ConfigError(unknown("key", key, known))
    merged = _merge(_suits(given.get("data", {})), given)
    _check_silent(merged)
    values: dict[str, Any] = {
        key: pick(key, section, merged.get(key, {})) for key, section in SECTIONS.items()
    }
    merged["train"], choices = training.divided(merged.get("train", {}))
    values |= choices
    values |= {key: typed(key, part, merged.get(key, {})) for key, part in PARTS.items()}
    values |= {key: single(key, merged[key]) for key in SCALARS if key in merged}
    values["stages"] = stages.pick_stages(stages.given(merged.get("stages", {})))
    return _held_out(_grouped(_stepping(Config(**values))))


def _suits(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that fit a dataset, used if nothing else is said."""
    section = SECTIONS["data"]
    suits: Mapping[str, Any] = getattr(
        section.registry[str(data.get("name", section.default))].cls, "suits", {}
    )
    return suits


def _check_silent(given: Mapping[str, Any]) -> None:
    """Options of an entry that was not picked would be ignored in silence."""
    for key, nothing in SILENT.items():
        options = dict(given.get(key, {}))
        if options.pop("name", nothing) == nothing and options:
            names = [entry.name for entry in SECTIONS[key].registry if entry.name != nothing]
            raise ConfigError(
                f"{key}.{next(iter(options))}: there is no {key} to which it belongs; say which:"
                f" {key}={' or '.join(names)}"
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


def _held_out(config: Config) -> Config:
    """Some strategies and stages measure on examples that are not used for training. They say by
    `held_out` how many to set aside, unless the partition says it."""
    wanted = max(
        float(getattr(one.instance, "held_out", 0.0)) for one in (config.strategy, *config.stages)
    )
    if not wanted or config.partition.absent or config.partition.instance.validation:
        return config
    options = {**config.partition.to_dict(), "validation": wanted}
    return dataclasses.replace(config, partition=pick("partition", SECTIONS["partition"], options))
