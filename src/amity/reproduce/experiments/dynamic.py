"""Peers that come and go, graphs that change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, CIFAR, GOSSIP, afind, federico, gossip, half_graph
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import at_least_one, listed, places, weigh

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

CALM = "all there"


def survives(table: RunTable) -> Judged:
    columns = at_least_one(c for _, c in places(table))
    lost = {c: table.difference(("", AFIND, c), ("", AFIND, CALM)) for c in columns if c != CALM}
    status, _ = weigh(list(lost.values()), above=-2)
    ahead = weigh([table.difference(("", AFIND, c), ("", GOSSIP, c)) for c in columns])[1]
    return status, (
        f"AFIND+ minus the same with everyone there, where 2 points are allowed: {listed(lost)}."
        f" AFIND+ minus Gossip: {ahead}"
    )


@experiments.register("dynamic")
@dataclass(frozen=True)
class Dynamic(TableOfRuns):
    """Peers that come and go, graphs that change."""

    title = "Peers that come and go, and graphs that change"
    place = 110
    against = GOSSIP
    note = "CIFAR-10, α=0.1. Who is away trains on and is measured, but exchanges nothing."
    printed = Printed(where="beyond the paper, which leaves varying availability to future work")
    claims = (
        Claim(
            "survives",
            "Ours, not the paper's: AFIND+ keeps its accuracy while half of the peers are away and"
            " while the graph changes.",
            survives,
        ),
    )

    def design(self, preset: Preset) -> Design:
        half = half_graph(preset)
        graphs = {
            CALM: "full",
            **{
                f"{away} % away": {"name": "full", "online": 1 - away / 100}
                for away in (10, 30, 50)
            },
            "half graph": half,
            "half graph anew each round": {**half, "redraw": 1},
        }
        return Design(
            rows={
                GOSSIP: gossip(preset.k),
                "FedeRiCo": federico(preset.k),
                AFIND: afind(preset.k),
            },
            columns={
                name: {**CIFAR["CIFAR-10 α=0.1"], "topology": graph}
                for name, graph in graphs.items()
            },
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=(AFIND, GOSSIP),
        )
