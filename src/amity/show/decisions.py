"""Why peers decided as they did, in the words that a strategy has for its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amity.core import Explains, PeerId

if TYPE_CHECKING:
    from amity.lab.result import Result


class Told(NamedTuple):
    """One peer's decisions: from which round on (counted from 0) which sentence held."""

    peer: PeerId
    said: list[tuple[int, str]]


def told(result: Result) -> Told | None:
    """The decisions of one honest peer: the first whose sentence changed, else the first. None: the
    strategy has no words."""
    strategy = result.config.strategy.instance
    if not isinstance(strategy, Explains):
        return None
    changes: dict[PeerId, list[tuple[int, str]]] = {}
    for record in sorted(result.metrics, key=lambda record: (record.peer, record.round)):
        said = "" if record.attacker else strategy.explain(record.notes)
        mine = changes.setdefault(record.peer, []) if said else []
        if said and (not mine or mine[-1][1] != said):
            mine.append((record.round, said))
    found = [Told(peer, said) for peer, said in changes.items()]
    return next((one for one in found if len(one.said) > 1), next(iter(found), None))


def last_round_said(result: Result) -> str:
    """All honest peers' notes of the last round in a line; empty: the strategy has no words."""
    strategy = result.config.strategy.instance
    if not isinstance(strategy, Explains) or not result.rounds:
        return ""
    last = result.rounds[-1].round
    honest = [r.notes for r in result.metrics if r.round == last and not r.attacker]
    return strategy.sum_up(honest)
