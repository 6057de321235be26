"""Table 1: six methods on CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.differences import Difference
from amity.reproduce.design import Design
from amity.reproduce.friends import finds, friends_found
from amity.reproduce.paper import Claim, Judged, Printed, as_printed
from amity.reproduce.presets import USUAL, Layer, Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import (
    AFIND,
    BACKBONES,
    CIFAR,
    CIFAR10,
    GOSSIP,
    LOCAL,
    NEW,
    ORACLE,
    PAPERS,
    RIVALS,
    afind,
    blind,
    default,
    rivals,
)
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import (
    NOT,
    OPEN,
    PARTLY,
    at_least_one,
    by_panel,
    graded,
    listed,
    sure,
    there,
    weigh,
)

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

SHARP = "AFIND+ (υ=auto)"
PRINTED = "AFIND+ (paper)"
NUMBERS = """
Local    48.44±0.44 62.36±0.51 86.52±0.56 70.96±0.48 32.21±0.52 29.52±1.12 75.43±0.89 53.06±0.90
FedAvg   55.29±0.04 78.24±0.21 59.81±0.41 56.87±0.58 45.42±0.26 46.48±1.29 27.20±0.81 35.29±0.62
Gossip   59.47±0.09 80.74±0.11 85.31±0.30 73.46±0.36 56.74±0.46 55.77±0.69 79.54±0.50 64.23±0.73
PENS     62.66±0.19 83.12±0.12 88.03±0.31 75.83±0.34 57.91±0.53 57.89±1.88 82.65±0.84 67.03±1.21
FedeRiCo 66.31±0.07 84.50±0.10 88.26±0.32 76.82±0.14 57.83±0.79 57.65±1.03 82.79±1.45 68.22±1.26
AFIND+   71.89±0.06 88.82±0.16 91.13±0.27 80.36±0.32 62.11±1.82 61.02±1.29 84.87±0.81 71.07±1.02
"""
KNOWN = (
    "Local at CIFAR-10 α=0.1 is 48.4 %, below what always naming the commonest class reaches on"
    " matched test sets (58 to 69 %); with a balanced test set it would be under 30 %. Accuracy"
    " that rises with α (71.9 to 88.8) is the reverse of other papers. The column fits no protocol;"
    " it is no target.",
    "The text says 5.32 points over FedeRiCo at α=0.1; the table says 5.58.",
    '"At least 3.37 points" on CIFAR-100 Dirichlet ignores PENS: at α=0.5 the table says'
    " 61.02 − 57.89 = 3.13.",
    "The contributions speak of at most 5 points on CIFAR-10 and 4 on CIFAR-100; the table has 5.58"
    " and 4.20.",
    "Best round by test accuracy: it selects on the test set. We report the last round; `best` is"
    " in the records.",
    '"The server chooses 10 %" in a method without a server: read as 10 neighbours a peer; FedAvg:'
    " 10 of 100 clients.",
    "The backbone is FedAvg-FT in the appendix and a shared featurizer with a personal head in the"
    " algorithm: both are run, each the same for all rows.",
)


# -- the claims ------------------------------------------------------------------------------------


def ours(table: RunTable) -> str:
    """The AFIND+ that the claims are judged by: ours, and where the table has none the paper's."""
    rows = {row for _, row, _ in table.design.whole}
    return PRINTED if PRINTED in rows and AFIND not in rows else AFIND


def over(
    table: RunTable, panel: str, others: Sequence[str], equal_bytes: bool = False
) -> dict[str, dict[str, Difference]]:
    """AFIND+ minus each of the others, by column; every one of them must be there."""
    mine = ours(table)
    return {
        column: {
            row: there(table.difference((panel, mine, column), (panel, row, column), equal_bytes))
            for row in others
        }
        for column in at_least_one(table.columns(panel))
    }


def best_everywhere(table: RunTable) -> Judged:
    def one(panel: str) -> Judged:
        found = over(table, panel, RIVALS)
        for column, by_row in found.items():
            for row in ("Local", "FedAvg"):
                apart = table.difference((panel, ours(table), column), (panel, row, column))
                by_row |= {row: apart} if apart is not None else {}
        status, evidence = weigh([d for by_row in found.values() for d in by_row.values()])
        ahead = sum(all(d.mean > 0 for d in by_row.values()) for by_row in found.values())
        if status in (PARTLY, NOT):
            status = PARTLY if 2 * ahead >= len(found) else NOT
        return status, (
            f"First in {ahead} of {len(found)} columns (half are a part). AFIND+ minus all others:"
            f" {evidence}"
        )

    return by_panel(table, one)


