"""From runs to the rows of a table: paired by seed and peer, with what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from amity.differences import Difference, paired
from amity.tasks import ACCURACY, Metric

if TYPE_CHECKING:
    from amity.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class Line:
    """One strategy of a comparison, over all seeds. `accuracy`, `best`, `validation` and gains are
    of the metric that leads; of a share they are fractions, not points."""

    label: str
    seeds: int
    accuracy: float
    accuracy_std: float
    """Over seeds, of the mean over peers, in the last round."""
    best: float
    best_std: float
    balanced: float | None
    """As a mean over the classes that a peer has, in the last round."""
    validation: float | None
    """On examples that are set aside for choosing, in the last round."""
    vs_top: float | None = None
    """Difference to the strategy with the highest accuracy of those that a real network could run,
    paired by seed."""
    vs_top_half: float | None = None
    """Half of the 95 % interval of that; None for a single seed."""
    gain: float | None
    """Over Local: mean over peers and seeds of the difference in the last round."""
    gain_half: float | None
    """Half of its 95 % interval over seeds; None for a single seed."""
    harmed: float | None
    """Share of peers that do worse than alone."""
    worst_tenth: float | None
    """Mean gain of the tenth of the peers that gains least."""
    megabytes: float
    """Received by a peer in the whole run."""
    passes: float
    """Forward and backward passes of a peer in the whole run, in thousands of examples."""
    taken: float
    """Neighbours taken, mean over rounds and peers."""
    precision: float | None
    """Share of true friends among those taken, mean over rounds; what a friend is, is a property of
    the world."""
    recall: float | None
    auc: float | None
    attackers_weight: float | None = None
    """What attackers obtain of an honest peer's row, mean over rounds and peers."""
    epsilon: float | None = None
    """The largest ε of any peer and seed in the last round."""
    epsilon_excludes: str = ""
    """What ε does not cover; empty: nothing, it is a guarantee."""
    diverged: int = 0
    """Runs in which the loss of an honest peer was no number."""
    metric: Metric = ACCURACY
    """The one that leads."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values; another metric than accuracy is named, with its unit."""
        plain = asdict(self) | {"metric": self.metric.name, "unit": self.metric.unit}
        hidden = ("metric", "unit") if self.metric == ACCURACY else ()
        return {key: value for key, value in plain.items() if key not in hidden}


def received_by_round(result: Result) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Megabytes that a peer has received up to each round, mean over peers."""
    per_round = np.zeros(result.config.rounds)
    for r in result.metrics:
        per_round[r.round] += r.received
    return np.asarray(per_round.cumsum() / result.config.peers / 1e6)


def received(result: Result) -> float:
    """Megabytes that a peer received, mean over peers."""
    return float(received_by_round(result)[-1])


def gains(results: Sequence[Result], alone: Sequence[Result]) -> list[float]:
    """By how much every peer of every seed is better than with Local, in the last round: of classes
    accuracy minus Local's; below 0 it is worse, whichever way the metric goes."""
    local = {result.config.seed: result.final() for result in alone}
    return [
        result.metric.gain(mine, local[result.config.seed][peer])
        for result in results
        if result.config.seed in local
        for peer, mine in result.final().items()
    ]


def by_seed(results: Sequence[Result]) -> dict[int, float]:
    """The leading metric in the last round."""
    return {result.config.seed: result.accuracy for result in results}


def apart(ours: Sequence[Result], theirs: Sequence[Result]) -> Difference | None:
    """Ours minus theirs, of a share in points, paired by seed."""
    one, other = (
        {seed: run.metric.factor * run.accuracy for run in runs for seed in [run.config.seed]}
        for runs in (ours, theirs)
    )
    found = paired(one, other)
    return found and replace(found, fine=ours[0].metric.unit != "%")


def _gain_by_seed(results: Sequence[Result], alone: Sequence[Result]) -> Difference | None:
    """The gain over Local of each seed, and how sure its mean is."""
    found = {r.config.seed: gains([r], alone) for r in results}
    means = {seed: float(np.mean(values)) for seed, values in found.items() if values}
    return paired(means, dict.fromkeys(means, 0.0))


def summarise(
    label: str,
    results: Sequence[Result],
    alone: Sequence[Result] = (),
    top: Sequence[Result] = (),
) -> Line:
    """One line of the table from all seeds of a strategy; `alone` are Local's runs and `top` those
    of the strategy with the highest accuracy, where there are any to compare with."""
    difference = np.array(sorted(gains(results, alone)))
    gain = _gain_by_seed(results, alone)
    behind = None if top is results else paired(by_seed(results), by_seed(top))
    metric = results[0].metric
    tenth = max(1, round(len(difference) / 10))
    final, best = [r.accuracy for r in results], [r.best for r in results]
    epsilons = [e for r in results if (e := r.rounds[-1].epsilon) is not None]
    excluded = {name for result in results for r in result.rounds for name in r.excluded or ()}
    passes = [sum(m.passes for m in r.metrics) / r.config.peers / 1e3 for r in results]
    return Line(
        label=label,
        seeds=len(results),
        accuracy=float(np.mean(final)),
        accuracy_std=std(final),
        best=float(np.mean(best)),
        best_std=std(best),
        balanced=_last(results, "balanced"),
        validation=_last(results, "lead_validation"),
        vs_top=behind.mean if behind else None,
        vs_top_half=behind.half if behind else None,
        gain=float(difference.mean()) if len(difference) else None,
        gain_half=gain.half if gain else None,
        harmed=float((difference < 0).mean()) if len(difference) else None,
        worst_tenth=float(difference[:tenth].mean()) if len(difference) else None,
        megabytes=float(np.mean([received(r) for r in results])),
        passes=float(np.mean(passes)),
        taken=float(np.mean([r.taken for result in results for r in result.rounds])),
        precision=_mean(results, "precision"),
        recall=_mean(results, "recall"),
        auc=_mean(results, "auc"),
        attackers_weight=_mean(results, "attackers_weight"),
        epsilon=max(epsilons, default=None),
        epsilon_excludes=", ".join(sorted(excluded)),
        diverged=sum(any(r.diverged for r in result.rounds) for result in results),
        metric=metric,
    )


def std(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _last(results: Sequence[Result], key: str) -> float | None:
    """Of the last round: mean over peers, then over seeds."""
    found = [list(result.final(key).values()) for result in results]
    means = [np.mean(values) for values in found if values]
    return float(np.mean(means)) if means else None


def _mean(results: Sequence[Result], key: str) -> float | None:
    found = (r.value(key) for result in results for r in result.rounds)
    values = [value for value in found if value is not None]
    return float(np.mean(values)) if values else None
