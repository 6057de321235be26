"""Config: TOML plus `key=value` overrides into one frozen typed object.

Layers, later ones win: the defaults below < what suits the dataset < the file < the overrides.
`strategy=gossip` is short for `strategy.name=gossip`; naming another entry drops the options that a
lower layer gave to the old one. `stages=fomo,krum:keep=1` is a list of entries in the order in
which they refine the strategy's row; `stages.fomo.norm=l1` sets an option of one that is in use.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tomli_w
from pydantic import Field, TypeAdapter, ValidationError

from amity.core import Method, Strategy, chain
from amity.data import datasets, partitions
from amity.data.base import Source
from amity.data.own import by_path
from amity.data.partition import Partition
from amity.engines import Engine, engines
from amity.errors import ConfigError, brief, unknown
from amity.lazy import torch
from amity.learn.models import Model, models
from amity.methods import methods
from amity.peer.attacks import Attack, attacks
from amity.peer.mixing import Mixer, mixers
from amity.peer.privacy import Mechanism, privacies
from amity.registry import USER_MODULE, Registry, checked, code_of, explain
from amity.stages import stages as all_stages
from amity.stages.fomo import FomoStage
from amity.strategies import strategies
from amity.strategies.fomo import Fomo
from amity.topology import Topology, topologies

T = TypeVar("T")
Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


@dataclass(frozen=True)
class Train:
    """Local training: SGD with momentum, fresh every round."""

    lr: Positive = 0.01
    """η_w: learning rate of the featurizer (and of everything, where nothing is split)."""
    lr_head: Annotated[float, Field(ge=0)] = 0.0
    """η_β: learning rate of the head; 0 means the same as lr."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Factor on the learning rates from round to round."""
    batch: Annotated[int, Field(ge=1, le=2**31 - 1)] = 128
    epochs: Count = 5
    """K_w: epochs on the featurizer (and on everything, where nothing is split)."""
    epochs_head: Count = 1
    """K_β: epochs on the head, where it is trained apart."""
    clip: Annotated[float, Field(ge=0)] = 0.0
    """Largest norm of a gradient; 0 means any."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of all passes through the model; parameters and optimiser are fp32. auto: bf16 where the
    device has it natively and models are not tiny; the run records which."""
    augment: Literal["none", "crop_flip"] = "none"
    """Random crops (4 pixels of padding) and mirror images while training; never for proxies,
    losses or tests."""


@dataclass(frozen=True)
class Evaluation:
    """What is measured, and how often. Measuring is not counted as a cost."""

    every: Annotated[int, Field(ge=1)] = 1
    """Accuracies every so many rounds, and in the last."""
    gradients_every: Count = 10
    """Coreset error, consensus distance and mean gradient every so many rounds and in the last; 0:
    never."""
    friend: Fraction = 0.5
    """Two peers are true friends if their label distributions overlap by at least this much."""


@dataclass(frozen=True)
class Facts:
    """How facts about models are answered."""

    examples: Count = 64
    """Training examples that a peer uses for proxies and losses, always the same ones; 0 means
    all."""


@dataclass(frozen=True)
class Checkpoint:
    every: Annotated[int, Field(ge=1)] = 10
    """A checkpoint every so many rounds, and at the end."""


@dataclass(frozen=True)
class Availability:
    """Keys of `topology` beside those of the graph itself."""

    redraw: Count = 0
    online: Fraction = 1.0
    trace: str = ""
    drop: Fraction = 0.0


@dataclass(frozen=True)
class Layers:
    """Keys of `model` beside those of the network itself; empty means: find them."""

    head: str = ""
    proxy_layer: str = ""


@dataclass(frozen=True)
class Vectorising:
    """Keys of `engine` beside those of the place itself: tiny models train as one stacked model,
    `group` peers at a time. What is left open is chosen by model and device, never by the number of
    workers, and recorded with the run."""

    vectorise: Literal["auto", "on", "off"] = "auto"
    group: Annotated[int, Field(ge=0, le=65536)] = 0


@dataclass(frozen=True)
class Crowd:
    """Keys of `attack` beside those of the attack itself: which share of the peers attacks."""

    fraction: Fraction = 0.2


