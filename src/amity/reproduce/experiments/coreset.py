"""Section 3.2: are the gradients of the chosen closer to one's own?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from amity.differences import Difference, paired
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.pictures import band, legend
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, ORACLE, PAPERS, TWO, afind, rivals
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import at_least_one, listed, places, weigh
from amity.show.figures import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amity.reproduce.record import CellRecord
    from amity.reproduce.table import RunTable


def error_ratio(record: CellRecord) -> list[tuple[float, float]]:
    """Round, and gradient error of the chosen over that of all in reach."""
    everyone = {point[0]: point[1] for point in record.series.get("all_error", [])}
    chosen = record.series.get("coreset_error", [])
    return [(t, value / everyone[t]) for t, value in chosen if everyone.get(t)]


def closer(table: RunTable) -> Judged:
    found: dict[str, Difference] = {}
    for p, c in places(table):
        for row in table.design.rows:
            runs = [[ratio for _, ratio in error_ratio(r)] for r in table.of(p, row, c).values()]
            saved = {
                at: 100 * (1 - float(np.mean(ratios))) for at, ratios in enumerate(runs) if ratios
            }
            if (by := paired(saved, dict.fromkeys(saved, 0.0))) is not None:
                found[f"{row}, {c}"] = by
    status, _ = weigh(at_least_one(d for name, d in found.items() if name.startswith(f"{AFIND},")))
    return status, (
        "By how much the gradients of the chosen are closer than those of all, in squared"
        f" distance: {listed(found, unit=' %')}."
    )


@experiments.register("coreset")
@dataclass(frozen=True)
class Coreset(TableOfRuns):
    """Section 3.2: are the gradients of the chosen closer to one's own?"""

    title = "Coresets: gradients of the chosen against all"
    place = 140
    against = GOSSIP
    friends = True
    note = (
        "‖∇F_i − ∇F_j‖² at the network's mean model, over the chosen j and over all in reach."
        " The oracle reads labels."
    )
    printed = Printed(where="Section 3.2 (no experiment)", sizes="no experiment")
    claims = (
        Claim(
            "closer",
            "The gradients of the chosen neighbours are closer to one's own than those of all.",
            closer,
        ),
    )

    def design(self, preset: Preset) -> Design:
        every = {"eval": {"every": 10, "gradients_every": preset.pick(5, smoke=1)}}
        rows = {
            **rivals(preset.k),
            AFIND: afind(preset.k),
            "AFIND+ (paper)": PAPERS,
            "oracle": ORACLE,
        }
        return Design(
            rows={name: {**layer, **every} for name, layer in rows.items()},
            columns=TWO,
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=(AFIND, GOSSIP),
        )

    def picture(self, table: RunTable) -> Figure:
        """Gradient error of the chosen over that of all, by round: below 1, the choice is better
        than chance."""
        columns = table.columns()
        figure = Figure(figsize=(5.2 * len(columns) + 1.2, 3.5))
        drawn = figure.subplots(1, len(columns), squeeze=False)[0]
        for axes, column in zip(drawn, columns, strict=True):
            _draw_ratios(axes, table, column)
            axes.axhline(1, color="grey", linewidth=0.8)
            axes.set(xlabel="round", ylabel="gradient error, chosen / all in reach")
            axes.set_title(column, fontsize=10, loc="left")
        legend(drawn[-1])
        figure.tight_layout()
        return figure


def _draw_ratios(axes: Axes, table: RunTable, column: str) -> None:
    """A line per row over the rounds that all of its seeds have."""
    looks, panel = styles(table.rows), table.panels[0]
    for row in table.rows:
        ratios = [dict(error_ratio(r)) for r in table.of(panel, row, column).values()]
        common = sorted(set.intersection(*[set(ratio) for ratio in ratios])) if ratios else []
        if common:
            values = np.array([[ratio[t] for t in common] for ratio in ratios])
            band(axes, np.array(common), values, row, looks[row])
