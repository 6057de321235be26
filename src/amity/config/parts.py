"""Parts of a config that depend on no registry entry. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from amity.registry import QUIET

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Local training. `train.optimiser` and `train.schedule` choose how it steps; their options
    stand beside these keys (see `config.training`)."""

    lr: Positive = 0.01
    """η_w: learning rate of the featurizer (and of everything, where nothing is split)."""
    lr_head: Annotated[float, Field(ge=0)] = 0.0
    """η_β: learning rate of the head; 0 means the same as lr."""
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Factor on the learning rates from round to round, with any schedule."""
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
    """Keys of `model` beside those of the network itself. If empty, the layers are found
    automatically."""

    head: str = ""
    proxy_layer: str = ""


@dataclass(frozen=True)
class Vectorising:
    """Keys of `engine` beside those of the place itself: tiny models train as one stacked model,
    `group` peers at a time. Values that are left open are chosen by model and device, never by the
    number of workers. They are recorded with the run."""

    vectorise: Literal["auto", "on", "off"] = "auto"
    group: Annotated[int, Field(ge=0, le=65536)] = 0


@dataclass(frozen=True)
class Crowd:
    """Keys of `attack` beside those of the attack itself: which share of the peers attacks."""

    fraction: Fraction = 0.2
