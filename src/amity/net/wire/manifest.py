"""What a sender signs, and what all members must have in common to understand each other."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amity.core import in_force
from amity.facts import Losses
from amity.round.saying import LARGEST_SAID, decode_says

PROTOCOL = 3
"""What peers say to each other, and how. 1 is that of Amity 0.1.0, which has no number on the
wire; from 3 on all but greetings is sealed to its receiver."""
LARGEST_HEADER = 4096
"""Of a body's safetensors header: we send at most four tensors."""
LARGEST_CARD_HEAD = 8192
"""Bytes of a card as it is handed on, beside its sketch: its head, and the header of its body."""
LARGEST_TERMS = 96 * 1024
"""Bytes of terms on the way; those of a table of some thousand columns are more, and not told."""

Kind = Literal[
    "card",
    "share",
    "start",
    "probe",
    "visit",
    "sum",
    "cards",
    "says",
    "shown",
    "terms",
    "revoked",
    "ask",
    "answer",
]
Format = Literal["fp32", "bf16", "int8"]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{0,32}$")]
Name = Annotated[str, Field(max_length=63)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Nonnegative = Annotated[float, Field(ge=0)]


class Refused(Exception):
    """A message that is not believed: `reason` is one of a few words to count by, the text says
    more."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Manifest(_Strict):
    """What the sender signs."""

    kind: Kind
    network: Name
    sender: Name
    to: Name = ""
    """For whom it is; empty: for all members."""
    round: Annotated[int, Field(ge=-1, le=2**31)]
    at: Count
    """When it was signed, in milliseconds since 1970."""
    nonce: Token
    re: Token = ""
    """The nonce of the ask that this answers."""
    schema_: Hex = Field(alias="schema")
    length: Count = 0
    sha256: Hex = hashlib.sha256(b"").hexdigest()
    format: Format = "fp32"
    key: Annotated[str, Field(max_length=256)]
    """The sender's public key, whose fingerprint the roster lists."""
    data: Annotated[dict[str, int | float | str], Field(max_length=12)] = Field(
        default_factory=dict
    )


class CardData(_Strict):
    """What stands on a card beside the sketch."""

    examples: Count
    degree: Count
    phase: Literal["joining", "ready", "done"]


class ShareData(_Strict):
    examples: Count


class VisitData(_Strict):
    """The answer of a probe or a visit: losses, and whether a model comes with them."""

    examples: Count
    degree: Count
    before: Nonnegative
    after: Nonnegative


class HandData(_Strict):
    """Whose cards are handed over, in this order: mine where it is not among the others, the most
    similar, some at random."""

    mine: Count
    best: Count
    random: Count


class ShownData(_Strict):
    """How a member is doing: bytes of its newest round, and its leading metric."""

    received: Count
    sent: Count
    value: float | None = None


class LossData(_Strict):
    before: Nonnegative
    after: Nonnegative


def said(model: type[Any], manifest: Manifest) -> Any:
    """The `data` of a manifest as what it must be; numbers must be finite."""
    if not all(
        math.isfinite(value) for value in manifest.data.values() if isinstance(value, float)
    ):
        raise Refused("not finite", manifest.kind)
    try:
        return model.model_validate(manifest.data)
    except ValidationError as error:
        raise Refused("malformed", f"{manifest.kind}: {error.errors()[0]['msg']}") from None


def losses_of(manifest: Manifest) -> Losses:
    found = said(LossData, manifest)
    return Losses(found.before, found.after)


def says_in(body: bytes) -> dict[str, float]:
    """What a strategy says: text, and nothing but finite numbers by name."""
    try:
        return decode_says(body)
    except ValueError as error:
        raise Refused("malformed", f"says: {str(error)[:100]}") from None


@dataclass(frozen=True, kw_only=True)
class WireSchema:
    """What all members must have in common, and what a body must look like. `digest` names it on
    the wire."""

    size: int
    """P: parameters of the model."""
    masked: bool
    """Whether shares leave some coordinates out."""
    sketch: int
    """Numbers on a card; 0 where the strategy needs no cards."""
    probe: int
    """Numbers of the sketch that a probe or a visit brings back."""
    digest: str
    bits: int = 32
    """Bits of each of these numbers: 1 where only signs are shown."""
    max_norm: float = 1e6
    """No model of a larger norm is taken, whatever the receiver's own is: sums stay finite."""
    handed: int = 0
    """Cards that one hands to another, where neighbours are found."""
    later: tuple[tuple[int, WireSchema], ...] = ()
    """From which round on which schema holds instead, by planned changes."""

    def at(self, round: int) -> WireSchema:
        """What holds in a round."""
        return in_force(self, self.later, round)

    def longest(self, kind: str) -> int:
        """The most bytes that a body of a kind can have."""
        model = 4 * self.size + (self.size + 7) // 8
        bodies = {
            "card": (self.bits * self.sketch + 7) // 8,
            "cards": self.handed * (LARGEST_CARD_HEAD + (self.bits * self.sketch + 7) // 8),
            "probe": (self.bits * self.probe + 7) // 8,
            "visit": (self.bits * self.probe + 7) // 8 + model,
            "says": LARGEST_SAID,
            "shown": LARGEST_SAID,
            "terms": LARGEST_TERMS,
            "revoked": LARGEST_TERMS,
            "ask": 0,
            "answer": 0,
        }
        return LARGEST_HEADER + 8 + bodies.get(kind, model)


def digest_of(layout: Mapping[str, tuple[int, ...]], common: Mapping[str, Any]) -> str:
    """Covers names and shapes of all parameters, and whatever else makes models comparable."""
    plain = {"model": [[name, list(shape)] for name, shape in layout.items()], **common}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
