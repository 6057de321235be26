"""`changes="from=200 train.lr=0.01"`: what is planned to change on the way, from a named round on.

Several are separated by `;`. In TOML a change may also be a table:

    [[changes]]                 # in peer.toml: [[run.changes]]
    from = 200
    train.lr = 0.01
    strategy = "gossip"

A strategy that changes begins with an empty notebook. Everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amity.config.schema import Change, Config
from amity.config.words import parse
from amity.errors import ConfigError

SECTIONS = ("strategy", "stages", "train")
RATES = ("lr", "lr_head", "momentum", "weight_decay", "decay", "clip", "epochs", "epochs_head")
"""Of `train`. The others shape what peers compute with from the first round on."""
FORM = 'expected changes="from=200 train.lr=0.01"'
Plain = Mapping[str, Any]


def given(value: Any, nested: Callable[[Plain], dict[str, Any]]) -> list[dict[str, Any]]:
    """`changes` in one form, from text, a list of texts or tables, or one table. `nested` turns
    dotted keys into tables."""
    if isinstance(value, str):
        value = [part for part in value.split(";") if part.strip()]
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise ConfigError(f"changes: {FORM}, got {value!r}")
    return [_one(change, nested) for change in value]


def _one(change: Any, nested: Callable[[Plain], dict[str, Any]]) -> dict[str, Any]:
    if isinstance(change, Change):
        change = change.to_dict()
    if isinstance(change, str):
        try:
            change = parse(change.split())
        except ConfigError as error:
            raise ConfigError(f"changes: {error}; {FORM}") from None
    if not isinstance(change, Mapping):
        raise ConfigError(f"changes: {FORM}, got {change!r}")
    rest = dict(change)
    start = rest.pop("from", None)
    if isinstance(start, bool) or not isinstance(start, int) or start < 1:
        raise ConfigError(f"changes: from should be a round, 1 or later, got {start!r}; {FORM}")
    if not rest:
        raise ConfigError(f"changes, from={start}: changes nothing; {FORM}")
    return {"from": start, **nested(rest)}


def plan(
    config: Config, changes: list[dict[str, Any]], resolve: Callable[[list[Plain]], Config]
) -> tuple[Change, ...]:
    """The changes of a config, checked and with all options written out."""
    out: list[Change] = []
    phase = config
    for change in sorted(changes, key=lambda one: int(one["from"])):
        start = int(change["from"])
        values = {key: value for key, value in change.items() if key != "from"}
        where = f"changes, from={start}"
        if out and out[-1].start == start:
            raise ConfigError(f"{where}: is there twice; put both into one")
        if start >= config.rounds:
            raise ConfigError(
                f"{where}: is past the last round, {config.rounds - 1}; raise rounds= or leave it"
                " out"
            )
        _check_keys(where, values)
        try:
            phase = resolve([phase.to_dict(), values])
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        out.append(Change(start, _written(values, phase)))
    return tuple(out)


def _check_keys(where: str, values: Plain) -> None:
    for key, value in values.items():
        if key not in SECTIONS:
            raise ConfigError(
                f"{where}: {key} is the same in all rounds; {', '.join(SECTIONS)} can change"
            )
        for option in value if key == "train" and isinstance(value, Mapping) else ():
            if option not in RATES:
                raise ConfigError(
                    f"{where}: train.{option} is the same in all rounds; of train,"
                    f" {', '.join(RATES)} can change"
                )


def _written(values: Plain, phase: Config) -> dict[str, Any]:
    """The sections of a change as a config writes them: complete, except for rates."""
    whole = phase.to_dict()
    return {
        key: {option: whole[key][option] for option in sorted(value)}
        if key == "train"
        else whole[key]
        for key, value in sorted(values.items())
    }
