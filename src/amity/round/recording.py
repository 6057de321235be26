"""The record of one peer's round, the same in every runtime."""

from __future__ import annotations

from typing import Any

from amity.core import Decision, PeerId, taken_from
from amity.facts import Ledger
from amity.records import PeerRecord, Scores


def record_of(
    *,
    peer: PeerId,
    round: int,
    available: int,
    decision: Decision,
    train_loss: float,
    ledger: Ledger,
    scores: Scores,
    **more: Any,
) -> PeerRecord:
    """`more` are fields that only some runs have: for privacy, attackers, real peers."""
    return PeerRecord(
        peer=peer,
        round=round,
        available=available,
        taken=len(taken_from(decision.row, peer)),
        self_weight=decision.row.get(peer, 0.0),
        train_loss=train_loss,
        notes=decision.notes,
        **ledger.as_dict(),
        **vars(scores),
        **more,
    )


def is_due(round: int, rounds: int, every: int) -> bool:
    """Whether a measurement is due that is taken every few rounds, and in the last round."""
    return round % every == 0 or round + 1 == rounds
