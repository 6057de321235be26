"""What somebody may have meant who typed a key or an option that does not exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amity.config.schema import CHOICES
from amity.config.sections import PARTS, SCALARS, SECTIONS, Section
from amity.config.training import TRAINING
from amity.errors import near, unknown
from amity.registry import Registry

TOPS = (*SECTIONS, "stages", *PARTS, *SCALARS)
"""Keys that stand alone, or before a dot."""
SYNONYMS: Mapping[str, str] = {
    **dict.fromkeys(("log", "logs", "logger", "logging", "sink", "tracker", "tracking"), "sinks"),
    **dict.fromkeys(("dataset", "datasets"), "data"),
    **dict.fromkeys(("clients", "nodes", "workers_count", "participants", "members"), "peers"),
    **dict.fromkeys(("algorithm", "algo", "aggregation", "selection"), "strategy"),
    **dict.fromkeys(("graph", "network"), "topology"),
    **dict.fromkeys(("net_model", "architecture", "arch"), "model"),
    **dict.fromkeys(("output", "outdir", "dir", "path", "folder"), "out"),
    **dict.fromkeys(("steps", "iterations"), "rounds"),
    **dict.fromkeys(("learning_rate", "eta"), "train.lr"),
    **dict.fromkeys(("batch_size", "bs"), "train.batch"),
    **dict.fromkeys(("optimiser", "optimizer", "optim"), "train.optimiser"),
    **dict.fromkeys(("schedule", "scheduler", "lr_schedule"), "train.schedule"),
    **dict.fromkeys(("jobs", "processes", "threads"), "engine.workers"),
    **dict.fromkeys(("gpu", "cuda"), "device"),
    **dict.fromkeys(("defence", "defense", "stage"), "stages"),
    **dict.fromkeys(("attacker", "attackers"), "attack"),
    **dict.fromkeys(("patience", "early_stopping"), "stop.patience"),
}
"""What others call our keys."""
ELSEWHERE: Mapping[str, str] = {
    "net": "net.* is for `amity swarm` and `amity peer`, which have a network",
    "strategies": "several strategies are for `amity compare` and `amity sweep`; here strategy=",
    "seeds": "several seeds are for `amity compare` and `amity sweep`; here seed=",
    "shifts": "several worlds are for `amity compare`; here shift=",
    "budget": "it belongs to `amity sweep`",
}
"""Keys of other commands."""


def unknown_key(key: str, value: Any, given: Mapping[str, Any], known: Sequence[str]) -> str:
    """One line for a key that does not exist. `given` is what else was said, which tells the
    entries that were chosen; `known` are all keys."""
    if key in ELSEWHERE:
        return f"unknown key {key!r}; {ELSEWHERE[key]}"
    meant = key_like(key, given, known)
    if meant is None:
        return unknown("key", key, known)
    told = "" if isinstance(value, Mapping | list | tuple) or value is None else f"={value}"
    return f"unknown key {key!r}; did you mean {meant.key}{told}?{meant.of}"


@dataclasses.dataclass(frozen=True)
class Meant:
    """A key that exists."""

    key: str
    owners: tuple[str, ...] = ()
    """The entries that have it, where those that were chosen have not."""

    @property
    def of(self) -> str:
        """` (an option of afind, dac)`."""
        return f" (an option of {', '.join(self.owners)})" if self.owners else ""


def key_like(
    word: str, given: Mapping[str, Any] | None = None, tops: Sequence[str] = TOPS
) -> Meant | None:
    """The key that a word stands for: by another name, as an option without its section, or
    misspelt. None: no idea."""
    word = word.strip().replace("-", "_")
    if word in SYNONYMS:
        return Meant(SYNONYMS[word])
    if word in tops or "." in word:
        return Meant(word)
    options = list(_options(given or {}))
    section, _, option = word.partition("_")
    ways = [
        [meant for at, name, meant in options if at < 2 and name == word],
        [meant for _, _, meant in options if meant.key == f"{section}.{option}"],
        [Meant(close) for close in [near(word, tops)] if close],
        [meant for _, name, meant in options if name == word],
    ]
    close = near(word, {name for _, name, _ in options})
    ways.append([meant for _, name, meant in options if name == close])
    return next((_joined(found) for found in ways if found), None)


def _options(given: Mapping[str, Any]) -> Iterator[tuple[int, str, Meant]]:
    """All options, the likeliest places first: those of the run itself, of the entries that were
    chosen, of any other entry."""
    for part, cls in PARTS.items():
        for f in dataclasses.fields(cls):
            yield 0, f.name, Meant(f"{part}.{f.name}")
    for key, section in SECTIONS.items():
        for f in dataclasses.fields(section.common) if section.common else ():
            yield 1, f.name, Meant(f"{key}.{f.name}")
        yield from _below(key, section.registry, _chosen(given.get(key), section))
    train = given.get("train")
    for key, registry in TRAINING.items():
        chosen = train.get(key) if isinstance(train, Mapping) else None
        yield from _below("train", registry, str(chosen or CHOICES[key]))


def _below(key: str, registry: Registry[Any], chosen: str) -> Iterator[tuple[int, str, Meant]]:
    """The options of all entries of a registry, of which one was chosen."""
    for entry in registry:
        for option in entry.options():
            mine = entry.name == chosen
            owners = () if mine else (entry.name,)
            yield 1 if mine else 2, option, Meant(f"{key}.{option}", owners)


def _chosen(given: Any, section: Section) -> str:
    name = given.get("name", section.default) if isinstance(given, Mapping) else given
    return str(name or section.default)


def _joined(found: list[Meant]) -> Meant:
    """The first of several, with all entries that have it."""
    same = [meant for meant in found if meant.key == found[0].key]
    chosen = any(not meant.owners for meant in same)
    return Meant(
        found[0].key, () if chosen else tuple(owner for meant in same for owner in meant.owners)
    )


def unknown_option(section: Section, entry: str, option: str, known: list[str]) -> str:
    """One line for an option that an entry has not."""
    owners = [other.name for other in section.registry if option in other.options()]
    if not owners:
        return unknown("option", option, known)
    return f"unknown option {option!r}, which belongs to {', '.join(owners)}; {entry} has " + (
        ", ".join(sorted(known)) or "none"
    )
