"""One liar among real peers, as they are by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.reproduce.design import Design
from amity.reproduce.experiments.attack import ATTACKS, CLEAN, coloured
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import Layer, Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import GOSSIP, NEW, default, gossip
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import at_least_one, graded, places, there
from amity.stages import GUARD
from amity.strategies.friends import Friends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from amity.reproduce.table import RunTable

MOST = 3.0
"""Points that one liar may cost the others."""
FEWEST = 8
"""From so many peers on."""
HUGE: Layer = {"name": "noise", "std": 5000.0}
"""A model whose norm is beyond all bounds."""
ON_GUARD = f"{NEW} on guard"
DIGITS: Layer = {"data": "digits", "rounds": 30, "eval": {"every": 10, "gradients_every": 0}}
"""The built-in data with all of its defaults, as `amity swarm` takes them."""


def bounded(table: RunTable) -> Judged:
    """What the default of real peers loses to one liar, at worst."""
    many = [(p, c) for p, c in places(table) if c != CLEAN and _peers(p) >= FEWEST]
    lost = {
        f"{panel}, {column}": -there(
            table.difference((panel, ON_GUARD, column), (panel, ON_GUARD, CLEAN))
        )
        for panel, column in at_least_one(many)
    }
    worst = max(lost, key=lambda place: lost[place].mean)
    within = [one.mean <= MOST for one in lost.values()]
    surely = [one.half is not None and one.mean + one.half <= MOST for one in lost.values()]
    return graded(all(surely), all(within)), (
        f"It loses at most {lost[worst]} points ({worst}); the mean is within {MOST:g} in"
        f" {sum(within)} of {len(lost)} cases, with the whole interval in {sum(surely)}."
    )


def _peers(panel: str) -> int:
    return int(panel.split()[-2])


@experiments.register("liars")
@dataclass(frozen=True)
class Liars(TableOfRuns):
    """One liar among real peers, as they are by default."""

    title = "One liar among 4, 8 or 20 peers: accuracy of the others"
    place = 125
    against = f"|{CLEAN}"
    bold_within = MOST
    note = (
        "One peer attacks, the others are as `amity peer` and `amity swarm` start them (on guard:"
        f" friends with {Friends.guard}, other strategies with {GUARD}), beside the same without a"
        " guard. Bold: within 3 points of the same row in which that peer is honest. A liar is also"
        " one honest member less: that alone costs something. `huge` sends a model whose norm is"
        " beyond all bounds. Real peers refuse a model of ten times their own norm before any"
        " strategy sees it; the simulator does not."
    )
    printed = Printed(where="beyond the paper")
    claims = (
        Claim(
            "one-liar",
            f"Ours, not the paper's: among {FEWEST} peers and more one liar costs the others, as"
            f" real peers are by default, at most {MOST:g} points.",
            bounded,
        ),
    )

    def design(self, preset: Preset) -> Design:
        sizes = preset.pick((4, 8, 20), smoke=(FEWEST,))
        random = gossip(5)
        return Design(
            rows={
                ON_GUARD: {**default()[NEW], "stages": [Friends.guard]},
                **default(),
                f"{GOSSIP} on guard": {**random, "stages": [GUARD]},
                GOSSIP: random,
            },
            columns={
                CLEAN: {"attack": "none"},
                **{name: {"attack": {"name": name}} for name in ATTACKS},
                "huge": {"attack": HUGE},
            },
            panels={
                f"one of {peers} peers": {"peers": peers, "attack": {"fraction": 1 / peers}}
                for peers in sizes
            },
            sizes={"digits": preset.pick(DIGITS, smoke=preset.sizes["cifar10"])},
            seeds=preset.pick((11, 12, 13, 14, 15), smoke=preset.seeds),
            first=(ON_GUARD, NEW),
        )

    def picture(self, table: RunTable) -> Figure:
        """A coloured table, with the weight that the liar obtains."""
        return coloured(table, table.panels[-1])

    def pictures(self, table: RunTable) -> Mapping[str, Figure]:
        """The same of the other sizes."""
        return {panel.replace(" ", "-"): coloured(table, panel) for panel in table.panels[:-1]}
