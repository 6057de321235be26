"""What facts cost: bytes that moved and passes that were computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amity.facts.base import Kind

REPLY_BYTES = 16
"""Two float64 losses."""


@dataclass
class Ledger:
    """What one peer moved and computed in a round."""

    card_in: int = 0
    card_out: int = 0
    model_in: int = 0
    model_out: int = 0
    reply_in: int = 0
    reply_out: int = 0
    forward: int = 0
    backward: int = 0

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def plus(self, other: Ledger) -> Ledger:
        """Both together."""
        return Ledger(**{key: value + getattr(other, key) for key, value in vars(self).items()})


def transfer(kind: Kind, size: int, source: Ledger, target: Ledger) -> None:
    """Book `size` bytes of a kind as leaving `source` and reaching `target`."""
    setattr(source, f"{kind}_out", getattr(source, f"{kind}_out") + size)
    setattr(target, f"{kind}_in", getattr(target, f"{kind}_in") + size)
