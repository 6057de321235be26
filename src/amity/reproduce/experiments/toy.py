"""Figure 2: whom should client 2 work with?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.pictures import curves
from amity.reproduce.presets import TINY, Preset, changed
from amity.reproduce.registry import experiments
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import places, weigh

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.reproduce.table import RunTable

NEAR, FAR = [4, 5, 6, 7], [0, 1, 2, 3]
GROUPS = {
    "alone": [NEAR],
    "with 1": [NEAR, NEAR],
    "with 3": [NEAR, FAR],
    "with 1 and 3": [NEAR, NEAR, FAR],
}
"""The labels of everyone who takes part; client 2 is the first."""


def friend_helps(table: RunTable) -> Judged:
    return weigh([table.difference((p, "with 1", c), (p, "alone", c)) for p, c in places(table)])


def stranger_harms(table: RunTable) -> Judged:
    found = [table.difference((p, "with 3", c), (p, "alone", c)) for p, c in places(table)]
    status, _ = weigh([-d for d in found if d is not None])
    return status, f"With client 3 minus alone: {', '.join(str(d) for d in found)} points."


@experiments.register("toy")
@dataclass(frozen=True)
class Toy(TableOfRuns):
    """Figure 2: whom should client 2 work with?"""

    title = "Whom should client 2 work with?"
    place = 10
    against = "alone"
    focus = "peer-00"
    called = "client 2"
    note = (
        "Clients 1 and 2 hold labels 4 to 7, client 3 labels 0 to 3; all average every round."
        " Measured: client 2."
    )
    printed = Printed(
        where="Figure 2 (no numbers printed)",
        sizes="FashionMNIST; clients 1 and 2 hold labels 4 to 7, client 3 labels 0 to 3",
    )
    claims = (
        Claim(
            "friend-helps",
            "Client 2 gains by working with client 1, whose data are alike.",
            friend_helps,
        ),
        Claim(
            "stranger-harms",
            "Client 2 loses by working with client 3, whose data are not.",
            stranger_harms,
        ),
    )

    def design(self, preset: Preset) -> Design:
        small = changed(
            TINY,
            rounds=30,
            model="fashion_cnn2",
            train={"epochs": 2, "batch": 16},
            eval={"every": 3},
            partition={"name": "labels", "samples": 80, "test": 200},
        )
        return Design(
            rows={
                name: {
                    "peers": len(labels),
                    "partition": {"name": "labels", "labels": labels},
                    "strategy": {"name": "gossip", "k": 2},
                }
                for name, labels in GROUPS.items()
            },
            columns={"FashionMNIST": {"data": "fashionmnist"}},
            sizes={"fashionmnist": preset.pick(preset.sizes["fashionmnist"], cpu=small)},
            seeds=preset.pick(preset.more, cpu=tuple(range(10))),
            first=("alone", "with 1", "with 3"),
        )

    def picture(self, table: RunTable) -> Figure:
        return curves(table, by_bytes=False)
