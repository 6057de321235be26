"""What we say of cards ourselves, and whether it was measured: claims with their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amity.differences import Difference, paired
from amity.reproduce.kinds import HALF, CardKind
from amity.reproduce.leakage import Leak
from amity.reproduce.paper import Judged
from amity.reproduce.verdicts import MISSING, UNJUDGED, listed, there, weigh

TWINS, BODIES = CardKind("twins", HALF), CardKind("twins_body", HALF)
"""The card of the default strategy, and the one that leaves the head out."""


@dataclass(frozen=True)
class LeakClaim:
    """One sentence of ours on cards, and what tells whether it holds. The check raises LookupError
    where a world that it needs was not measured."""

    id: str
    text: str
    check: Callable[[Sequence[Leak]], Judged]


@dataclass(frozen=True)
class LeakVerdict:
    claim: LeakClaim
    status: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.status.upper()}: {self.claim.text} {self.evidence}"


def _apart(leaks: Sequence[Leak], number: str, world: str) -> Difference:
    """`twins` minus `twins_body` in hundredths, paired by seed. Both last, so the first round tells
    all."""

    def by_seed(kind: CardKind) -> dict[int, float]:
        here = [leak for leak in leaks if (leak.world, leak.kind, leak.round) == (world, kind, 1)]
        return {leak.seed: 100 * float(getattr(leak, number)) for leak in here}

    return there(paired(by_seed(TWINS), by_seed(BODIES)))


def bodies_tell_less(leaks: Sequence[Leak]) -> Judged:
    worlds = dict.fromkeys(leak.world for leak in leaks)
    found = {world: _apart(leaks, "leakage", world) for world in worlds}
    return weigh(list(found.values()))[0], (
        f"Leakage of twins minus that of twins_body, in hundredths: {listed(found)}."
    )


def bodies_find_less(leaks: Sequence[Leak]) -> Judged:
    world = "label_skew"
    found = _apart(leaks, "auc", world)
    return weigh([found])[0], f"AUC of twins minus that of twins_body, in hundredths: {found}."


CLAIMS = (
    LeakClaim(
        "bodies-tell-less",
        "Ours, not the paper's: twins_body, which leaves the head out, tells less of the labels"
        " than twins, the default's card.",
        bodies_tell_less,
    ),
    LeakClaim(
        "bodies-find-less",
        "Ours, not the paper's: where peers differ by their labels alone, twins_body finds friends"
        " less surely than twins.",
        bodies_find_less,
    ),
)


def judge_leaks(leaks: Sequence[Leak], stand_in: str = "") -> list[LeakVerdict]:
    """All claims. Where other data stand in, nothing is judged."""
    return [LeakVerdict(claim, *_verdict(claim, leaks, stand_in)) for claim in CLAIMS]


def _verdict(claim: LeakClaim, leaks: Sequence[Leak], stand_in: str) -> Judged:
    try:
        status, evidence = claim.check(leaks)
    except LookupError:
        return MISSING, "Some of its worlds are missing."
    return UNJUDGED if stand_in else status, evidence