@dataclass(frozen=True)
class Pick(Generic[T]):
    """A registry entry that was chosen, with all of its options resolved."""

    name: str
    options: Mapping[str, Any]
    instance: T
    """The entry's class, made with these options."""
    common: Any = None
    """Options of the section that do not depend on the entry."""
    code: str = ""
    """For a class of one's own: the SHA-256 of the file that it was loaded from."""

    def to_dict(self) -> dict[str, Any]:
        common = dataclasses.asdict(self.common) if self.common else {}
        return {
            "name": self.name,
            **{k: v for k, v in self.options.items() if v is not None},
            **common,
        }

    @property
    def label(self) -> str:
        """`afind+:paper`; for one's own class its name."""
        short = self.name.rpartition(":")[2]
        return f"{short}:{self.options['preset']}" if "preset" in self.options else short

    @property
    def slug(self) -> str:
        """The label as part of a folder's name."""
        return self.label.replace(":", "-").replace("+", "-plus")


@dataclass(frozen=True)
class Config:
    """One run, fully resolved."""

    data: Pick[Source]
    partition: Pick[Partition]
    topology: Pick[Topology]
    model: Pick[Model]
    strategy: Pick[Strategy]
    method: Pick[Method]
    mixer: Pick[Mixer]
    privacy: Pick[Mechanism]
    attack: Pick[Attack]
    engine: Pick[Engine]
    stages: tuple[Pick[Strategy], ...] = ()
    peers: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    rounds: Annotated[int, Field(ge=1, le=100_000_000)] = 500
    seed: Count = 0
    device: str = "cpu"
    train: Train = field(default_factory=Train)
    eval: Evaluation = field(default_factory=Evaluation)
    facts: Facts = field(default_factory=Facts)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)

    @property
    def decider(self) -> Strategy:
        """What decides a row: the strategy, and the stages after it."""
        return chain(self.strategy.instance, *(stage.instance for stage in self.stages))

    @property
    def label(self) -> str:
        """`gossip/fomo`: the strategy and its stages."""
        return "/".join(pick.label for pick in (self.strategy, *self.stages))

    @property
    def slug(self) -> str:
        """The label as part of a folder's name."""
        return "-".join(pick.slug for pick in (self.strategy, *self.stages))

    def to_dict(self) -> dict[str, Any]:
        """Plain nested data that `load` turns back into an equal config."""
        plain: dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Pick):
                plain[f.name] = value.to_dict()
            elif isinstance(value, tuple):
                plain[f.name] = [stage.to_dict() for stage in value]
            else:
                plain[f.name] = dataclasses.asdict(value) if f.name in PARTS else value
        return dict(
            sorted(
                plain.items(),
                key=lambda item: (
                    isinstance(item[1], dict) or (isinstance(item[1], list) and item[1] != [])
                ),
            )
        )

    def to_toml(self) -> str:
        try:
            return tomli_w.dumps(self.to_dict())
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"an option cannot be written as TOML ({brief(error)}); use numbers, text and lists"
            ) from None

    @property
    def digest(self) -> str:
        """Of everything that a result depends on: where it is computed is not part of that."""
        plain = self.to_dict()
        plain["engine"] = dataclasses.asdict(self.engine.common)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def own_code(self) -> dict[str, str]:
        """Where classes of one's own come from, and the SHA-256 of each file: a result depends on
        them too."""
        picks = [
            value
            for f in dataclasses.fields(self)
            if isinstance(value := getattr(self, f.name), Pick)
        ]
        return {
            pick.name.rpartition(":")[0]: pick.code for pick in (*picks, *self.stages) if pick.code
        }

    def completed(self, other: Config) -> Config:
        """What this config leaves open is taken from another, where that has settled it."""
        mine, theirs = self.to_dict(), other.to_dict()
        for section, key, is_open in OPEN:
            if mine[section].get(key) == is_open:
                mine[section][key] = theirs[section].get(key, is_open)
        return resolve([mine])

    def replace(self, **overrides: Any) -> Config:
        """The same with other values: `config.replace(seed=2, **{"strategy.tau": 0.8})`."""
        return resolve([self.to_dict(), nested(overrides)])


OPEN = (("train", "precision", "auto"), ("engine", "vectorise", "auto"), ("engine", "group", 0))
"""Keys that are chosen for model and machine when a run begins, and the values that say so."""


