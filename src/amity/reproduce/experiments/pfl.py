"""Figure 5: personalised methods, with Gossip and with AFIND+."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, TWO, afind, gossip, pathological
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import HOLDS, PARTLY, listed, places, weigh

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable


def lifts(table: RunTable) -> Judged:
    found = {f"{p} {c}": table.difference((p, AFIND, c), (p, GOSSIP, c)) for p, c in places(table)}
    status, evidence = weigh(list(found.values()))
    small = status == HOLDS and any(d is not None and d.mean < 2 for d in found.values())
    return PARTLY if small else status, (
        f"AFIND+ minus Gossip (less than 2 points is in part): {listed(found)}. {evidence}"
    )


@experiments.register("pfl")
@dataclass(frozen=True)
class Personalised(TableOfRuns):
    """Figure 5: personalised methods, with Gossip and with AFIND+."""

    title = "Personalised methods, with Gossip and with AFIND+"
    place = 100
    against = GOSSIP
    printed = Printed(where="Figure 5 (no numbers printed)", sizes="not stated beyond Table 1's")
    claims = (
        Claim(
            "lifts", "Fed-FT, Ditto, FOMO and Dis-PFL each gain about 3 points by AFIND+.", lifts
        ),
    )

    def design(self, preset: Preset) -> Design:
        return Design(
            rows={GOSSIP: gossip(preset.k), AFIND: afind(preset.k)},
            columns={
                "Fed-FT": {"method": "finetune"},
                "Ditto": {"method": "ditto"},
                "FOMO": {"method": "finetune", "stages": ["fomo"]},
                "Dis-PFL": {"method": "dispfl"},
            },
            panels={**TWO, "FashionMNIST c=4": pathological("fashionmnist", 4)},
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=(AFIND, GOSSIP),
        )
