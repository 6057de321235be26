"""From runs to the rows of a table: paired by seed and peer, with what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from amity.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class Line:
    """One strategy of a comparison, over all seeds. Accuracies and gains are fractions, not
    points."""

    label: str
    seeds: int
    accuracy: float
    accuracy_std: float
    """Over seeds, of the mean over peers, in the last round."""
    best: float
    best_std: float
    balanced: float
    gain: float | None
    """Over Local: mean over peers and seeds of the difference in the last round."""
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


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
    """Accuracy minus Local's accuracy, of every peer of every seed, in the last round."""
    local = {result.config.seed: result.final() for result in alone}
    return [
        accuracy - local[result.config.seed][peer]
        for result in results
        if result.config.seed in local
        for peer, accuracy in result.final().items()
    ]


def summarise(label: str, results: Sequence[Result], alone: Sequence[Result]) -> Line:
    """One line of the table from all seeds of a strategy; `alone` are Local's runs, if there are
    any."""
    difference = np.array(sorted(gains(results, alone)))
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
        balanced=float(np.mean([np.mean(list(r.final("balanced").values())) for r in results])),
        gain=float(difference.mean()) if len(difference) else None,
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
    )


def std(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _mean(results: Sequence[Result], key: str) -> float | None:
    found = (r.value(key) for result in results for r in result.rounds)
    values = [value for value in found if value is not None]
    return float(np.mean(values)) if values else None


COLUMNS: Mapping[str, str] = {
    "strategy": "what was compared",
    "accuracy": "test accuracy in the last round, mean over peers ± std over seeds",
    "best": "the best round's (selects on the test set, as papers do)",
    "vs local": "gain over training alone, mean over peers, in points",
    "harmed": "share of peers that do worse than alone",
    "worst 10%": "mean gain of the tenth of peers that gains least, in points",
    "MB": "received by a peer in the whole run",
    "passes": "forward and backward passes of a peer, in thousands of examples",
    "taken": "neighbours taken, mean over rounds and peers",
    "friends": "share of true friends among those taken",
}
ATTACKED = (
    "attackers' weight",
    "what attackers obtain of an honest peer's row; all else is of honest peers only",
)
PRIVATE = (
    "ε",
    "the largest of all peers; * training only: facts that it does not cover were asked",
)


def columns_of(lines: Sequence[Line], friend: str = "") -> dict[str, str]:
    """The columns of a table with these lines: attackers and privacy only where there are any.
    `friend` says what a friend is in their world."""
    more = [ATTACKED] if any(line.attackers_weight is not None for line in lines) else []
    more += [PRIVATE] if any(line.epsilon is not None for line in lines) else []
    tip = {"friends": f"{COLUMNS['friends']}; a friend is {friend}"} if friend else {}
    return {**COLUMNS, **tip, **dict(more)}


def cells_of(line: Line, columns: Mapping[str, str] = COLUMNS) -> list[str]:
    """A line as text, in the order of the columns."""

    def points(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:+.1f}"

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.0f} %"

    def spread(mean: float, std: float) -> str:
        return f"{100 * mean:.1f} ± {100 * std:.1f}" if line.seeds > 1 else f"{100 * mean:.1f}"

    alone = line.taken == 0
    epsilon = (
        "-" if line.epsilon is None else f"{line.epsilon:.3g}{'*' if line.epsilon_excludes else ''}"
    )
    return [
        line.label,
        spread(line.accuracy, line.accuracy_std),
        spread(line.best, line.best_std),
        points(None if alone else line.gain),
        percent(None if alone else line.harmed),
        points(None if alone else line.worst_tenth),
        f"{line.megabytes:.2f}",
        f"{line.passes:.1f}",
        f"{line.taken:.1f}",
        percent(line.precision),
        *([percent(line.attackers_weight)] if ATTACKED[0] in columns else []),
        *([epsilon] if PRIVATE[0] in columns else []),
    ]
