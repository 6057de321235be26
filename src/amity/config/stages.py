"""`stages=fomo,krum:keep=1`: the only section that can have several entries; their order matters.

They can be given in several forms. Between layers they are always a table with two keys: `use`, a
list of tables with names, and `of`, more options by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amity.config.picks import named, pick
from amity.config.schema import Pick
from amity.config.sections import STAGE
from amity.config.words import read_spec, split_list
from amity.core import Strategy
from amity.errors import ConfigError

NONE = "none"
"""Without stages, also where some would be there by default."""
FORM = "expected stages.STAGE.option=value, or stages=STAGE,STAGE"


def option_given(option: str, value: Any) -> dict[str, Any]:
    """`stages.fomo.norm=l1`, and the same as tables."""
    name, dot, key = option.partition(".")
    if dot:
        return {"of": {name: {key: value}}}
    if isinstance(value, Mapping):
        return {"of": {name: dict(value)}}
    raise ConfigError(f"stages.{option}: {FORM}")


def given(value: Any) -> dict[str, Any]:
    """`stages` in one form, from text, a list, one object or a table."""
    if isinstance(value, Mapping):
        return _table(value)
    if isinstance(value, str):
        value = [] if value == NONE else split_list(value)
    if value is None or isinstance(value, int | float):
        raise ConfigError(f"stages: expected names of stages, got {value!r}")
    used = [_one(stage) for stage in (value if isinstance(value, list | tuple) else [value])]
    if not all(stage.get("name") for stage in used):
        raise ConfigError('stages: each needs a name, as in [[stages]] name = "krum"')
    return {"use": used}


def _one(stage: Any) -> Mapping[str, Any]:
    if isinstance(stage, str):
        return read_spec(stage, STAGE.registry, "stages")
    return named("stages", stage)


def _table(value: Mapping[str, Any]) -> dict[str, Any]:
    if not value.keys() <= {"use", "of"}:
        value = {"of": value}
    of = value.get("of", {})
    if not isinstance(of, Mapping) or not all(isinstance(one, Mapping) for one in of.values()):
        raise ConfigError(f"stages: {FORM}")
    used = given(value["use"]) if "use" in value else {}
    return used | {"of": {name: dict(options) for name, options in of.items()}}


def joined(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Puts the stages of a higher layer over those of a lower one. If the higher layer names
    stages, the old ones are dropped with their options."""
    anew = "use" in high and "use" in low
    of = {name: dict(options) for name, options in low.get("of", {}).items() if not anew}
    for name, options in high.get("of", {}).items():
        of[name] = of.get(name, {}) | options
    used = [layer["use"] for layer in (low, high) if "use" in layer]
    return {"of": of} | ({"use": used[-1]} if used else {})


def pick_stages(stages: Mapping[str, Any]) -> tuple[Pick[Strategy], ...]:
    """The stages that are in use, each made with its options."""
    of = dict(stages.get("of", {}))
    picks = []
    for one in stages.get("use", []):
        name = str(one["name"])  # one's own goes by the name of its class, too
        more = {**of.pop(name, {}), **of.pop(name.rpartition(":")[2], {})}
        picks.append(pick("stages", STAGE, {**one, **more}))
    for name in of:
        raise ConfigError(f"stages.{name}: {name!r} is not in use; name it in stages=")
    return tuple(picks)
