"""What the runs of the map of regimes say, by world and by strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from amity.differences import Difference
from amity.reproduce.experiment import Grid
from amity.reproduce.regret import Gap, Regret, gap_of, much_harmed, what_pays
from amity.reproduce.shared import GOSSIP
from amity.reproduce.text import NOTHING

if TYPE_CHECKING:
    from amity.reproduce.regimes import Regime
    from amity.reproduce.table import RunTable

LOCAL_ROW, ORACLE_ROW = "Local", "oracle"
NEAR = 1.0
"""Points behind the oracle that still count as near to it."""


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Worlds x strategies."""

    table: RunTable
    rivals: Sequence[str]
    """Those among whom the best of each world is looked for."""
    worlds: Sequence[Regime]

    # -- numbers -----------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> list[str]:
        """Those that have a gap: all but the oracle."""
        return [row for row in self.table.rows if row != ORACLE_ROW]

    @cached_property
    def gaps(self) -> dict[tuple[str, str], Gap]:
        """By strategy and world."""
        found = {}
        for world in self.worlds:
            accuracies = {
                row: self.table.accuracies("", row, world.name) for row in self.table.rows
            }
            for row in self.rows:
                if gap := gap_of(world.name, row, accuracies, self.rivals):
                    found[row, world.name] = gap
        return found

    def regret(self, row: str) -> Regret:
        gaps = tuple(gap for (name, _), gap in self.gaps.items() if name == row)
        if not gaps:
            raise LookupError(f"{row} was not run beside any rival")
        return Regret(row=row, gaps=gaps)

    def gain(self, row: str, world: str) -> Difference | None:
        """Over training alone."""
        return self.table.difference(("", row, world), ("", LOCAL_ROW, world))

    def behind_oracle(self, row: str) -> dict[str, Difference]:
        """The oracle minus a strategy, in every world that has groups."""
        found = {
            world.name: self.table.difference(("", ORACLE_ROW, world.name), ("", row, world.name))
            for world in self.worlds
            if world.kind.grouped
        }
        return {name: apart for name, apart in found.items() if apart is not None}

    def near_oracle(self, row: str) -> int:
        """In how many of these worlds a strategy is near to the oracle."""
        return sum(apart.mean <= NEAR for apart in self.behind_oracle(row).values())

    def harm(self, row: str) -> dict[str, float]:
        """The share of peers much harmed, by more than two points, by world."""
        found = {world.name: self._harm(row, world.name) for world in self.worlds}
        return {name: share for name, share in found.items() if share is not None}

    def _harm(self, row: str, world: str) -> float | None:
        mine, alone = (
            {seed: record.final for seed, record in self.table.of("", name, world).items()}
            for name in (row, LOCAL_ROW)
        )
        return much_harmed(mine, alone)

    @cached_property
    def pays(self) -> dict[str, str]:
        """Whose company pays, by world: where Local, Gossip and the oracle were run."""
        found = {}
        for world in (one.name for one in self.worlds):
            everyone, friends = self.gain(GOSSIP, world), self.gain(ORACLE_ROW, world)
            apart = self.table.difference(("", ORACLE_ROW, world), ("", GOSSIP, world))
            if everyone is not None and friends is not None and apart is not None:
                found[world] = what_pays(everyone, friends, apart)
        return found

    # -- tables ------------------------------------------------------------------------------------

    def regrets(self) -> Grid:
        """A line for every strategy, the smallest worst regret first."""
        head = ["", "mean", "95 %", "worst", "in this world", "mean gap"]
        head += ["much harmed: worst", "mean", "behind the oracle: worst"]
        made = [self.regret(row) for row in self.rows if any(row == r for r, _ in self.gaps)]
        ranked = sorted(made, key=lambda one: one.worst.behind.mean)
        return (
            "Regret: points behind the best rival of each world",
            head,
            list(map(self._line, ranked)),
        )

    def _line(self, regret: Regret) -> list[str]:
        worst, interval = regret.worst, regret.interval
        harm = self.harm(regret.row)
        oracle = self.behind_oracle(regret.row)
        furthest = max(oracle, key=lambda world: oracle[world].mean, default="")
        spread = f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else NOTHING
        sharp = "" if worst.behind.half is None else f" ± {worst.behind.half:.1f}"
        return [
            regret.row,
            f"{regret.mean:.2f}",
            spread,
            f"{worst.regret:.1f}{sharp}",
            worst.world,
            f"{regret.mean_gap:+.2f}",
            f"{100 * max(harm.values()):.0f} %" if harm else NOTHING,
            f"{100 * float(np.mean(list(harm.values()))):.0f} %" if harm else NOTHING,
            str(oracle[furthest]) if oracle else NOTHING,
        ]

    def by_world(self) -> list[Grid]:
        """Gaps, and peers much harmed: a line for every world."""
        worlds = list(dict.fromkeys(world for _, world in self.gaps))
        harm = {row: self.harm(row) for row in self.rows}
        gap_lines = [
            [world, *(self._gap(row, world) for row in self.rows), self.pays.get(world, NOTHING)]
            for world in worlds
        ]
        harm_lines = [
            [
                world,
                *(
                    f"{100 * harm[r][world]:.0f} %" if world in harm[r] else NOTHING
                    for r in self.rows
                ),
            ]
            for world in worlds
        ]
        return [
            ("Points behind the best rival of the world", ["", *self.rows, "pays"], gap_lines),
            ("Peers much harmed: by more than 2 points", ["", *self.rows], harm_lines),
        ]

    def _gap(self, row: str, world: str) -> str:
        gap = self.gaps.get((row, world))
        return NOTHING if gap is None else f"{gap.behind.mean:+.1f}"

    def records(self) -> list[dict[str, Any]]:
        """Everything by strategy and world, for a file."""
        worlds = {world.name: world for world in self.worlds}
        harm = {row: self.harm(row) for row in self.rows}
        oracle = {row: self.behind_oracle(row) for row in self.rows}
        return [
            {
                "strategy": row,
                "world": name,
                "data": worlds[name].data,
                "samples": worlds[name].samples,
                "groups": worlds[name].kind.grouped,
                "pays": self.pays.get(name, ""),
                "seeds": len(gap.by_seed),
                "accuracy": self.table.entry("", row, name).accuracy,  # type: ignore[union-attr]
                "best_rival": gap.best,
                "gap": gap.behind.mean,
                "interval": gap.behind.half,
                "regret": gap.regret,
                "harmed": harm[row].get(name),
                "behind_oracle": oracle[row][name].mean if name in oracle[row] else None,
            }
            for (row, name), gap in self.gaps.items()
        ]
