"""The map of regimes: in which worlds is it worth while to choose one's friends, and who is good in
all of them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from amity.files import csv_text
from amity.reproduce.design import Design
from amity.reproduce.landscape import LOCAL_ROW, NEAR, ORACLE_ROW, Landscape
from amity.reproduce.missing import without_missing
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import PRESETS, Layer, Preset
from amity.reproduce.regimes import regimes, sizes
from amity.reproduce.registry import experiments
from amity.reproduce.regret_pictures import map_of_gains, map_of_regret
from amity.reproduce.shared import AFIND, GOSSIP, LOCAL, NEW, ORACLE, afind, default, rivals
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import graded

if TYPE_CHECKING:
    from amity.reproduce.experiment import Grid
    from amity.reproduce.table import RunTable

MINE = NEW
"""The row that claims are about: the default."""
SEEDS = (11, 12, 13, 14, 15)
"""Others than those on which settings were chosen: 1 to 6."""
WORST, MEAN, HARMED = 1.0, 0.3, 0.05
"""What the default is meant to keep: points of regret, share of peers."""


def contenders(preset: Preset) -> dict[str, Layer]:
    """Among whom the best of a world is looked for: those that a real network could run, and
    FedAvg. AFIND+ `literal` trains everyone's model at every neighbour's: it is left to the largest
    preset."""
    readings = preset.pick(("tuned", "wary", "paper"), paper=("tuned", "wary", "paper", "literal"))
    return {
        LOCAL_ROW: LOCAL,
        **rivals(preset.k, alike=False),
        "FedAvg": {"strategy": {"name": "fedavg"}},
        "DAC": {"strategy": {"name": "dac"}},
        **{f"{AFIND} {name}": afind(preset=name) for name in readings},
    }


def landscape(table: RunTable) -> Landscape:
    """What the runs of this table say."""
    preset = PRESETS[table.head.preset]
    named = regimes(preset)
    worlds = [named[column] for column in table.columns() if column in named]
    others = [row for row in contenders(preset) if row != MINE]
    return Landscape(table=table, rivals=others, worlds=worlds)


# -- the claims ------------------------------------------------------------------------------------


def small_regret(table: RunTable) -> Judged:
    found = landscape(table).regret(MINE)
    low = [found.worst.regret <= WORST, found.mean <= MEAN]
    return graded(all(low), any(low)), (
        f"{MINE}: worst {found.worst.regret:.1f} points ({found.worst.world}, behind"
        f" {found.worst.best}), mean {found.mean:.2f}, over {len(found.gaps)} worlds."
    )


def near_the_oracle(table: RunTable) -> Judged:
    there = landscape(table)
    found, near = there.behind_oracle(MINE), there.near_oracle(MINE)
    world = max(found, key=lambda name: found[name].mean, default="")
    return graded(near == len(found), 2 * near >= len(found)), (
        f"{MINE}: so in {near} of {len(found)} worlds; the oracle minus it is at most"
        f" {found[world]} points ({world})."
    )


def harms_few(table: RunTable) -> Judged:
    found = landscape(table).harm(MINE)
    world = max(found, key=lambda name: found[name], default="")
    few = sum(share <= HARMED for share in found.values())
    return graded(few == len(found), 2 * few >= len(found)), (
        f"{MINE}: so in {few} of {len(found)} worlds; at most {100 * found[world]:.1f} % ({world})."
    )


# -- the experiment --------------------------------------------------------------------------------


@experiments.register("regimes")
@dataclass(frozen=True)
class Regimes(TableOfRuns):
    """Should I choose my friends? A map of worlds, and the regret of every strategy."""

    title = "When friends pay: a map of worlds"
    place = 145
    against = LOCAL_ROW
    friends = True
    wide = True
    note = (
        "Settings of the default were chosen on seeds 1 to 6, these are others. The best rival of a"
        " world is looked for among all rows but the default and the oracle; a strategy is never"
        " compared with itself, so that a gap below 0 is better than all rivals, and its regret is"
        " 0. The oracle is told the groups (in worlds without groups: the labels). A peer is much"
        " harmed if it ends more than 2 points below Local of the same seed. AFIND+ `literal` is"
        " run at preset `paper` only: its visits take too long."
    )
    printed = Printed(where="beyond the paper, whose worlds differ in labels alone")
    claims = (
        Claim(
            "regret",
            f"Ours, not the paper's: the default's worst regret is at most {WORST:g} point, its"
            f" mean regret at most {MEAN:g}.",
            small_regret,
        ),
        Claim(
            "oracle",
            f"Ours, not the paper's: in every world with groups the default is within {NEAR:g}"
            " point of an oracle that is told them.",
            near_the_oracle,
        ),
        Claim(
            "harm",
            f"Ours, not the paper's: in no world are more than {100 * HARMED:g} % of the peers"
            " much harmed.",
            harms_few,
        ),
    )

    def design(self, preset: Preset) -> Design:
        return Design(
            rows={**contenders(preset), **default(), ORACLE_ROW: ORACLE},
            columns={name: world.layer for name, world in regimes(preset).items()},
            sizes=sizes(preset),
            seeds=preset.pick(SEEDS, smoke=SEEDS[:2]),
            first=(LOCAL_ROW, MINE, GOSSIP, ORACLE_ROW),
        )

    def possible(self, design: Design) -> Design:
        return without_missing(design)

    def picture(self, table: RunTable) -> Figure:
        """Worlds, and what company is worth there."""
        found = landscape(table)
        rows = {
            GOSSIP: f"everyone ({GOSSIP})",
            ORACLE_ROW: f"true friends ({ORACLE_ROW})",
            MINE: f"the default ({MINE})",
        }
        gains = {
            world: {row: gain for row in rows if (gain := found.gain(row, world)) is not None}
            for world in found.pays
        }
        if not gains:
            raise LookupError("Local, Gossip and the oracle have no world in common")
        return map_of_gains(gains, found.pays, rows)

    def pictures(self, table: RunTable) -> Mapping[str, Figure]:
        found = landscape(table)
        return {"regret": map_of_regret(found.gaps, found.rows)} if found.gaps else {}

    def further(self, table: RunTable) -> list[Grid]:
        found = landscape(table)
        return [*found.by_world(), found.regrets()] if found.gaps else []

    def files(self, table: RunTable) -> Mapping[str, str]:
        records = landscape(table).records()
        return {"regret.csv": csv_text(records)} if records else {}
