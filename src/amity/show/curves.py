"""Pictures of what happens round by round, and of what each peer gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from amity.show.figures import COLOURS, Array, Runs, axes_of, broken, styles
from amity.show.summary import received_by_round
from amity.tasks import ACCURACY, Metric

if TYPE_CHECKING:
    from amity.lab.result import Result


def axis_of(runs: Runs) -> str:
    """`test accuracy, mean over peers (%)`."""
    metric = next(iter(runs.values()))[0].metric
    unit = f" ({metric.unit})" if metric.unit else ""
    return f"test {metric.called}, mean over peers{unit}"


def points(results: Sequence[Result]) -> tuple[Array, Array]:
    """Rounds, and the leading metric (a share in percent): one row a seed. Round 0 is the untrained
    model, where it was measured. A run that ended early keeps its last value."""
    curves = [{t + 1: a for t, a in result.curve} for result in results]
    starts = [start for result in results if (start := result.start) is not None]
    if len(starts) == len(curves):
        curves = [{0: start, **curve} for start, curve in zip(starts, curves, strict=True)]
    rounds = sorted({t for curve in curves for t in curve})
    filled = [[_latest(curve, t) for t in rounds] for curve in curves]
    return np.array(rounds), results[0].metric.factor * np.array(filled)


def _latest(curve: Mapping[int, float], at: int) -> float:
    return curve[max((t for t in curve if t <= at), default=min(curve))]


def accuracy_curves(runs: Runs) -> Figure:
    """Mean test accuracy by round, from the untrained start; the band is one standard deviation
    over seeds. With several strategies, the end stands beside it, enlarged."""
    figure, whole, end = _with_end(runs)
    for axes in (whole, end):
        if axes is not None:
            draw_accuracy(axes, runs)
    _from_zero(whole)
    if end is not None:
        last = max(points(results)[0][-1] for results in runs.values())
        end.set_xlim(left=last / 2, right=last + 0.02 * last)
        _enlarge(end, runs)
    _legend(end or whole)
    return figure


def _with_end(runs: Runs) -> tuple[Figure, Axes, Axes | None]:
    """One plot; where there is something to compare, one more for the end."""
    if len(runs) == 1:
        figure, axes = axes_of()
        return figure, axes, None
    figure = Figure(figsize=(9.6, 3.8))
    whole, end = figure.subplots(1, 2, squeeze=False, gridspec_kw={"wspace": 0.18})[0]
    end.set_title("the end, enlarged", fontsize=9)
    return figure, whole, end


def _from_zero(axes: Axes) -> None:
    """Full axes: the start is in the picture, and a height is what it says."""
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _enlarge(axes: Axes, runs: Runs) -> None:
    """Leave the first steep rise below the picture: the differences are near the end."""
    axes.set_ylabel("")
    curves = [points(results)[1].mean(0) for results in runs.values()]
    curves = [sound for c in curves if len(sound := c[np.isfinite(c)])]
    if not curves:
        return  # all have diverged
    metric = next(iter(runs.values()))[0].metric
    if not (metric.more and metric.factor == 100):
        late = np.concatenate([c[len(c) // 2 :] for c in curves])
        room = 0.06 * max(float(np.ptp(late)), 1e-6)
        axes.set_ylim(late.min() - room, late.max() + room)
        return
    lowest, highest = min(c.min() for c in curves), max(c.max() for c in curves)
    bottom = max(lowest, min(c[-1] for c in curves) - 3)
    axes.set_ylim(bottom, highest + 0.06 * max(highest - bottom, 1.0))


def _legend(axes: Axes) -> None:
    """To the right; long names have several lines."""
    handles, labels = axes.get_legend_handles_labels()
    shown = [broken(label, 40) for label in labels]
    axes.legend(
        handles, shown, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
    )


def draw_accuracy(axes: Axes, runs: Runs) -> None:
    """The curves of `accuracy_curves`, without a legend."""
    look = styles(runs)
    for label, results in runs.items():
        rounds, accuracy = points(results)
        mean, spread = accuracy.mean(0), accuracy.std(0)
        axes.plot(rounds, mean, label=label, **look[label])
        if len(results) > 1:
            axes.fill_between(
                rounds,
                mean - spread,
                mean + spread,
                alpha=0.12,
                color=look[label]["color"],
                linewidth=0,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel=axis_of(runs))


# -- against bytes ---------------------------------------------------------------------------------


def megabytes_by_round(result: Result, rounds: Array) -> Array:
    """Megabytes received by a peer after so many rounds: none before the first."""
    moved = np.concatenate([[0.0], received_by_round(result)])
    return np.asarray(moved[rounds])


def accuracy_by_bytes(runs: Runs) -> Figure:
    """The same accuracies against what they cost in traffic."""
    return _against(runs, _draw_bytes)


def accuracy_by_time(runs: Runs) -> Figure | None:
    """The same accuracies against the clock; None: there is none."""
    timed = {
        label: results
        for label, results in runs.items()
        if all(record.clock is not None for result in results for record in result.rounds)
    }
    return _against(timed, _draw_time) if timed else None


def _draw_time(axes: Axes, runs: Runs) -> None:
    look = styles(runs)
    for label, results in runs.items():
        rounds, accuracy = points(results)
        clocks = [[0.0, *(record.clock or 0.0 for record in r.rounds)] for r in results]
        time = np.mean([np.asarray(clock)[rounds] for clock in clocks], 0)
        axes.plot(time, accuracy.mean(0), label=label, **look[label])
        axes.plot(time[-1], accuracy.mean(0)[-1], "o", color=look[label]["color"], markersize=4)
    axes.set(xlabel="time, in trainings of a peer of speed 1", ylabel=axis_of(runs))


def _against(runs: Runs, draw: Callable[[Axes, Runs], None]) -> Figure:
    """Accuracy against something that grows from 0, the end enlarged."""
    figure, whole, end = _with_end(runs)
    for axes in (whole, end):
        if axes is not None:
            draw(axes, runs)
    _from_zero(whole)
    if end is not None:
        _enlarge(end, runs)
    _legend(end or whole)
    return figure


def _draw_bytes(axes: Axes, runs: Runs) -> None:
    look = styles(runs)
    for label, results in runs.items():
        rounds, accuracy = points(results)
        mean = accuracy.mean(0)
        moved = np.mean([megabytes_by_round(r, rounds) for r in results], 0)
        if moved[-1] == 0:
            axes.axhline(mean[-1], label=f"{label} (moves nothing)", linewidth=1, **look[label])
        else:
            axes.plot(moved, mean, label=label, **look[label])
            axes.plot(moved[-1], mean[-1], "o", color=look[label]["color"], markersize=4)
    axes.set(xlabel="MB received by a peer so far", ylabel=axis_of(runs))


# -- whom peers take -------------------------------------------------------------------------------


def _by_round(results: Sequence[Result], name: str) -> Array:
    """A field of the whole network, one row a seed; NaN where it was not measured, or the run had
    ended."""
    last = max(result.rounds[-1].round for result in results)
    values = np.full((len(results), last + 1), np.nan)
    for at, result in enumerate(results):
        for record in result.rounds:
            if (value := record.value(name)) is not None:
                values[at, record.round] = value
    return values


def _mean(values: Array) -> tuple[Array, Array]:
    """Rounds in which any seed was measured, and the mean over those that were."""
    known = np.isfinite(values).any(0)
    return np.flatnonzero(known) + 1, np.nanmean(values[:, known], 0)


def neighbours_taken(runs: Runs) -> Figure:
    """How many neighbours a peer takes, by round: the mean, and (single runs) the range from least
    to most."""
    figure, axes = axes_of()
    look = styles(runs)
    for label, results in runs.items():
        axes.plot(*_mean(_by_round(results, "taken")), label=label, **look[label])
        if len(runs) == 1:
            by_round: dict[int, list[int]] = {}
            for r in results[0].metrics:
                by_round.setdefault(r.round, []).append(r.taken)
            low, high = zip(*[(min(v), max(v)) for _, v in sorted(by_round.items())], strict=True)
            shown = np.array(sorted(by_round)) + 1
            axes.fill_between(shown, low, high, alpha=0.15, color=look[label]["color"], linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="neighbours taken, mean over peers")
    _from_zero(axes)
    _legend(axes)
    return figure


def recall_of_friends(runs: Runs) -> Figure | None:
    """Which share of all friends in reach was taken, by round, mean over seeds; None where nobody
    has a friend."""
    shares = {label: _by_round(results, "recall") for label, results in runs.items()}
    found = {label: share for label, share in shares.items() if np.isfinite(share).any()}
    if not found:
        return None
    figure, axes = axes_of()
    look = styles(runs)
    for label, share in found.items():
        rounds, mean = _mean(share)
        axes.plot(rounds, 100 * mean, label=label, **look[label])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="friends in reach that were taken (%)", ylim=(-3, 103))
    axes.set_xlim(left=0)
    _legend(axes)
    return figure


def gain_by_peer(gains: Mapping[str, Sequence[float]], metric: Metric = ACCURACY) -> Figure:
    """Who gains and who is harmed: the gain over Local of every peer of every seed, by strategy."""
    names = {label: broken(label, 40) for label in gains}
    lines = sum(name.count("\n") + 1 for name in names.values())
    figure, axes = axes_of(6.4, 0.3 * lines + 0.06 * len(gains) + 1)
    for at, (label, values) in enumerate(reversed(list(gains.items()))):
        dots = metric.factor * np.sort(np.array(values))
        jitter = ((np.arange(len(dots)) * 0.618) % 1 - 0.5) * 0.5
        harmed = dots < 0
        for chosen, colour, alpha in ((~harmed, COLOURS[0], 0.5), (harmed, COLOURS[1], 0.7)):
            axes.scatter(
                dots[chosen], at + jitter[chosen], s=9, color=colour, alpha=alpha, linewidth=0
            )
        axes.plot([dots.mean()] * 2, [at - 0.35, at + 0.35], color="black", linewidth=1.5)
        axes.text(
            1.01, at, names[label], transform=axes.get_yaxis_transform(), va="center", fontsize=8
        )
    axes.axvline(0, color="grey", linewidth=0.8)
    unit = f" ({metric.apart})" if metric.apart else ""
    axes.set(xlabel=f"gain over Local{unit}; the bar is the mean", yticks=[])
    return figure