@dataclass(frozen=True)
class _Section:
    registry: Registry[Any]
    default: str
    common: type | None = None


SECTIONS: dict[str, _Section] = {
    "data": _Section(datasets, "digits"),
    "partition": _Section(partitions, "dirichlet"),
    "topology": _Section(topologies, "full", Availability),
    "model": _Section(models, "fedavg_cnn", Layers),
    "strategy": _Section(strategies, "afind+"),
    "method": _Section(methods, "finetune"),
    "mixer": _Section(mixers, "mean"),
    "privacy": _Section(privacies, "none"),
    "attack": _Section(attacks, "none", Crowd),
    "engine": _Section(engines, "local", Vectorising),
}
STAGE = _Section(all_stages, "")
"""Of which a run has any number."""
PARTS: dict[str, type] = {
    "train": Train,
    "eval": Evaluation,
    "facts": Facts,
    "checkpoint": Checkpoint,
}
SCALARS = {
    f.name: f.type
    for f in dataclasses.fields(Config)
    if f.name in ("peers", "rounds", "seed", "device")
}
_HINTS = inspect.get_annotations(Config, eval_str=True)


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


def parse(words: Iterable[str]) -> dict[str, Any]:
    """`["peers=5", "strategy.tau=0.8"]` to {"peers": 5, "strategy.tau": 0.8}."""
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"expected key=value, got {word!r}")
        if key.strip() in values:
            raise ConfigError(f"{key.strip()}: is given twice")
        values[key.strip()] = scalar(value.strip())
    return values


def only(words: Iterable[str], *keys: str) -> dict[str, str]:
    """The words of a command that takes these keys and no others, as they were typed."""
    words = list(words)
    for key in parse(words):
        if key not in keys:
            raise ConfigError(f"unknown key {key!r}; this command takes {', '.join(keys)}")
    return {key.strip(): value.strip() for key, _, value in (word.partition("=") for word in words)}


def split_words(
    words: Iterable[str], *own: str
) -> tuple[Path | None, dict[str, Any], dict[str, Any]]:
    """File, overrides, and the command's own keys out of `[FILE.toml] key=value ...`."""
    words = list(words)
    file = Path(words.pop(0)) if words and "=" not in words[0] else None
    values = parse(words)
    raw = {key.strip(): value for key, _, value in (word.partition("=") for word in words)}
    mine: dict[str, Any] = {key: raw[key] for key in own if values.pop(key, None) is not None}
    return file, values, mine


def out_path(mine: Mapping[str, Any]) -> Path:
    """The directory that `out=` names."""
    if not str(mine["out"]).strip():
        raise ConfigError("out: expected a path, got nothing")
    return Path(str(mine["out"]))


def split_list(value: Any) -> list[str]:
    """`a,b` as a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]


def seeds_of(value: Any) -> list[int]:
    """`0,1,2` as numbers."""
    try:
        return [int(part) for part in split_list(value)]
    except ValueError:
        raise ConfigError(f"seeds: expected numbers separated by commas, got {value!r}") from None


def count(mine: Mapping[str, Any], key: str) -> int:
    """A command's own key that is a number; 0 if it was not given."""
    value = str(mine.get(key, 0))
    if not (value.isdecimal() and len(value) < 10):
        raise ConfigError(f"{key}: expected a whole number >= 0, got {value[:40]!r}")
    return int(value)


