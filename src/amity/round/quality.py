"""What is measured over the whole network: the quality of the choice, and the theorem's
quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch

from amity.core import PeerId, Row, taken_from
from amity.geometry import squared_distances
from amity.round.truth import Friendship


def auc(friend: np.ndarray[Any, Any], score: np.ndarray[Any, Any]) -> float | None:
    """Chance that a friend is ranked above a stranger (ties count half). None if there are no
    friends or no strangers."""
    friends = int(friend.sum())
    strangers = len(friend) - friends
    if not friends or not strangers:
        return None
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]  # equal scores share their mean rank
    return float((ranks[friend].sum() - friends * (friends + 1) / 2) / (friends * strangers))


class Quality(TypedDict, total=False):
    """How well peers choose: fields of a `RoundRecord`."""

    taken: float
    precision: float
    recall: float
    base_rate: float
    auc: float


class Theory(TypedDict, total=False):
    """The theorem's quantities: fields of a `RoundRecord`."""

    gradient_norm2: float
    coreset_error: float
    all_error: float


def choice_quality(
    friendship: Friendship,
    rows: Mapping[PeerId, Row],
    scores: Mapping[PeerId, Mapping[PeerId, float]],
    neighbours: Mapping[PeerId, tuple[PeerId, ...]],
) -> Quality:
    """Precision and recall of those taken, AUC of the strategy's ranking, and the share of friends
    among all in reach.

    A peer's scores rank its neighbours. If it has no scores, the weights of its row do.
    """
    names = friendship.names
    taken = hits = friends = reach = 0
    curves = []
    for me in names:
        near = neighbours[me]
        real = friendship.friends(me, near)
        row = taken_from(rows[me], me)
        chosen = np.array([j in row for j in near], dtype=bool)
        taken, hits = taken + int(chosen.sum()), hits + int((chosen & real).sum())
        friends, reach = friends + int(real.sum()), reach + len(near)
        area = _ranking(near, real, scores[me], row)
        curves += [area] if area is not None else []
    return _quality(len(names), taken, hits, friends, reach, curves)


def _ranking(
    near: tuple[PeerId, ...], real: np.ndarray[Any, Any], scores: Mapping[PeerId, float], row: Row
) -> float | None:
    """AUC of one peer's ranking of those in reach; None where there is nothing to tell apart."""
    known = scores or row
    ranked = [k for k, j in enumerate(near) if not scores or j in known]
    return auc(real[ranked], np.array([known.get(near[k], 0.0) for k in ranked]))


def _quality(
    peers: int, taken: int, hits: int, friends: int, reach: int, curves: Sequence[float]
) -> Quality:
    out: Quality = {"taken": taken / peers}
    if taken:
        out["precision"] = hits / taken
    if friends:
        out["recall"] = hits / friends
    if reach:
        out["base_rate"] = friends / reach
    if curves and taken:
        out["auc"] = float(np.mean(curves))
    return out


def gradient_metrics(
    names: tuple[PeerId, ...],
    gradients_MP: torch.Tensor,
    shared: torch.Tensor | None,
    rows: Mapping[PeerId, Row],
    near: Mapping[PeerId, tuple[PeerId, ...]],
) -> Theory:
    r"""From all gradients ∇F_j(x̄; D_j) at the network's mean model x̄:

    - `gradient_norm2` = ‖1/m Σ_j ∇F_j(x̄)‖², the left side of the convergence theorem
    - `coreset_error` = mean over i and j ∈ C_i of ‖∇F_i − ∇F_j‖² (the paper's definition of a
      coreset)
    - `all_error` = the same over all j in reach of i
    """
    at = {name: i for i, name in enumerate(names)}
    distance = squared_distances(gradients_MP, shared)
    mean = gradients_MP.mean(0) if shared is None else gradients_MP.mean(0)[shared]
    taken = {me: taken_from(rows[me], me) for me in names}

    def error(chosen: Mapping[PeerId, Iterable[PeerId]]) -> float | None:
        pairs = [(at[me], at[j]) for me in names for j in chosen[me]]
        i, j = np.array(pairs).T if pairs else (None, None)
        return float(distance[i, j].mean()) if pairs else None

    out: Theory = {"gradient_norm2": float(mean.double().square().sum())}
    if (of_taken := error(taken)) is not None:
        out["coreset_error"] = of_taken
    if (of_all := error(near)) is not None:
        out["all_error"] = of_all
    return out
