"""Parts of a config that depend on no registry entry. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from amity.pace import read_speed
from amity.registry import QUIET

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


def _joined(names: Any) -> Any:
    """A list, as a file may have it, as the command line has it: `a,b`."""
    return ",".join(map(str, names)) if isinstance(names, list | tuple) else names


Names = Annotated[str, BeforeValidator(_joined)]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Local training. `train.optimiser` and `train.schedule` choose how it steps; their options
    stand beside these keys."""

    lr: Positive = 0.01
    """η_w: learning rate of the featurizer (and of everything, where nothing is split)."""
    lr_head: Annotated[float, Field(ge=0)] = 0.0
    """η_β: learning rate of the head; 0 means the same as lr."""
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Factor on the learning rates from round to round, with any schedule."""
    batch: Annotated[int, Field(ge=1, le=2**31 - 1)] = 128
    """Examples of a step."""
    epochs: Count = 5
    """K_w: epochs on the featurizer (and on everything, where nothing is split)."""
    epochs_head: Count = 1
    """K_β: epochs on the head, where it is trained apart."""
    clip: Annotated[float, Field(ge=0)] = 0.0
    """Largest norm of a gradient; 0 means any."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of all passes through the model; parameters and optimiser are fp32. auto: bf16 where the
    device has it natively and a step is heavy enough that it pays; the run records which."""
    augment: Literal["none", "crop_flip"] = "none"
    """Random crops (4 pixels of padding) and mirror images while training; never for losses, tests
    or proxies, unless a proxy trains itself (`twins`)."""
    keep: bool = field(default=False, metadata=QUIET)
    """Whether what the optimiser remembers is kept from round to round: each fit of a round's
    training goes on from its own, which is part of the checkpoint and never sent. Guests' models
    and fine-tuning before a test begin afresh."""


@dataclass(frozen=True)
class Evaluation:
    """What is measured, and how often. Measuring is not counted as a cost."""

    every: Annotated[int, Field(ge=1)] = 1
    """Accuracies every so many rounds, and in the last."""
    gradients_every: Count = 10
    """Coreset error, consensus distance and mean gradient every so many rounds and in the last; 0:
    never."""
    shadow: Count = field(default=0, metadata=QUIET)
    """Every so many rounds a peer also trains a model of its own that learns from nobody, and never
    leaves it: what collaboration is worth to it. 1: as `strategy=local` would; 0: none."""
    friend: Fraction = 0.5
    """In a world without groups, two peers are true friends if their label distributions overlap by
    at least this much."""


@dataclass(frozen=True)
class Facts:
    """How facts about models are answered."""

    examples: Count = 64
    """Training examples that a peer uses for proxies and losses, always the same ones; 0 means
    all."""


@dataclass(frozen=True)
class Checkpoint:
    """How often a run is saved, so that it can be continued."""

    every: Annotated[int, Field(ge=1)] = 10
    """A checkpoint every so many rounds, and at the end."""


@dataclass(frozen=True)
class Stop:
    """Whether a run ends before its last round. Validation examples tell it, never test
    examples."""

    patience: Count = field(default=0, metadata=QUIET)
    """A run ends after so many rounds without a better value on validation examples; 0: never."""
    metric: Literal["accuracy", "loss"] = field(default="accuracy", metadata=QUIET)
    """The value, mean over honest peers: the accuracy (of other tasks the metric that leads), which
    should get better, or the loss, which should fall."""
    margin: Annotated[float, Field(ge=0)] = field(default=0.0, metadata=QUIET)
    """By how much a value must be better to count as such."""
    after: Count = field(default=0, metadata=QUIET)
    """Rounds that are done in any case."""

    def __post_init__(self) -> None:
        for f in fields(self):
            if not self.patience and getattr(self, f.name) != f.default:
                raise ValueError(f"{f.name} means nothing without stop.patience; set it too")


@dataclass(frozen=True)
class Availability:
    """Keys of `topology` beside those of the graph itself."""

    redraw: Count = 0
    """A new graph every so many rounds; 0: never."""
    online: Fraction = 1.0
    """Probability that a peer is online in a round; who is not trains on and reaches nobody."""
    trace: str = ""
    """A file that says who is online when, lines `peer,round,online` with 0 or 1; empty: none."""
    drop: Fraction = 0.0
    """Probability that a message is lost."""
    speed: Annotated[str, BeforeValidator(read_speed)] = field(default="", metadata=QUIET)
    """How fast peers train, as `1,1,1,0.1` (from the first on, and again) or `lognormal:0.5`; who
    is slow is waited for as real peers do. Empty: all alike, and no clock."""


@dataclass(frozen=True)
class Layers:
    """Keys of `model` beside those of the network itself. If empty, the layers are found
    automatically."""

    head: Names = ""
    """The last layer, by its name in the module, or several (`age,sex`); empty: it is found."""
    proxy_layer: str = ""
    """The layer whose gradient the proxies `grad...` show; empty: it is found."""
    freeze: Names = field(default="", metadata=QUIET)
    """Parameters that stay as they are, by patterns of their names (`body.*,embed*`): once for all
    peers, and never sent. Those with requires_grad=False are frozen anyway."""
    weights: str = field(default="", metadata=QUIET)
    """A safetensors file that the model starts from; empty: it starts as it is built."""
    weights_partial: bool = field(default=False, metadata=QUIET)
    """Whether that file may lack some parameters, or have others: what fits is taken."""

    def __post_init__(self) -> None:
        if self.weights_partial and not self.weights:
            raise ValueError("weights_partial means nothing without model.weights; set it too")


@dataclass(frozen=True)
class Vectorising:
    """Keys of `engine` beside those of the place itself: tiny models train as one stacked model,
    `group` peers at a time. Values that are left open are chosen by model and device, never by the
    number of workers. They are recorded with the run."""

    vectorise: Literal["auto", "on", "off"] = "auto"
    """Whether many peers train as one stacked model; `auto`: where it pays."""
    group: Annotated[int, Field(ge=0, le=65536)] = 0
    """Peers that train in one step; 0: chosen by model and device."""
    cache: Annotated[int, Field(ge=0, le=1_000_000)] = field(default=1024, metadata=QUIET)
    """MB of what the frozen part of a model makes of the examples, which is then computed once
    instead of in every epoch; 0: nothing is kept, and nothing left out."""


@dataclass(frozen=True)
class Crowd:
    """Keys of `attack` beside those of the attack itself: which share of the peers attacks."""

    fraction: Fraction = 0.2
    """Share of the peers that attacks; they are drawn by the seed."""
