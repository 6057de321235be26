"""Make the pictures of the documentation from real runs: `make docs-pictures`.

docs/first.svg is the picture of `make run`, narrow enough for a phone; docs/groups.svg shows who
learns from whom; those in docs/pictures are panels of a report. The size was chosen to be seen
well, seed 11 is as it comes.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import amity
from amity.show.side_by_side import narrow

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLOURS = ("#00796b", "#e08a00", "#3f51b5")
WORLD: dict[str, Any] = {
    "peers": 12,
    "rounds": 10,
    "shift": {"name": "permute_labels", "groups": 3},
    "partition": {"name": "iid", "samples": 40},
}
PANELS = ("accuracy", "matrix", "gains")
mpl.rcParams["svg.hashsalt"] = "amity"  # the same picture has the same bytes


def network(axes: Any, result: amity.Result, group: dict[str, int], said: str) -> None:
    """Peers on a circle, by group; an arrow from each one taken in the last round."""
    last = result.rounds[-1].round
    ordered = sorted(group, key=lambda peer: (group[peer], peer))
    turn = 2 * np.pi * (np.arange(len(ordered)) + 0.5) / len(ordered)
    place = {p: (np.cos(t), np.sin(t)) for p, t in zip(ordered, turn, strict=True)}
    for edge in (e for e in result.edges if e.round == last):
        for other in amity.taken_from(edge.row, edge.peer):
            colour = COLOURS[group[other]] if group[other] == group[edge.peer] else "#999999"
            style = {"arrowstyle": "-", "color": colour, "alpha": 0.6, "shrinkA": 9, "shrinkB": 9}
            axes.annotate("", place[edge.peer], place[other], arrowprops=style)
    for peer, (x, y) in place.items():
        axes.plot(x, y, "o", markersize=15, color=COLOURS[group[peer]])
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    axes.set_title(said, fontsize=11)
    axes.axis("off")


def groups(out: Path) -> None:
    """docs/groups.svg: the same world, three strategies."""
    named = {"local": "alone", "gossip": "with anyone (gossip)", "friends": "with friends"}
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    for axes, (strategy, said) in zip(figure.subplots(1, 3), named.items(), strict=True):
        words = {"strategy": {"name": strategy, **({"k": 4} if strategy == "gossip" else {})}}
        result = amity.run(out=out / strategy, seed=11, sinks=[], **WORLD, **words)
        network(axes, result, groups_of(result), f"{said}: {100 * result.accuracy:.0f} %")
    figure.savefig(DOCS / "groups.svg", metadata={"Date": None})


def groups_of(result: amity.Result) -> dict[str, int]:
    """The hidden group of every peer, which no peer is told."""
    found: dict[str, int] = json.loads((result.path / "world.json").read_text())["groups"]
    return found


def panels(out: Path) -> None:
    """docs/pictures: panels of one comparison's report."""
    found = amity.compare(
        ["local", "gossip", "friends"], seeds=[11, 12, 13], out=out / "story", sinks=[], **WORLD
    )
    for name in PANELS:
        found.save(DOCS / "pictures" / f"{name}.svg", figure=name)


def first(out: Path) -> None:
    """docs/first.svg: what `make run` shows."""
    compared = amity.compare_worlds(
        ["permute_labels", "none"],
        ["local", "gossip:k=5", "federico:k=5", "afind+:tuned", "friends", "oracle"],
        [11, 12, 13, 14, 15],
        DOCS.parent / "configs" / "first.toml",
        out / "worlds",
        sinks=[],
    )
    narrow(compared.comparisons).savefig(DOCS / "first.svg", metadata={"Date": None})


ALL = {"groups": groups, "panels": panels, "first": first}


def main(names: Sequence[str]) -> None:
    out = Path(mkdtemp(prefix="pictures-"))
    for name in names or ALL:
        ALL[name](out)
    shutil.rmtree(out)


if __name__ == "__main__":
    main(sys.argv[1:])