def scalar(text: str) -> Any:
    """A number or a truth value where the text is one in TOML, else the text itself."""
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} to {"a": {"b": 1}}; what is nested already stays, `a` beside `a.b` means
    `a.name`."""
    out: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, option = key.partition(".")
        if section == "stages":
            out["stages"] = _joined(out.get("stages", {}), _stages_given(option, value))
            continue
        if section in SECTIONS and not dot:
            value = _named(section, value)
        target = out.setdefault(section, {}) if dot or isinstance(value, Mapping) else out
        if not isinstance(target, dict):
            raise ConfigError(f"{key}: {section} is a single value and has no parts")
        target.update(
            {option: value} if dot else value if isinstance(value, Mapping) else {section: value}
        )
    return out


def _stages_given(option: str, value: Any) -> dict[str, Any]:
    """`stages` in one form: `use`, a list of tables with names, and `of`, more options by name."""
    if option:
        name, dot, key = option.partition(".")
        if dot:
            return {"of": {name: {key: value}}}
        if isinstance(value, Mapping):
            return {"of": {name: dict(value)}}
        raise ConfigError(
            f"stages.{option}: expected stages.STAGE.option=value, or stages=STAGE,STAGE"
        )
    if isinstance(value, Mapping):
        if not value.keys() <= {"use", "of"}:
            value = {"of": value}
        of = value.get("of", {})
        if not isinstance(of, Mapping) or not all(
            isinstance(options, Mapping) for options in of.values()
        ):
            raise ConfigError("stages: expected stages.STAGE.option=value, or stages=STAGE,STAGE")
        named = _stages_given("", value["use"]) if "use" in value else {}
        return named | {"of": {name: dict(options) for name, options in of.items()}}
    if isinstance(value, str):
        value = split_list(value)
    if not isinstance(value, list | tuple):
        raise ConfigError(f"stages: expected names of stages, got {value!r}")
    used = [
        read_spec(one, all_stages, "stages") if isinstance(one, str) else _named("stages", one)
        for one in value
    ]
    if not all(one.get("name") for one in used):
        raise ConfigError('stages: each needs a name, as in [[stages]] name = "krum"')
    return {"use": used}


def _joined(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Stages of a lower layer under those of a higher one: naming stages anew drops what the old
    ones had."""
    of = (
        {}
        if "use" in high and "use" in low
        else {name: dict(options) for name, options in low.get("of", {}).items()}
    )
    for name, options in high.get("of", {}).items():
        of[name] = of.get(name, {}) | options
    named = [layer["use"] for layer in (low, high) if "use" in layer]
    return {"of": of} | ({"use": named[-1]} if named else {})


def read_spec(spec: str, registry: Registry[Any], what: str) -> dict[str, Any]:
    """`afind+:paper:tau=0.8` as a table with a name. After the name (or `module:Class`,
    `file.py:Class`) a part with = is an option, one without the preset."""
    parts = spec.split(":")
    name = parts.pop(0)
    if name not in registry and parts and "=" not in parts[0]:
        name = f"{name}:{parts.pop(0)}"
    options: dict[str, Any] = {"name": name}
    for part in parts:
        key, equals, value = part.partition("=")
        if not part or not key:
            raise ConfigError(
                f"{what}: cannot read {spec!r}; expected name, name:preset or name:option=value"
            )
        key = key if equals else "preset"
        if key in options:
            raise ConfigError(f"{what}: {spec!r} gives {key} twice")
        options[key] = scalar(value) if equals else part
    return options


def _named(section: str, value: Any) -> Mapping[str, Any]:
    """A section given by name, as a table, or as an instance of one's own class."""
    if isinstance(value, str):
        return (by_path(value) if section == "data" else None) or {"name": value}
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name, registry = _address(type(value), section), _registry(section)
        presets = name in registry and registry[name].presets
        return {"name": name, **({"preset": "custom"} if presets else {}), **_fields(value)}
    raise ConfigError(f"{section}: expected a name, got {value!r}")


def _registry(section: str) -> Registry[Any]:
    return STAGE.registry if section == "stages" else SECTIONS[section].registry


def _fields(thing: Any) -> dict[str, Any]:
    return {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}


def _address(cls: type, section: str) -> str:
    """The registered name of a class, or where to import it from."""
    for entry in _registry(section):
        if entry.cls is cls and not entry.defaults:
            return entry.name
    if cls.__module__ == "__main__" or cls.__module__.startswith(USER_MODULE):
        file = getattr(sys.modules[cls.__module__], "__file__", None)
        if file is None:
            raise ConfigError(
                f"{section}: {cls.__name__} must be defined in a file, so that the run can be"
                " resumed"
            )
        return f"{file}:{cls.__qualname__}"
    return f"{cls.__module__}:{cls.__qualname__}"


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(low)
    for key, value in high.items():
        if key == "stages":
            out[key] = _joined(_stages_given("", low.get(key, {})), _stages_given("", value))
            continue
        if key in SECTIONS:
            value = _named(key, value)
        if isinstance(value, Mapping) and key in SCALARS:
            raise ConfigError(f"{key}: is a single value, got {key}.{next(iter(value), '')}=")
        if isinstance(value, Mapping):
            below = out.get(key, {})
            renamed = "name" in value and value["name"] != below.get("name")
            replaced = "preset" in value and not renamed
            base = {} if renamed and key in SECTIONS else dict(below)
            if replaced and value["preset"] != base.get("preset"):
                base = {"name": base["name"]} if "name" in base else {}
            out[key] = base | dict(value)
        else:
            out[key] = value
    return out


