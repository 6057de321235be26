"""Accuracy against bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from amity.differences import Difference
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.pictures import ACCURACY, mark
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import (
    AFIND,
    GOSSIP,
    LOCAL,
    PAPERS,
    TWO,
    afind,
    federico,
    gossip,
    rivals,
    threshold,
)
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import at_least_one, graded, judged_rows, places, there
from amity.show.figures import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amity.reproduce.table import RunTable

ALLOWED = 1.05
"""The share of a rival's bytes that AFIND+ may receive."""
Duel = tuple[str, str, Difference | None]
"""A column with a rival, the best AFIND+ that is no dearer, and what it gains; none if there is no
such AFIND+."""


def cheaper(table: RunTable) -> Judged:
    duels = at_least_one(duel for p, c in places(table) for duel in _duels(table, p, c))
    gains = [apart for _, _, apart in duels if apart is not None]
    good, behind = sum(d.mean >= 0 for d in gains), sum(d.sign < 0 for d in gains)
    said = "; ".join(
        f"{where}: no AFIND+ so cheap" if apart is None else f"{where}: {row} {apart}"
        for where, row, apart in duels
    )
    return graded(good == len(duels) and not behind, good * 2 >= len(duels)), (
        f"So on average for {good} of {len(duels)} rivals (the best AFIND+ of at most 5 % more"
        f" bytes, minus the rival; the best of several flatters): {said}."
    )


def _duels(table: RunTable, panel: str, column: str) -> list[Duel]:
    """Every rival of one column against the best AFIND+ of at most its bytes."""
    cells = [table.entry(panel, row, column) for row in judged_rows(table)]
    entries = [entry for entry in cells if entry is not None]
    ours = [entry for entry in entries if entry.row.startswith(AFIND)]
    out: list[Duel] = []
    for rival in (e for e in entries if not e.row.startswith((AFIND, "Local"))):
        able = [e for e in ours if e.megabytes <= ALLOWED * rival.megabytes]
        where = f"{column} {rival.row}"
        if not able:
            out.append((where, "", None))
            continue
        best = max(able, key=lambda e: e.accuracy).row
        apart = table.difference((panel, best, column), (panel, rival.row, column))
        out.append((where, best, there(apart)))
    return out


@experiments.register("cost")
@dataclass(frozen=True)
class Cost(TableOfRuns):
    """Accuracy against bytes."""

    title = "Accuracy against bytes"
    place = 60
    against = GOSSIP
    printed = Printed(where="beyond the paper, which never counts bytes")
    claims = (
        Claim(
            "cheaper",
            "Ours, not the paper's: for every rival some AFIND+ is at least as accurate at no more"
            " bytes.",
            cheaper,
        ),
    )

    def design(self, preset: Preset) -> Design:
        few, many = max(1, preset.k // 5), 2 * preset.k
        all_rivals = rivals(preset.k)
        return Design(
            rows={
                "Local": LOCAL,
                f"Gossip k={few}": gossip(few),
                GOSSIP: gossip(preset.k),
                f"Gossip k={many}": gossip(many),
                "PENS": all_rivals["PENS"],
                f"FedeRiCo k={few}": federico(few),
                "FedeRiCo": all_rivals["FedeRiCo"],
                f"AFIND+ at most {few}": afind(few),
                **{f"AFIND+ τ={t}": threshold(preset, t) for t in (0.2, 1.0, 1.5)},
                AFIND: afind(preset.k),
                "AFIND+ (paper)": PAPERS,
            },
            columns=TWO,
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=(AFIND, GOSSIP),
        )

    def picture(self, table: RunTable) -> Figure:
        """Final accuracy against megabytes: a point per row, with one standard deviation."""
        columns, panel = table.columns(), table.panels[0]
        figure = Figure(figsize=(5.6 * len(columns), 4.0))
        for axes, column in zip(
            figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True
        ):
            looks, named = styles(table.rows), list[tuple[str, float, float, str]]()
            for row in table.rows:
                entry = table.entry(panel, row, column)
                if entry is None:
                    continue
                mark(axes, entry.megabytes, entry.accuracy, entry.std, looks[row])
                named.append((row, entry.megabytes, entry.accuracy, looks[row]["color"]))
            axes.set(xlabel="MB received by a peer in the whole run", ylabel=ACCURACY)
            axes.set_title(column, fontsize=10, loc="left")
            axes.margins(x=0.16)
            _name_points(axes, named)
        figure.tight_layout()
        return figure


def _name_points(axes: Axes, named: list[tuple[str, float, float, str]]) -> None:
    """Names beside points, moved up or down where they would lie on each other."""
    low, high = axes.get_ylim()
    step, width = (high - low) / 24, (axes.get_xlim()[1] - axes.get_xlim()[0]) / 65
    taken = [(x - width, x + width, y) for _, x, y, _ in named]
    for name, x, y, colour in sorted(named, key=lambda point: -point[2]):
        left, right = x + width, x + width * (1 + len(name))
        tries = (y + sign * n * step / 4 for n in range(60) for sign in (1, -1))
        free = (
            at
            for at in tries
            if not any(abs(at - o) < step and left < e and right > s for s, e, o in taken)
        )
        spot = next(free, y)
        taken.append((left, right, spot))
        axes.text(left, spot, name, fontsize=7, color=colour, va="center")
