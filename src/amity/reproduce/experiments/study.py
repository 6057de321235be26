"""Which reading of the paper finds friends and gains accuracy? Settings are chosen here, on seeds
of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from amity.reproduce.design import Design
from amity.reproduce.paper import Printed
from amity.reproduce.pictures import legend
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import BACKBONES, GOSSIP, ORACLE, of_cifar, pathological, rivals
from amity.reproduce.table_of_runs import TableOfRuns
from amity.show.figures import OTHERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amity.reproduce.table import RunTable

Options = dict[str, Any]


def readings(k: int) -> Mapping[str, Options]:
    """AFIND+ by its options; `drawn` is what `tuned` came from."""
    paper: Options = {"name": "afind+", "preset": "paper"}
    every = {"upsilon": "auto", "average": 0.8, "reprobe": "all", "sketch": 256}
    mine: Options = {**paper, **every, "loss_side": "requester", "gamma": 0.0}
    drawn: Options = {
        **mine,
        "tau": 0.2,
        "max_neighbours": k,
        "cut": "draw",
        "include_self": False,
        "temperature": 10.0,
    }
    return {
        "paper": paper,
        "all cards": mine,
        "all cards: uniform weights": {**mine, "ablation": "i+ii"},
        "drawn: with self": {**drawn, "include_self": True},
        "drawn": drawn,
        "drawn: uniform weights": {**drawn, "ablation": "i+ii"},
        "drawn: T=3": {**drawn, "temperature": 3.0},
        "drawn: neighbour's loss": {**drawn, "loss_side": "neighbour"},
        "drawn: υ=0.3 (tuned)": {**drawn, "upsilon": 0.3},
        "drawn: υ=0.3 T=3": {**drawn, "upsilon": 0.3, "temperature": 3.0},
        "drawn: υ=1000 (blind)": {**drawn, "upsilon": 1000.0},
        "drawn: proxy grad_ref": {**drawn, "proxy": "grad_ref"},
        "drawn: proxy delta": {**drawn, "proxy": "delta"},
        "drawn: proxy feature_mean": {**drawn, "proxy": "feature_mean"},
        "drawn: cards every 10 rounds": {**drawn, "reprobe": "every", "average": 0.0},
        "drawn: threshold softmax_p": {**drawn, "threshold": "softmax_p"},
        "paper: visits": {**paper, "protocol": "visit", "max_neighbours": 3},
    }


@experiments.register("study")
@dataclass(frozen=True)
class Study(TableOfRuns):
    """Which reading of the paper finds friends and gains accuracy?"""

    title = "Which reading of AFIND+?"
    place = 20
    against = GOSSIP
    friends = True
    note = "Settings were chosen on seeds 10 and 11; the other tables are on seeds 0 to 4."
    printed = Printed(where="beyond the paper: which reading of it to use")

    def design(self, preset: Preset) -> Design:
        writers = preset.pick({"partition": {"name": "natural"}}, smoke={})
        return Design(
            rows={
                **rivals(preset.k),
                "oracle": ORACLE,
                **{name: {"strategy": options} for name, options in readings(preset.k).items()},
            },
            columns={
                **of_cifar(("CIFAR-10 α=0.5", "CIFAR-10 c=2")),
                "FashionMNIST c=4": pathological("fashionmnist", 4),
                "FEMNIST": {"data": "femnist", **writers},
            },
            panels=BACKBONES,
            sizes=preset.sizes,
            seeds=preset.pick((10, 11), smoke=(0,)),
            first=(GOSSIP, "drawn", "all cards"),
        )

    def picture(self, table: RunTable) -> Figure:
        """Rows against their difference to Gossip at equal bytes: a mark per column, a line from
        its lowest to its highest seed."""
        panels, rows = table.panels, [row for row in table.rows if row != self.against]
        figure = Figure(figsize=(5.4 * len(panels) + 1.6, 0.27 * len(rows) + 1.3))
        drawn = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, panel in zip(drawn, panels, strict=True):
            for at, column in enumerate(table.columns()):
                _dots(axes, table, (panel, column), rows, at)
            axes.axvline(0, color="grey", linewidth=0.8)
            axes.set_yticks(
                [len(rows) - line for line in range(len(rows))],
                [row.strip() for row in rows],
                fontsize=8,
            )
            axes.set_xlabel(
                f"points over {self.against} at its bytes (mark: mean, line: lowest to"
                " highest seed)"
            )
            axes.set_title(panel, fontsize=10, loc="left")
            axes.grid(axis="y", linewidth=0.3)
        legend(drawn[-1])
        figure.tight_layout()
        return figure


def _dots(axes: Axes, table: RunTable, place: tuple[str, str], rows: list[str], at: int) -> None:
    """One panel's and column's differences, one line under the other."""
    panel, column = place
    look: dict[str, Any] = {"color": OTHERS[at % len(OTHERS)], "linewidth": 1}
    theirs = table.accuracies(panel, table.experiment.against, column, equal_bytes=True)
    unnamed = column
    for line, row in enumerate(rows):
        ours = table.accuracies(panel, row, column, equal_bytes=True)
        apart = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
        if apart:
            y = len(rows) - line + 0.16 * (1.5 - at)
            axes.plot([min(apart), max(apart)], [y, y], **look)
            axes.plot(np.mean(apart), y, "osD^"[at % 4], markersize=3.5, label=unnamed, **look)
            unnamed = ""
