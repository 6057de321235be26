"""What is measured: the only definition of the lines in the files of a run directory.

A record is a frozen value. A field that is `None` was not measured, and its line has no such key.
JSON has no NaN and no infinity. Both are written as null, and read back as what null means for that
field. docs/RECORDS.md shows this file as tables; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from amity.core import PeerId, Row


def _told(unit: str, about: str, *, default: Any = None, null: float = math.nan) -> Any:
    """A field with its unit, what it says, and what null in its place means."""
    metadata = {"unit": unit, "about": about, "null": null}
    if default is dataclasses.MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


NEEDED: Any = dataclasses.MISSING


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of all records. Turns itself into a line of JSON, and is made from one."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"excluded"})

    def line(self) -> dict[str, Any]:
        """The line as it is written, without the fields that were not measured."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        notes: dict[str, Any] = dict(values.pop("notes", {}))
        return notes | {
            key: list(value) if key in self.LISTS else value
            for key, value in values.items()
            if value is not None
        }

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """From a line, which may come from an older version: a missing key was not measured."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        notes: dict[str, float] = {}
        for key, value in line.items():
            if key not in known or key == "notes":
                notes[key] = math.nan if value is None else value
            elif key in cls.LISTS:
                values[key] = tuple(value)
            else:
                values[key] = known[key].metadata["null"] if value is None else value
        if "notes" in known:
            values["notes"] = notes
        return cls(**values)

    def value(self, name: str) -> Any:
        """A field or a note of the strategy, by its name; None if it was not measured."""
        notes: Mapping[str, Any] = getattr(self, "notes", {})
        return getattr(self, name, None) if name in self.__dataclass_fields__ else notes.get(name)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How good a peer's models are after a round, on its own test examples."""

    accuracy: float | None = _told("fraction", "test accuracy of the method's own model")
    balanced: float | None = _told("fraction", "the same, as a mean over the classes that occur")
    by_class: Mapping[str, Sequence[int]] | None = _told(
        "examples", "test examples of each class that occurs, by its number: [right, all]"
    )
    test_loss: float | None = _told("nats", "mean loss of that model (of classes: cross-entropy)")
    accuracy_local: float | None = _told("fraction", "test accuracy after training, before mixing")
    accuracy_mixed: float | None = _told("fraction", "test accuracy after mixing")
    accuracy_validation: float | None = _told(
        "fraction", "accuracy of the method's own model on the validation examples"
    )
    loss_validation: float | None = _told(
        "nats", "mean loss there; only in runs that may end early"
    )
    accuracy_alone: float | None = _told(
        "fraction", "test accuracy of a shadow that learns from nobody (`eval.shadow`)"
    )
    accuracy_start: float | None = _told(
        "fraction", "test accuracy of the untrained model; only in the first round"
    )
    score: float | None = _told(
        "task's", "where another metric leads than accuracy: that, of the method's own model"
    )
    score_local: float | None = _told("task's", "the same after training, before mixing")
    score_mixed: float | None = _told("task's", "the same after mixing")
    score_validation: float | None = _told("task's", "the same on the validation examples")
    score_alone: float | None = _told("task's", "the same of a shadow that learns from nobody")
    score_start: float | None = _told(
        "task's", "the same of the untrained model; only in the first round"
    )
    metrics: Mapping[str, float] | None = _told(
        "task's", "further metrics of the method's own model, by name"
    )

    def lead(self, of: str = "") -> float | None:
        """The metric that leads: of the method's own model, or with `of` = `local`, `mixed`,
        `validation`, `alone` or `start` of another."""
        end = f"_{of}" if of else ""
        score: float | None = getattr(self, f"score{end}")
        accuracy: float | None = getattr(self, f"accuracy{end}")
        return accuracy if score is None else score

    def beside(self, alone: float | None) -> Self:
        """With the leading metric of a shadow."""
        if self.score is None:
            return dataclasses.replace(self, accuracy_alone=alone)
        return dataclasses.replace(self, score_alone=alone)


@dataclass(frozen=True, kw_only=True)
class Books:
    """What one peer moved and computed in a round. Both runtimes fill in the same fields."""

    card_in: int = _told("bytes", "cards received", default=0)
    card_out: int = _told("bytes", "cards sent, once for each receiver", default=0)
    model_in: int = _told("bytes", "models received", default=0)
    model_out: int = _told("bytes", "models sent, once for each receiver", default=0)
    reply_in: int = _told("bytes", "other answers received", default=0)
    reply_out: int = _told("bytes", "other answers sent", default=0)
    forward: int = _told("examples", "forward passes", default=0)
    backward: int = _told("examples", "backward passes", default=0)


