"""A verdict per claim, from paired differences: it may say "holds" only where intervals say so.

The claims and their bounds stand with their experiments; here is the arithmetic that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from amity.differences import Difference
from amity.reproduce.paper import Claim, Judged

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

HOLDS, PARTLY, NOT = "holds here", "holds in part", "does not hold here"
OPEN = "cannot be told at this size"
MISSING = "not run"
SO_FAR = "holds in what was run"
UNJUDGED = "not judged"
"""Where other data stand in."""
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    status: str
    evidence: str


def judge(table: RunTable) -> list[Verdict]:
    """All claims of an experiment; one whose runs are missing says so."""
    return [Verdict(claim, *_verdict(table, claim)) for claim in table.experiment.claims]


def _verdict(table: RunTable, claim: Claim) -> Judged:
    try:
        status, evidence = claim.check(table)
    except LookupError:  # a row or column that the claim needs was not run
        return MISSING, "Some of its runs are missing."
    if table.design.stand_in:
        return UNJUDGED, evidence
    if len(table.seeds) < 2:
        return OPEN, f"One seed only. {evidence}"
    if status == HOLDS and not _complete(table):
        return SO_FAR, evidence
    return status, evidence


def _complete(table: RunTable) -> bool:
    """Whether every cell of the table is there, with more than one seed."""
    return all(
        len(table.by_key.get(key, {})) > 1 for key in table.design.whole | table.by_key.keys()
    )


# -- what was run ----------------------------------------------------------------------------------


def places(table: RunTable) -> list[tuple[str, str]]:
    """Panels and columns that were run."""
    return [(panel, column) for panel in table.panels for column in table.columns(panel)]


def judged_rows(table: RunTable) -> list[str]:
    """The table's own rows; those that somebody added are shown, not judged."""
    own = {row for _, row, _ in table.design.whole}
    return [row for row in table.rows if row in own or not own]


def at_least_one(values: Iterable[T]) -> list[T]:
    """A list that is not empty; else something was not run."""
    found = list(values)
    if not found:
        raise LookupError("nothing was run")
    return found


def there(found: Difference | None) -> Difference:
    """A difference; else something was not run."""
    if found is None:
        raise LookupError("no seed in common")
    return found


# -- what it says ----------------------------------------------------------------------------------


def graded(whole: bool, part: bool) -> str:
    """It holds, or in part, or not."""
    return HOLDS if whole else PARTLY if part else NOT


def sure(differences: Iterable[Difference]) -> bool:
    """Whether there is more than one seed."""
    return all(d.half is not None for d in differences)


def weigh(found: Sequence[Difference | None], above: float = 0.0) -> Judged:
    """Whether these differences are above a bound: all, some, or none of them by more than their
    intervals."""
    if not found:
        raise LookupError("a difference is missing")
    whole = [there(d) for d in found]
    plus = sum(d.half is not None and d.mean - d.half > above for d in whole)
    minus = sum(d.half is not None and d.mean + d.half < above for d in whole)
    return _weighed(whole, plus, minus), _weights(whole, plus, minus, above)


def _weighed(found: Sequence[Difference], plus: int, minus: int) -> str:
    if all(d.half is None for d in found):
        return OPEN
    if plus == len(found):
        return HOLDS
    if plus > minus:
        return PARTLY
    return NOT if minus else OPEN


def _weights(found: Sequence[Difference], plus: int, minus: int, above: float) -> str:
    """The evidence in words."""
    if len(found) == 1:
        bound = f", and should be above {above:g}." if above else "."
        return f"The difference is {found[0]} points{bound}"
    means = [d.mean for d in found]
    return (
        f"Of {len(found)} differences {plus} are above {above:g} and {minus} below by more than"
        f" their 95 % intervals; they are {min(means):+.1f} to {max(means):+.1f} points, mean"
        f" {np.mean(means):+.1f}."
    )


def together(kinds: Collection[str]) -> str:
    """One status for several parts: the whole holds if every part does."""
    if len(set(kinds)) == 1:
        return next(iter(kinds))
    if {HOLDS, PARTLY} & set(kinds):
        return PARTLY
    return NOT if NOT in kinds else OPEN


def by_panel(table: RunTable, one: Callable[[str], Judged]) -> Judged:
    """Judged panel by panel; the whole holds if every panel does."""
    parts = {panel: one(panel) for panel in table.panels}
    if len(parts) == 1:
        return next(iter(parts.values()))
    return together([status for status, _ in parts.values()]), " ".join(
        f"{panel}: {status}. {evidence}" for panel, (status, evidence) in parts.items()
    )


def listed(found: Mapping[str, Difference | None], between: str = "; ", unit: str = "") -> str:
    """Differences by name, in one line."""
    return between.join(f"{name} {apart}{unit}" for name, apart in found.items())
