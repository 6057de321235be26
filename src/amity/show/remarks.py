"""What must be said beside the numbers of a run, or they would deceive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from amity.round.stopping import Stopping

if TYPE_CHECKING:
    from amity.lab.result import Result


def remarks(result: Result) -> dict[str, str]:
    """What is remarkable about a run, each in a line, by a word for it."""
    found = {
        "diverged": diverged(result),
        "ended": ended(result),
        "extended": extended(result),
    }
    return {word: said for word, said in found.items() if said}


def remarks_of(runs: Mapping[str, Sequence[Result]]) -> list[str]:
    """The same of many runs, with their names."""
    return [
        f"{label}, seed {result.config.seed}, {word}: {said}"
        for label, results in runs.items()
        for result in results
        for word, said in remarks(result).items()
    ]


def ended(result: Result) -> str:
    """Why a run ended before its last round, and how good its best round was on the tests; empty:
    it did not."""
    last = result.rounds[-1]
    if last.ended is None:
        return ""
    stopping = Stopping(result.config.stop, more=result.metric.more)
    stopping.recall(result.rounds)
    there = dict(result.curve).get(stopping.at)
    tested = (
        "" if there is None else f"; test {result.metric.called} there: {result.metric.text(there)}"
    )
    return f"after {last.round + 1} of {result.config.rounds} rounds: {last.ended}{tested}"


def extended(result: Result) -> str:
    """Where more rounds were added to those planned; empty: nowhere."""
    later = [before for _, before in result.config.extended[1:]] + [result.config.rounds]
    return "; ".join(
        f"after {at} rounds, from {before} to {now}"
        for (at, before), now in zip(result.config.extended, later, strict=False)
    )


def diverged(result: Result) -> str:
    """Whose loss was no number, and when first; empty: nobody's."""
    lost = [r for r in result.metrics if r.diverged and not r.attacker]
    if not lost:
        return ""
    first = min(lost, key=lambda r: (r.round, r.peer))
    count, last = len({r.peer for r in lost}), result.rounds[-1]
    over = "" if last.diverged else "; in the last round all losses are numbers again"
    return (
        f"the loss of {count} of {result.config.peers} peers was no number, the first that of"
        f" {first.peer} in round {first.round + 1}{over}; lower train.lr"
        f" ({result.config.train.lr:g}) or set train.clip=1"
    )
