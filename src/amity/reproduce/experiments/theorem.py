"""Theorem 3.5: the gradient's norm against T and η."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter
from scipy.optimize import linprog

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import TINY, Preset, changed
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, afind, gossip
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import NOT, graded
from amity.show.figures import OTHERS, Array, styles
from amity.show.summary import std

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amity.reproduce.record import CellRecord
    from amity.reproduce.table import RunTable

ETAS = (0.0025, 0.005, 0.01, 0.02, 0.04)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The tightest a/(ηT) + bη + cη² that is nowhere below what is measured."""

    measured: dict[tuple[float, int], float]
    """Mean squared gradient norm over the first T rounds, by η and T."""
    fit: Array
    """The non-negative (a, b, c)."""
    slack: float
    """The median of the bound over what was measured."""

    @property
    def etas(self) -> list[float]:
        return sorted({eta for eta, _ in self.measured})

    def series(self, eta: float) -> list[tuple[int, float]]:
        """T and what is measured, for one η."""
        return sorted((t, value) for (one, t), value in self.measured.items() if one == eta)


def _of_afind(table: RunTable) -> list[tuple[float, CellRecord]]:
    """AFIND+'s runs with their η."""
    return [
        (float(record.row[2:]), record)
        for record in table.records
        if record.row.startswith("η=") and record.column == AFIND
    ]


def bound(table: RunTable) -> Bound:
    points: dict[tuple[float, int], list[float]] = {}
    for eta, record in _of_afind(table):
        norms = record.series["gradient_norm2"]
        for upto in range(2, len(norms) + 1):
            mean_so_far = float(np.mean([value for _, value in norms[:upto]]))
            points.setdefault((eta, int(norms[upto - 1][0])), []).append(mean_so_far)
    mean = {key: float(np.mean(values)) for key, values in points.items()}
    if len(mean) < 4:
        raise LookupError("too few points")
    shape = (
        np.array([[1 / (eta * t), eta, eta * eta] for eta, t in mean])
        / np.array(list(mean.values()))[:, None]
    )
    fit = linprog(shape.mean(0), A_ub=-shape, b_ub=-np.ones(len(shape)), bounds=(0, None)).x
    return Bound(measured=mean, fit=fit, slack=float(np.median(shape @ fit)))


# -- the claims ------------------------------------------------------------------------------------


def rate(table: RunTable) -> Judged:
    found = bound(table)
    a, b, c = found.fit
    ends = {eta: (found.series(eta)[0][1], found.series(eta)[-1][1]) for eta in found.etas}
    falls = all(last < first for first, last in ends.values())
    status = graded(found.slack <= 3, True) if falls else NOT
    said = ", ".join(
        f"{first:.2g} to {last:.2g} (η={eta:g})" for eta, (first, last) in ends.items()
    )
    return status, (
        f"AFIND+: from few rounds to all the mean goes from {said}. The tightest bound of that"
        f" shape, {a:.2g}/(ηT) + {b:.2g}η + {c:.2g}η², is {found.slack:.1f} times what is measured"
        " (median; up to 3 times is a bound)."
    )


def _spread(record: CellRecord) -> float:
    """Mean squared distance to the mean model, over the measured rounds."""
    return float(np.mean([value for _, value in record.series["consensus"]]))


def consensus(table: RunTable) -> Judged:
    runs = [(eta, record) for eta, record in _of_afind(table) if "consensus" in record.series]
    if len({eta for eta, _ in runs}) < 2:
        raise LookupError("too few points")
    points = [(eta, _spread(record)) for eta, record in runs]
    eta, distance = np.log(np.array(points).clip(1e-30)).T
    slope = float(np.polyfit(eta, distance, 1)[0])
    return graded(1.5 <= slope <= 2.5, slope > 0.5), (
        f"Mean squared distance to the mean model grows like η to the power of {slope:.2f} (1.5"
        " to 2.5 is square, more than 0.5 is in part)."
    )


# -- the experiment --------------------------------------------------------------------------------


@experiments.register("theorem")
@dataclass(frozen=True)
class Theorem(TableOfRuns):
    """Theorem 3.5: the gradient's norm against T and η."""

    title = "Theorem 3.5: the gradient's norm against rounds and learning rate"
    place = 130
    note = (
        "The norm is of the mean gradient of all peers at their mean model; SGD without"
        " momentum, one epoch a round."
    )
    printed = Printed(
        where="Theorem 3.5",
        sizes="no experiment",
        known=(
            "The proof moves between F and its gradient and assumes that all models are equal at"
            " every synchronisation, which neighbours of one's own choice never give.",
        ),
    )
    claims = (
        Claim(
            "rate",
            "The mean over T rounds of the squared norm of the mean gradient is at most F/(ηT) +"
            " c₁η + c₂η².",
            rate,
        ),
        Claim(
            "consensus",
            "Models stay within a distance of each other of the order of η² (Lemma on V).",
            consensus,
        ),
    )

    def design(self, preset: Preset) -> Design:
        rounds = preset.pick(100, smoke=8)
        sizes = changed(
            preset.pick(preset.sizes["fashionmnist"], cpu=TINY),
            rounds=rounds,
            eval={"every": rounds // 4, "gradients_every": max(1, rounds // 50)},
            train={"momentum": 0.0, "epochs": 1},
        )
        data = {"data": "fashionmnist"}
        return Design(
            rows={f"η={eta}": {"train": {**sizes["train"], "lr": eta}} for eta in ETAS},
            columns={
                AFIND: {**data, **afind(preset.k)},
                GOSSIP: {**data, **gossip(preset.k)},
            },
            sizes={"fashionmnist": sizes},
            seeds=preset.seeds,
        )

    def picture(self, table: RunTable) -> Figure:
        """The mean squared gradient norm over T rounds for each η with the fitted bound, and the
        consensus distance by η."""
        figure = Figure(figsize=(10.5, 3.8))
        norm, spread = figure.subplots(1, 2)
        found = bound(table)
        _draw_norms(norm, found)
        _draw_consensus(spread, table, found.etas)
        figure.tight_layout()
        return figure


def _draw_norms(axes: Axes, found: Bound) -> None:
    a, b, c = found.fit
    for at, eta in enumerate(found.etas):
        colour = OTHERS[at % len(OTHERS)]
        t, value = (np.array(axis) for axis in zip(*found.series(eta), strict=True))
        axes.plot(t, value, color=colour, label=f"η = {eta}")
        axes.plot(t, a / (eta * t) + b * eta + c * eta**2, color=colour, ls=":", lw=0.9)
    label = f"tightest a/(ηT) + bη + cη² (median slack {found.slack:.1f})"
    axes.plot([], [], ":", color="grey", label=label)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="rounds T",
        ylabel="mean over T rounds of ‖mean gradient‖²",
    )
    axes.legend(fontsize=7, frameon=False)


def _draw_consensus(axes: Axes, table: RunTable, etas: list[float]) -> None:
    looks, reference = styles(table.columns()), np.array(etas) ** 2
    for column in table.columns():
        values = [
            [_spread(record) for record in table.of("", f"η={eta}", column).values()]
            for eta in etas
        ]
        center = np.array([np.mean(v) for v in values])
        width = [std(v) for v in values]
        axes.errorbar(
            etas, center, width, marker="o", markersize=4, capsize=3, label=column, **looks[column]
        )
    axes.plot(etas, reference * center[0] / reference[0], ":", color="grey", label="∝ η²")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="learning rate η",
        ylabel="mean squared distance to the mean model",
    )
    axes.set_xticks(etas)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8, frameon=False)