def resolve(layers: Iterable[Mapping[str, Any]]) -> Config:
    """Merge, check and build."""
    given: dict[str, Any] = {}
    for layer in layers:
        given = _merge(given, layer)
    known = [*SECTIONS, "stages", *PARTS, *SCALARS]
    for key in given:
        if key not in known:
            raise ConfigError(unknown("key", key, known))
    source = datasets[str(_named("data", given.get("data", "digits")).get("name", "digits"))]
    merged = _merge(getattr(source.cls, "suits", {}), given)
    values: dict[str, Any] = {}
    for key, section in SECTIONS.items():
        values[key] = _pick(key, section, dict(merged.get(key, {})))
    for key, part in PARTS.items():
        values[key] = typed(key, part, merged.get(key, {}))
    for key in SCALARS:
        if key in merged:
            values[key] = _scalar(key, merged[key])
    values["stages"] = _pick_stages(_stages_given("", merged.get("stages", {})))
    return _held_out(Config(**values))


def _pick_stages(given: Mapping[str, Any]) -> tuple[Pick[Strategy], ...]:
    used, of = given.get("use", []), dict(given.get("of", {}))
    picks = []
    for one in used:
        name = str(one["name"])  # one's own goes by the name of its class, too
        picks.append(
            _pick(
                "stages", STAGE, {**one, **of.pop(name, {}), **of.pop(name.rpartition(":")[2], {})}
            )
        )
    for name in of:
        raise ConfigError(f"stages.{name}: {name!r} is not in use; name it in stages=")
    return tuple(picks)


HELD_OUT = 0.1


def _held_out(config: Config) -> Config:
    """FedFomo measures on examples that are not trained on: a tenth of them, unless the partition
    says how many."""
    wanted = any(
        isinstance(pick.instance, Fomo | FomoStage) for pick in (config.strategy, *config.stages)
    )
    if not wanted or config.partition.instance.validation:
        return config
    options = {**config.partition.to_dict(), "validation": HELD_OUT}
    return dataclasses.replace(config, partition=_pick("partition", SECTIONS["partition"], options))


def _pick(key: str, section: _Section, options: dict[str, Any]) -> Pick[Any]:
    name = options.pop("name", section.default)
    if not isinstance(name, str):
        raise ConfigError(f"{key}: expected a name, got {name!r}")
    entry = section.registry[name]
    common: Any = None
    if section.common is not None:
        own = {f.name for f in dataclasses.fields(section.common)}
        common = typed(
            key, section.common, {k: options.pop(k) for k in sorted(own & options.keys())}
        )
    instance = entry.build(options)
    resolved: dict[str, Any] = _fields(instance)
    if entry.presets:
        resolved = {"preset": options.get("preset", entry.preset), **resolved}
    return Pick(entry.name, resolved, instance, common, code_of(entry.name))


def typed(key: str, cls: type[T], options: Any) -> T:
    """A section of plain options as its dataclass, checked."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{key}: expected {key}.option=value, got {options!r}")
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise ConfigError(f"{key}: {unknown('option', option, known)}")
    return checked(key, cls, options)


def _scalar(key: str, value: Any) -> Any:
    if key == "device":
        return _device(str(value))
    if isinstance(value, bool):
        raise ConfigError(f"{key}: should be a whole number, got {str(value).lower()}")
    try:
        return TypeAdapter(_HINTS[key]).validate_python(value)
    except ValidationError as error:
        raise ConfigError(explain(key, error).replace(":  ", ": ")) from None


def _device(name: str) -> str:
    """A device that exists here."""
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(
            f"device: {name!r} is not available on this machine; use device=cpu"
        ) from None
    return name
