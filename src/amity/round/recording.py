"""The record of one peer's round, the same in every runtime."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

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
    diverged: bool,
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
        diverged=True if diverged or _is_lost(scores.test_loss) else None,
        notes=decision.notes,
        **ledger.as_dict(),
        **vars(scores),
        **more,
    )


def _is_lost(loss: float | None) -> bool:
    """Whether a loss was measured and is no number."""
    return loss is not None and not math.isfinite(loss)


class Means(TypedDict):
    """How good the models of a network are: fields of a `RoundRecord`."""

    accuracy: float | None
    score: float | None


def means(records: Sequence[PeerRecord]) -> Means:
    """Over peers, wherever it was measured."""
    return {
        "accuracy": _mean([r.accuracy for r in records if r.accuracy is not None]),
        "score": _mean([r.score for r in records if r.score is not None]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def count_diverged(records: Iterable[PeerRecord]) -> int | None:
    """For the record of a network: how many honest peers have diverged; None: nobody."""
    return sum(bool(r.diverged) and not r.attacker for r in records) or None


def is_due(round: int, rounds: int, every: int) -> bool:
    """Whether a measurement is due that is taken every few rounds, and in the last round."""
    return round % every == 0 or round + 1 == rounds