def margin(table: RunTable) -> Judged:
    def one(panel: str) -> Judged:
        found = over(table, panel, RIVALS).values()
        closest = [min(by_row.values(), key=lambda d: d.mean) for by_row in found]
        theirs = [min(d.mean for row, d in by_row.items() if row != GOSSIP) for by_row in found]
        status, _ = weigh(closest, above=2)
        return status, (
            "Two points or more ahead of the best of Gossip, PENS and FedeRiCo in"
            f" {sum(d.mean >= 2 for d in closest)} of {len(closest)} columns"
            f" ({', '.join(map(str, closest))}); of the better of PENS and FedeRiCo, the"
            f" paper's best rivals, in {sum(mean >= 2 for mean in theirs)} ({min(theirs):+.1f}"
            f" to {max(theirs):+.1f})."
        )

    return by_panel(table, one)


def equal_bytes(table: RunTable) -> Judged:
    def one(panel: str) -> Judged:
        found = over(table, panel, RIVALS, equal_bytes=True)
        every = [d for by_row in found.values() for d in by_row.values()]
        good = sum(all(d.mean >= 0 for d in by_row.values()) for by_row in found.values())
        behind = sum(any(d.sign < 0 for d in by_row.values()) for by_row in found.values())
        status = graded(good == len(found) and not behind, good * 2 >= len(found))
        said = "; ".join(f"{column}: {listed(by, ', ')}" for column, by in found.items())
        return status if sure(every) else OPEN, (
            f"At least equal to all three on average in {good} of {len(found)} columns, behind"
            f" one of them by more than its interval in {behind} (AFIND+ minus {said})."
        )

    return by_panel(table, one)


def finds_friends(table: RunTable) -> Judged:
    def one(panel: str) -> Judged:
        status, evidence = finds(friends_found(table, panel, ours(table)))
        _, sharper = finds(friends_found(table, panel, SHARP))
        nobody = "Nobody has a true friend (half of the labels in common) in these columns."
        return status, (evidence or nobody) + (f" {SHARP}: {sharper}" if sharper else "")

    return by_panel(table, one)


# -- the experiment --------------------------------------------------------------------------------


@experiments.register("table1")
@dataclass(frozen=True)
class Table1(TableOfRuns):
    """Table 1: six methods on CIFAR-10 and CIFAR-100."""

    title = "Table 1: AFIND+ and its rivals"
    place = 30
    presets = (*USUAL, "mid")
    in_all = presets
    against = GOSSIP
    friends = True
    note = (
        "AFIND+ is the preset `tuned`; (υ=auto) the same with a sharper eye for who is alike;"
        " (blind) with υ = 1000: everyone looks alike, and it draws at random; (paper) the"
        " closest reading of the paper that works; at preset `mid` claims are judged by that one."
        " FedAvg is one model for all, fine-tuned like the others."
    )
    printed = Printed(
        where="Table 1",
        sizes=(
            "100 clients, 10 sampled, 500 rounds, 5 epochs, batch 128, lr 0.01, momentum 0.9,"
            " 3 seeds; best round"
        ),
        numbers=as_printed(CIFAR, NUMBERS),
        known=KNOWN,
    )
    claims = (
        Claim(
            "best-everywhere",
            "AFIND+ has the best accuracy on every dataset and partition.",
            best_everywhere,
        ),
        Claim("margin", "It is 2 to 6 points ahead of the best rival (FedeRiCo or PENS).", margin),
        Claim(
            "equal-bytes",
            "Ours, not the paper's: at equal bytes, AFIND+ is at least as good as Gossip, PENS and"
            " FedeRiCo.",
            equal_bytes,
        ),
        Claim("friends", "AFIND+ identifies neighbours with similar data.", finds_friends),
    )

    def design(self, preset: Preset) -> Design:
        fraction = preset.pick(0.25, paper=0.1)
        readings: dict[str, Layer] = {
            AFIND: afind(preset.k),
            SHARP: afind(preset.k, upsilon="auto"),
            "AFIND+ (blind)": blind(preset.k),
            PRINTED: PAPERS,
        }
        return Design(
            rows={
                "Local": LOCAL,
                "FedAvg": {"strategy": {"name": "fedavg", "fraction": fraction}},
                **rivals(preset.k),
                **preset.pick(readings, mid={PRINTED: PAPERS, **default(), "oracle": ORACLE}),
            },
            columns=preset.pick(CIFAR, mid=CIFAR10),
            panels=preset.pick(BACKBONES, mid={"finetune": BACKBONES["finetune"]}),
            sizes=preset.sizes,
            seeds=preset.more,
            first=preset.pick(
                (AFIND, GOSSIP, "FedeRiCo", "PENS"), mid=("Local", GOSSIP, NEW, PRINTED)
            ),
        )
