"""From what a peer knows to its decision, the same in every runtime: what a strategy sees, what it
may ask, how its decision is taken down, and how its errors are reported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amity.config import Config
from amity.core import START, Ask, Card, Decision, Memory, PeerId, Row, View
from amity.errors import AmityError, StrategyError, brief, place_of
from amity.facts import Fact, ModelFact
from amity.rng import rng
from amity.round.saying import noted, own_notes, plain_says


def view_of(
    config: Config,
    *,
    me: PeerId,
    round: int,
    neighbours: tuple[PeerId, ...],
    examples: int,
    card: Card | None,
    memory: Memory,
) -> View:
    """What a strategy sees in this round."""
    return View(
        me=me,
        round=round,
        rounds=config.horizon(round),
        neighbours=tuple(sorted(neighbours)),
        examples=examples,
        card=card,
        rng=rng(config.seed, "decide", round, me),
        common_rng=rng(config.seed, "common", round),
        memory=own_notes(memory),
    )


def carried(config: Config, memory: Memory, last: int, now: int) -> Memory:
    """The notebook of a round as a later round begins with it: empty where another strategy, or
    one with other options, takes over."""
    before, after = config.at(max(last, 0)), config.at(now)
    deciders = [[pick.to_dict() for pick in (c.strategy, *c.stages)] for c in (before, after)]
    return memory if deciders[0] == deciders[1] else {}


@contextmanager
def blaming(config: Config, view: View) -> Iterator[None]:
    """A strategy may be a user's code. An error inside it names the strategy, the peer and the
    round."""
    try:
        yield
    except AmityError:
        raise
    except (Exception, SystemExit) as error:
        where = f"strategy {config.label}, {view.me}, round {view.round}"
        raise StrategyError(f"{where}: {brief(error)}{place_of(error)}") from error


def check_ask(ask: Any, *, reference: bool) -> Fact:
    """Returns the fact that is asked for, or raises if it is not allowed. `reference`: the strategy
    is one that only a simulator can run."""
    if not (isinstance(ask, Ask) and isinstance(ask.fact, Fact)):
        raise TypeError(f"a plan must yield Ask(fact, peers), got {ask!r}")
    name = type(ask.fact).__name__
    if ask.fact.reference and not reference:
        raise TypeError(
            f"{name}() is for references only, which run in the simulator; mix amity.Reference"
            " into the strategy"
        )
    if START in ask.peers and not isinstance(ask.fact, ModelFact):
        raise TypeError(f"{name}() cannot be asked of START; facts that measure models can")
    return ask.fact


def plain(decision: Decision) -> Decision:
    """A decision in plain numbers, with its notebook as a checkpoint would give it back. So a
    resumed run goes on with exactly the same notebook. What it says is in there too."""
    says = plain_says(decision.says)
    return Decision(
        row=_plain_row(decision.row),
        memory=noted(_plain_memory(decision.memory), says),
        notes={str(key): float(value) for key, value in decision.notes.items()},
        scores=decision.scores,
        says=says,
        head=None if decision.head is None else _plain_row(decision.head),
    )


def _plain_row(row: Row) -> dict[PeerId, float]:
    return {str(j): float(weight) for j, weight in row.items()}


def _plain_memory(memory: Memory) -> Mapping[str, Any]:
    copy: Mapping[str, Any] = json.loads(json.dumps(memory))
    if copy != memory and not _same(copy, memory):
        raise TypeError(
            "memory must be plain JSON data: dicts with text keys, lists, numbers, text"
        )
    return copy


def _same(copy: Any, value: Any) -> bool:
    """Whether two notebooks are equal; NaN counts as equal to NaN."""
    if isinstance(copy, dict) and isinstance(value, Mapping):
        return copy.keys() == value.keys() and all(_same(copy[key], value[key]) for key in copy)
    if isinstance(copy, list) and isinstance(value, list):
        return len(copy) == len(value) and all(map(_same, copy, value))
    return bool(copy == value or (copy != copy and value != value))
