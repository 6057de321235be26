"""Table 3: a partially connected graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.differences import paired
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed, as_printed
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, RIVALS, TABLE2, afind, half_graph, rivals
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import listed, places, there, weigh

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

NUMBERS = """
Gossip   51.35±1.76 68.12±2.47 49.61±1.74 58.64±1.38
PENS     53.78±1.32 70.46±1.57 51.24±1.53 61.01±1.94
FedeRiCo 55.85±1.15 71.58±1.93 53.21±1.64 63.41±1.57
AFIND+   65.24±2.12 76.21±2.12 58.87±2.18 66.85±2.15
"""
KNOWN = (
    "Against Table 1 the advantage over FedeRiCo grows in all four columns (5.6 to 9.4, 3.5 to 4.6,"
    " 4.3 to 5.7, 2.9 to 3.4 points), in three of them by less than the standard deviations of 2"
    " printed here.",
)


def _advantage(table: RunTable, panel: str, rival: str, column: str) -> dict[int, float]:
    """AFIND+ minus a rival, by seed."""
    ours = table.accuracies(panel, AFIND, column)
    theirs = table.accuracies(panel, rival, column)
    return {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}


def grows(table: RunTable) -> Judged:
    found = {
        f"{column}, {rival}": there(
            paired(
                _advantage(table, "half", rival, column), _advantage(table, "full", rival, column)
            )
        )
        for column in dict.fromkeys(c for _, c in places(table))
        for rival in RIVALS
    }
    status, evidence = weigh(list(found.values()))
    return status, (
        f"Advantage on half of the graph minus advantage on the full one: {listed(found)}."
        f" {evidence}"
    )


@experiments.register("topology")
@dataclass(frozen=True)
class PartialGraph(TableOfRuns):
    """Table 3: a partially connected graph."""

    title = "Table 3: half of the connections"
    place = 70
    against = GOSSIP
    note = "Half: everyone is connected to half of the others at random."
    printed = Printed(
        where="Table 3",
        sizes="as Table 1; each client connected to half of the others at random",
        numbers=as_printed(TABLE2, NUMBERS),
        panel="half",
        known=KNOWN,
    )
    claims = (
        Claim(
            "grows",
            "On a partially connected graph AFIND+'s advantage is larger than on a full one.",
            grows,
        ),
    )

    def design(self, preset: Preset) -> Design:
        return Design(
            rows={**rivals(preset.k), AFIND: afind(preset.k)},
            columns=TABLE2,
            panels={"half": {"topology": half_graph(preset)}, "full": {"topology": "full"}},
            sizes=preset.sizes,
            seeds=preset.more,
            first=(AFIND, GOSSIP),
        )
