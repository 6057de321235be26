"""Figure 4: accuracy by round on FEMNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from amity.differences import Difference, paired
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.pictures import curves
from amity.reproduce.presets import SMOKE, Layer, Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, LOCAL, PAPERS, RIVALS, afind, rivals
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import listed, places, there, weigh

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.reproduce.record import CellRecord
    from amity.reproduce.table import RunTable


def _area(record: CellRecord) -> float:
    """Mean accuracy over the measured rounds: higher is sooner."""
    return 100 * float(np.mean([point[2] for point in record.curve]))


def _areas(table: RunTable, panel: str, column: str, rival: str) -> Difference:
    """AFIND+ minus a rival."""
    mine, other = (
        {s: _area(r) for s, r in table.of(panel, row, column).items()} for row in (AFIND, rival)
    )
    return there(paired(mine, other))


def faster(table: RunTable) -> Judged:
    found = {rival: _areas(table, p, c, rival) for p, c in places(table) for rival in RIVALS}
    status, evidence = weigh(list(found.values()))
    return status, (
        f"Mean accuracy over all rounds, AFIND+ minus {listed(found, ', ')}. {evidence}"
    )


def plus(table: RunTable) -> Judged:
    found = [table.difference((p, AFIND, c), (p, "AFIND", c)) for p, c in places(table)]
    status, evidence = weigh(found, above=2)
    return status, f"AFIND+ minus AFIND: {evidence}"


@experiments.register("convergence")
@dataclass(frozen=True)
class Convergence(TableOfRuns):
    """Figure 4: accuracy by round on FEMNIST."""

    title = "Convergence on FEMNIST"
    place = 90
    against = GOSSIP
    note = "Writers are peers, each with its own test examples."
    printed = Printed(
        where="Figure 4 (no numbers printed)",
        sizes="FEMNIST (LEAF), 4-layer CNN, lr 0.1, batch 32, 500 rounds, 3 seeds",
        known=(
            "Batch 64 and lr 0.01 in one paragraph, 32 and 0.1 in another.",
            "α = 0.1 and 0.5 are said to be used for all datasets; LEAF's FEMNIST is divided by"
            " writers.",
        ),
    )
    claims = (
        Claim(
            "faster", "AFIND+ converges faster than the other sampling methods on FEMNIST.", faster
        ),
        Claim("plus", "AFIND+ is much better than AFIND, the same with uniform weights.", plus),
    )

    def design(self, preset: Preset) -> Design:
        no_writers: Layer = {"partition": {"name": "dirichlet", **SMOKE["partition"]}}
        return Design(
            rows={
                **rivals(preset.k),
                "AFIND": afind(preset.k, ablation="i+ii"),
                AFIND: afind(preset.k),
                "AFIND+ (paper)": PAPERS,
                "Local": LOCAL,
            },
            columns={"FEMNIST": {"data": "femnist"}},
            over=preset.pick({}, smoke=no_writers),
            sizes=preset.sizes,
            seeds=preset.more,
            first=(AFIND, GOSSIP),
        )

    def picture(self, table: RunTable) -> Figure:
        return curves(table)
