"""One run, fully resolved: what was picked, with all options, and the numbers of the run itself."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

import tomli_w
from pydantic import Field

from amity.config.engines import Engine
from amity.config.parts import Checkpoint, Count, Evaluation, Facts, Stop, Train
from amity.core import Method, Strategy, chain, in_force
from amity.data.base import Source
from amity.data.partition import Partition
from amity.data.shift import Shift
from amity.errors import ConfigError, brief
from amity.learn.models import Model
from amity.learn.optimisers import Optimiser
from amity.learn.schedules import Schedule
from amity.peer.attacks import Attack
from amity.peer.carded import Carded
from amity.peer.mixing import Mixer
from amity.peer.privacy import Mechanism
from amity.registry import Absent, in_memory, written_of
from amity.tasks import Metric, Task
from amity.topology import Discover, Topology

T = TypeVar("T")
OPEN = (("train", "precision", "auto"), ("engine", "vectorise", "auto"), ("engine", "group", 0))
"""Keys that are chosen for model and machine when a run begins, and the values that say so."""

SILENT = {"shift": "none", "task": "classify"}
"""Sections that are not written down where they pick this and no option of it, so that runs that
knew nothing of them stay the same runs."""

CHOICES = {"optimiser": "sgd", "schedule": "constant"}
"""Keys of `train` that pick an entry, and what they pick if nobody says it: that is not written
down either."""


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
    """For your own class: the SHA-256 of the file that it was loaded from, or of the class
    itself."""

    def to_dict(self) -> dict[str, Any]:
        common = written_of(self.common) if self.common else {}
        return {
            "name": self.name,
            **{k: v for k, v in self.options.items() if v is not None},
            **common,
        }

    @property
    def absent(self) -> bool:
        """Whether this is an object of another process: only its name and options are known
        here."""
        return isinstance(self.instance, Absent)

    @property
    def label(self) -> str:
        """`afind+:paper`; for your own class, its name."""
        short = self.name.rpartition(":")[2]
        return f"{short}:{self.options['preset']}" if "preset" in self.options else short

    @property
    def slug(self) -> str:
        """The label as part of a folder's name."""
        return self.label.replace(":", "-").replace("+", "-plus")