@dataclass(frozen=True, kw_only=True)
class PeerRecord(Scores, Books, Record):
    """One peer in one round: a line of metrics.jsonl."""

    round: int = _told("number", "which round, counted from 0", default=NEEDED)
    peer: str = _told("name", "which peer", default=NEEDED)
    available: int = _told(
        "peers", "neighbours in reach (real peers: those with a card)", default=0
    )
    taken: int = _told("peers", "neighbours with a weight in the row", default=0)
    self_weight: float = _told("fraction", "weight of the peer's own model in its row", default=0.0)
    train_loss: float = _told("nats", "mean loss of the last epoch of training", default=math.nan)
    diverged: bool | None = _told(
        "true", "its loss is no number in this round: training has diverged; else missing"
    )
    attacker: bool | None = _told(
        "true or false", "whether the peer attacks; only in runs with attackers"
    )
    private_steps: int | None = _told("steps", "private steps or uploads since the run began")
    epsilon: float | None = _told("ε", "privacy spent since the run began", null=math.inf)
    excluded: tuple[str, ...] | None = _told(
        "names",
        "facts that ε does not cover (real peers only; a simulation has them in rounds.jsonl)",
    )
    missing: int | None = _told("peers", "neighbours whose answer did not come (real peers)")
    notes: Mapping[str, float] = field(
        default_factory=dict,
        metadata={"unit": "any", "about": "the strategy's notes, each under its own name"},
    )

    @property
    def received(self) -> int:
        """Bytes of every kind."""
        return self.card_in + self.model_in + self.reply_in

    @property
    def sent(self) -> int:
        """Bytes of every kind."""
        return self.card_out + self.model_out + self.reply_out

    @property
    def passes(self) -> int:
        """Examples, forward and backward."""
        return self.forward + self.backward


@dataclass(frozen=True, kw_only=True)
class RoundRecord(Record):
    """The whole network in one round: a line of rounds.jsonl."""

    round: int = _told("number", "which round, counted from 0", default=NEEDED)
    taken: float = _told("peers", "neighbours taken, mean over peers", default=0.0)
    accuracy: float | None = _told("fraction", "test accuracy, mean over honest peers")
    score: float | None = _told(
        "task's", "where another metric leads than accuracy: that, mean over honest peers"
    )
    precision: float | None = _told("fraction", "share of true friends among those taken")
    recall: float | None = _told("fraction", "share of true friends in reach that were taken")
    base_rate: float | None = _told("fraction", "share of true friends among all in reach")
    auc: float | None = _told("fraction", "chance that a friend is ranked above a stranger")
    gradient_norm2: float | None = _told("1", "‖mean gradient at the mean model‖²")
    coreset_error: float | None = _told("1", "mean ‖∇F_i − ∇F_j‖² over those taken")
    all_error: float | None = _told("1", "the same over all in reach")
    consensus: float | None = _told("1", "mean squared distance of models from their mean")
    diverged: int | None = _told(
        "peers", "honest peers whose loss is no number in this round; missing: none"
    )
    attackers_weight: float | None = _told(
        "fraction", "share of a row that attackers obtain, mean over honest peers"
    )
    excluded: tuple[str, ...] | None = _told("names", "facts that ε does not cover")
    validation: float | None = _told(
        "stop.metric", "what may end the run: on validation examples, mean over honest peers"
    )
    ended: str | None = _told("text", "why the run ended with this round, before its last")
    stopped: int | None = _told("peers", "peers whose privacy budget is spent")
    epsilon: float | None = _told("ε", "the largest ε of all peers", null=math.inf)
    reported: int | None = _told("peers", "peers that finished the round (real peers)")
    ready: int | None = _told("peers", "peers that took part; others were at work (topology.speed)")
    clock: float | None = _told(
        "trainings", "time at its end, in trainings of a peer of speed 1 (topology.speed)"
    )

    def lead(self) -> float | None:
        """The metric that leads, mean over honest peers."""
        return self.accuracy if self.score is None else self.score


@dataclass(frozen=True, kw_only=True)
class EdgeRecord(Record):
    """Who took how much from whom: a line of edges.jsonl."""

    round: int = _told("number", "which round, counted from 0", default=NEEDED)
    peer: str = _told("name", "who took", default=NEEDED)
    row: Mapping[PeerId, float] = _told("fractions", "its row: weights by name", default=NEEDED)


@dataclass(frozen=True, kw_only=True)
class TimingRecord(Record):
    """How long a round took: a line of timings.jsonl, which differs between two runs of a
    config."""

    round: int = _told("number", "which round, counted from 0", default=NEEDED)
    seconds: float = _told("seconds", "the whole round", default=NEEDED)
    at: float = _told("seconds", "when the round ended, counted from 1970", default=math.nan)
    notes: Mapping[str, float] = field(
        default_factory=dict,
        metadata={"unit": "seconds", "about": "each phase under its own name: train, select, ..."},
    )


@dataclass(frozen=True, kw_only=True)
class WhyRecord(Record):
    """What a peer learnt about others while it decided: a line of why.jsonl."""

    round: int = _told("number", "which round, counted from 0", default=NEEDED)
    peer: str = _told("name", "who decided", default=NEEDED)
    facts: Mapping[str, Mapping[PeerId, float]] = _told(
        "of the fact", "by fact (likeness, loss, ...) and peer: what it knew", default=NEEDED
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one round yields: a record and a row of every peer, a record of the whole network, and
    the seconds that each phase took."""

    round: int
    peers: Mapping[PeerId, PeerRecord]
    rows: Mapping[PeerId, Row]
    network: RoundRecord
    seconds: Mapping[str, float]
    why: Mapping[PeerId, Mapping[str, Mapping[PeerId, float]]] = field(default_factory=dict)
    """What each peer learnt about others while it decided, by fact and peer."""


def table_of(record: type[Record]) -> str:
    """A Markdown table of a record's fields with units; fields of base classes come last."""
    fields = {f.name: f.metadata for f in dataclasses.fields(record)}
    order = [name for cls in record.__mro__ for name in vars(cls).get("__annotations__", {})]
    rows = [
        f"| `{name}` | {fields[name]['unit']} | {fields[name]['about']} |"
        for name in dict.fromkeys(order)
        if name in fields
    ]
    return "\n".join(["| field | unit | what it says |", "|---|---|---|", *rows])
