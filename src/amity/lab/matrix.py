"""Every peer's final model on every peer's test examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from amity.core import PeerId
from amity.errors import RunDirError
from amity.lab.alone import Unaided, alone_of, cells_of
from amity.lab.reports import Kind, kind_of
from amity.lab.result import Result
from amity.lab.standing import Standing, Stood, standing
from amity.round.build import one_thread
from amity.store import Crossed, how_to_go_on, mean_rows

Told = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much."""
AT_ONCE = 64
"""Models that are measured in one step."""


def matrix(
    path: Path | str,
    alone: Path | str | None = None,
    *,
    trust: bool = False,
    tell: Told = lambda _what, _done, _all: None,
) -> Crossed:
    """Every peer's final model on every peer's test examples, for a run, a cell of a comparison or
    a swarm. It is written into the directory as matrix.csv and matrix.json, which the report shows.

    `alone` is a run with strategy=local that is otherwise the same, for what each peer would have
    alone. Code that the run names must be yours already, or you say `trust=True`.
    """
    path = Path(path)
    _refuse(path)
    found = standing(path, trust)
    result = Result(path, found.config)
    known = alone_of(result, None if alone is None else Path(alone))
    crossed = cross(found, result, known, tell)
    crossed.write(path)
    return crossed


def cross(found: Standing, result: Result, alone: Unaided, tell: Told) -> Crossed:
    """The matrix of the peers that have done a round."""
    stood = _stood(found, result.path)
    names = tuple(stood)
    models = _models(found, stood, tell)
    columns = []
    for at, name in enumerate(names):
        tell("measuring", at, len(names))
        columns.append(_column(found, [models[one] for one in names], name))
    return Crossed(
        names=names,
        scores=tuple(zip(*columns, strict=True)),
        tests=tuple(len(found.data[name].test) for name in names),
        rounds=tuple(stood[name].record.round + 1 for name in names),
        metric=found.shard.world.learner.task.metric,
        missing=tuple(sorted(found.states.keys() - stood.keys())),
        origins={name: found.data[name].origin for name in names if found.data[name].origin},
        taken={peer: row for peer, row in mean_rows(result.edges).items() if peer in stood},
        alone={name: alone.scores[name] for name in names if name in alone.scores},
        alone_said=alone.said,
    )


def _stood(found: Standing, path: Path) -> dict[PeerId, Stood]:
    stood = {}
    for name in found.states:
        last = found.last(name)
        if last is not None:
            found.check_data(name)
            stood[name] = last[0]
    if not stood:
        raise RunDirError(f"{path}: has no checkpoint yet; {how_to_go_on(path)} goes on with it")
    return dict(sorted(stood.items()))


def _models(
    found: Standing, stood: Mapping[PeerId, Stood], tell: Told
) -> dict[PeerId, torch.Tensor]:
    """The models that were evaluated last. Peers that train in one step are finished in one, so
    that they have the same bits."""
    models: dict[PeerId, torch.Tensor] = {}
    for unit in dict.fromkeys(found.units[name] for name in stood):
        tell("computing the models", len(models), len(stood))
        rounds = {stood[name].record.round if name in stood else -1 for name in unit}
        if len(rounds) > 1:  # peers of a swarm that ended in different rounds
            models |= {name: found.model(stood[name]) for name in unit if name in stood}
            continue
        with one_thread():
            for name in unit:
                found.shard.peers[name].resume(stood[name].record.round + 1, stood[name].tensors)
            together = found.shard.final_models(unit, rounds.pop())
        models |= zip(unit, together, strict=True)
    return models


def _column(found: Standing, models: Sequence[torch.Tensor], name: PeerId) -> list[float]:
    """What everyone's model has on the test examples of one peer."""
    test, shard = found.data[name].test, found.shard
    with one_thread():
        scored = [
            score
            for at in range(0, len(models), AT_ONCE)
            for some in [models[at : at + AT_ONCE]]
            for score in shard.measured(some, test)
        ]
    return [score.value for score in scored]


_NO_RUN: Mapping[Kind, str] = {
    "comparison": "holds several runs; name one of them: {cells}",
    "sweep": "holds a sweep; name one of its runs: {cells}",
    "worlds": "holds comparisons in several worlds; name one of their runs",
    "peers": "holds real peers, whose test examples lie with them; expected a run or a swarm",
}


def _refuse(path: Path) -> None:
    """What has no models of all peers together."""
    if not path.is_dir():
        raise RunDirError(f"{path}: is no directory; expected that of a run or a swarm")
    kind = kind_of(path)
    if kind == "run":
        return
    cells = [str(cell) for cell in cells_of(path)]
    if kind == "comparison" and not cells:
        raise RunDirError(f"{path}: holds no run (no config.toml)")
    some = ", ".join(cells[:3]) + (", ..." if len(cells) > 3 else "")
    raise RunDirError(f"{path}: {_NO_RUN[kind].format(cells=some)}")