@dataclass(frozen=True)
class Change:
    """What is planned to change from a round on."""

    start: int
    """The first round in which it holds: `from`."""
    values: Mapping[str, Any]
    """Sections and their options."""

    def to_dict(self) -> dict[str, Any]:
        return {"from": self.start, **self.values}

    def __str__(self) -> str:
        """`from=200 train.lr=0.01`."""
        return " ".join(f"{key}={value}" for key, value in _flat(self.to_dict()))


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Options by their dotted names; a name stands for its section."""
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield (prefix[:-1] if prefix and key == "name" else prefix + key), value


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run, fully resolved."""

    data: Pick[Source]
    """What is learnt from: a dataset by its name, or your own files by their path."""
    task: Pick[Task]
    """What is learnt, and how it is measured: a class, several labels, a number, the next token."""
    partition: Pick[Partition]
    """How the examples are dealt out to the peers."""
    shift: Pick[Shift]
    """What makes hidden groups of peers see another input, or give another answer."""
    topology: Pick[Topology]
    """Who can reach whom."""
    model: Pick[Model]
    """The network that every peer trains."""
    strategy: Pick[Strategy]
    """From whom a peer learns, and how much."""
    method: Pick[Method]
    """What is trained, shared and kept."""
    mixer: Pick[Mixer]
    """How the models of a row become one."""
    privacy: Pick[Mechanism]
    """What is noised before it leaves a peer."""
    attack: Pick[Attack]
    """What some of the peers do to the others."""
    engine: Pick[Engine]
    """Where the work is done; no result depends on it."""
    optimiser: Pick[Optimiser]
    """`train.optimiser`: how gradients become steps."""
    schedule: Pick[Schedule]
    """`train.schedule`: how learning rates go over the rounds."""
    stages: tuple[Pick[Strategy], ...] = ()
    """What re-weighs the strategy's row, one after the other: defences, other weights."""
    peers: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """How many take part."""
    rounds: Annotated[int, Field(ge=1, le=100_000_000)] = 500
    """How often everyone trains, decides and mixes."""
    seed: Count = 0
    """All that is random follows from it: same seed, same bits."""
    device: str = "cpu"
    """Where models are: `cpu`, or an accelerator as torch calls it, such as `cuda`."""
    train: Train = field(default_factory=Train)
    eval: Evaluation = field(default_factory=Evaluation)
    facts: Facts = field(default_factory=Facts)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    stop: Stop = field(default_factory=Stop)
    changes: tuple[Change, ...] = ()
    """What is planned to change on the way, in the order of rounds."""
    extended: tuple[tuple[int, int], ...] = ()
    """Where a run was extended: before which round, and how many rounds it had until then."""

    @cached_property
    def phases(self) -> tuple[tuple[int, Config], ...]:
        """From which round on which config holds: one more phase than there are changes."""
        from amity.config.layers import resolve

        phase = dataclasses.replace(self, changes=()) if self.changes else self
        found = [(0, phase)]
        for change in self.changes:
            phase = resolve([phase.to_dict(), change.values])
            found.append((change.start, phase))
        return tuple(found)

    def at(self, round: int) -> Config:
        """What holds in a round."""
        return in_force(self.phases[0][1], self.phases[1:], round)

    def horizon(self, round: int) -> int:
        """How many rounds were planned when a round was done: after an extension there are more."""
        return next((before for at, before in self.extended if round < at), self.rounds)

    @property
    def decider(self) -> Strategy:
        """What decides a row: the strategy, and the stages after it. Where neighbours are found by
        cards, everyone has one."""
        decider = chain(self.strategy.instance, *(stage.instance for stage in self.stages))
        found = isinstance(self.topology.instance, Discover)
        return Carded(decider) if found and decider.card is None else decider

    @property
    def label(self) -> str:
        """`gossip/fomo`: the strategy and its stages."""
        return "/".join(pick.label for pick in (self.strategy, *self.stages))

    @property
    def dataset_label(self) -> str:
        """`digits`, or `digits (shift rotate)`."""
        silent = SILENT["shift"] == self.shift.name
        return self.data.name if silent else f"{self.data.name} (shift {self.shift.label})"

    @property
    def stepping(self) -> str:
        """`adamw (beta1=0.9, ...), cosine (floor=0.1)`: optimiser and schedule, in words; empty if
        both are as they are for who says nothing. A class of one's own goes by its name and its
        code, wherever its file lies."""
        said = []
        for key, usual in CHOICES.items():
            pick: Pick[Any] = getattr(self, key)
            options = ", ".join(f"{k}={v}" for k, v in pick.options.items())
            code = f" [{pick.code[:12]}]" if pick.code else ""
            if pick.name != usual or pick.absent or pick.instance != type(pick.instance)():
                said.append(f"{pick.label}{code}" + (f" ({options})" if options else ""))
        return ", ".join(said)

    @property
    def metric(self) -> Metric:
        """The one that leads: tables, gains and verdicts follow it."""
        return Metric("score", unit="") if self.task.absent else self.task.instance.metric

    @property
    def learnt(self) -> str:
        """`regress (error=huber, delta=1.0)`: the task in words, with the options that its loss or
        its answers depend on; empty: classes, as usual. A class of one's own goes by its name and
        its code."""
        pick = self.task
        shown: tuple[str, ...] = () if pick.absent else getattr(pick.instance, "shown_only", ())
        said = ", ".join(f"{k}={v}" for k, v in pick.options.items() if k not in shown)
        code = f" [{pick.code[:12]}]" if pick.code else ""
        if pick.name == SILENT["task"] and not said:
            return ""
        return f"{pick.label}{code}" + (f" ({said})" if said else "")

    @property
    def slug(self) -> str:
        """The label as part of a folder's name."""
        return "-".join(pick.slug for pick in (self.strategy, *self.stages))

    def to_dict(self) -> dict[str, Any]:
        """Plain nested data that `load` turns back into an equal config."""
        plain: dict[str, Any] = {}
        for f in dataclasses.fields(self):
            value: Any = getattr(self, f.name)
            if f.name in CHOICES:
                continue
            if isinstance(value, Pick):
                if value.name == SILENT.get(f.name) and not value.options:
                    continue
                value = value.to_dict()
            elif f.name in ("changes", "extended"):
                if not value:
                    continue
                value = [list(one) if isinstance(one, tuple) else one.to_dict() for one in value]
            elif isinstance(value, tuple):
                value = [stage.to_dict() for stage in value]
            elif dataclasses.is_dataclass(value):
                value = written_of(value)
                if not value:
                    continue
            plain[f.name] = value
        plain["train"] |= self._choices()
        # TOML wants tables after plain values
        tables = [key for key, value in plain.items() if value and isinstance(value, dict | list)]
        return {key: plain[key] for key in sorted(plain, key=tables.__contains__)}

    def _choices(self) -> dict[str, Any]:
        """Optimiser and schedule, as keys of `train`."""
        out: dict[str, Any] = {}
        for key, usual in CHOICES.items():
            pick: Pick[Any] = getattr(self, key)
            named = {} if pick.name == usual else {key: pick.name}
            out |= named | {k: v for k, v in pick.options.items() if v is not None}
        return out

    def to_toml(self) -> str:
        try:
            return tomli_w.dumps(self.to_dict())
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"an option cannot be written as TOML ({brief(error)}); use numbers, text and lists"
            ) from None

    @property
    def digest(self) -> str:
        """A digest of everything that a result depends on. Where it is computed is not part of
        it."""
        plain = self.to_dict()
        plain["engine"] = written_of(self.engine.common)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def own_code(self) -> dict[str, str]:
        """Where your own classes and weights come from, and the SHA-256 of each file: a result
        depends on them too."""
        own = {pick.name.rpartition(":")[0]: pick.code for _, pick in self.picks if pick.code}
        if self.model.common.weights:
            own[self.model.common.weights] = self.weights_digest
        chosen = [pick for key, pick in self.picks if key in ("strategy", "stages")]
        deciders = [pick for pick in chosen if not pick.absent]
        specs = [spec for pick in deciders if (spec := pick.instance.card) is not None]
        return own | {spec.proxy.rpartition(":")[0]: spec.code for spec in specs if spec.code}

    @property
    def weights_digest(self) -> str:
        """The SHA-256 of the file that the model starts from; empty if there is none."""
        if not self.model.common.weights:
            return ""
        from amity.learn.weights import weights_digest

        return weights_digest(self.model.common.weights)

    @property
    def picks(self) -> list[tuple[str, Pick[Any]]]:
        """All entries that were chosen, with their sections."""
        values = [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]
        picks = [(key, value) for key, value in values if isinstance(value, Pick)]
        later = [("strategy", phase.strategy) for _, phase in self.phases[1:]]
        stages = [("stages", stage) for _, phase in self.phases for stage in phase.stages]
        return [*picks, *later, *stages]

    @property
    def in_memory(self) -> list[str]:
        """What was passed as an object and is in no file: `model Net`."""
        return [f"{key} {pick.label}" for key, pick in self.picks if in_memory(pick.name)]

    def completed(self, other: Config) -> Config:
        """What this config leaves open is taken from another config that has it."""
        from amity.config.layers import resolve

        mine, theirs = self.to_dict(), other.to_dict()
        for section, key, is_open in OPEN:
            if mine[section].get(key) == is_open:
                mine[section][key] = theirs[section].get(key, is_open)
        if self.rounds == other.rounds and "extended" in theirs:
            mine.setdefault("extended", theirs["extended"])
        return resolve([mine])

    def replace(self, **overrides: Any) -> Config:
        """The same with other values: `config.replace(seed=2, **{"strategy.tau": 0.8})`."""
        from amity.config.layers import nested, resolve

        return resolve([self.to_dict(), nested(overrides)])
