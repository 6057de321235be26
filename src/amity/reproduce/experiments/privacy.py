"""Table 4: noise on cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.differences import Difference
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed, as_printed
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import PAPERS, TABLE2, afind
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import OPEN, graded, listed, places, sure, there, weigh

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

QUIET = "σ=0"
NUMBERS = """
σ=0  71.89±0.06 80.36±0.32 62.11±1.82 71.07±1.02
σ=2  70.61±0.14 79.67±1.34 61.07±0.40 70.82±1.51
σ=5  69.94±1.42 78.85±0.62 60.72±0.16 68.23±1.23
σ=10 67.07±0.42 76.11±1.74 58.41±1.52 66.05±0.87
σ=50 64.24±1.56 73.92±1.08 55.86±1.12 63.20±1.18
"""
KNOWN = (
    'Which variable is made noisy is not said (an "intermediate regularization variable",'
    " overwritten by itself). DP-SGD of this strength would destroy training; the pattern, down to"
    " Gossip's level at σ=50, fits noise on the proxy. We add it there; it gives no ε.",
)


def _lost(table: RunTable, sigma: str) -> dict[str, Difference]:
    """A σ minus none, by panel and column."""
    found = {
        f"{p} {c}".strip(): table.difference((p, sigma, c), (p, QUIET, c)) for p, c in places(table)
    }
    return {name: there(apart) for name, apart in found.items()}


def mild(table: RunTable) -> Judged:
    found = {
        f"{sigma}, {key}": d for sigma in ("σ=2", "σ=5") for key, d in _lost(table, sigma).items()
    }
    status, evidence = weigh(list(found.values()), above=-3)
    return status, f"Minus σ=0: {listed(found)}. {evidence}"


def loses(table: RunTable) -> Judged:
    found = _lost(table, "σ=50")
    near = sum(-10 <= d.mean <= -4 for d in found.values())
    worse = any(d.sign < 0 for d in found.values())
    status = graded(near == len(found), bool(near) or worse)
    return status if sure(found.values()) else OPEN, (
        f"σ=50 minus σ=0, where 4 to 10 points are near enough: {listed(found)}."
    )


@experiments.register("privacy")
@dataclass(frozen=True)
class NoisyCards(TableOfRuns):
    """Table 4: noise on cards."""

    title = "Table 4: noise on cards"
    place = 80
    against = QUIET
    note = (
        "A card is clipped to length 1 and gets noise of standard deviation σ/L in each number;"
        " L = 128, the paper's."
    )
    printed = Printed(
        where="Table 4", sizes="as Table 1", numbers=as_printed(TABLE2, NUMBERS), known=KNOWN
    )
    claims = (
        Claim("mild", "With σ up to 5 AFIND+ loses little.", mild),
        Claim("loses", "With σ = 50 it loses 6 to 8 points.", loses),
    )

    def design(self, preset: Preset) -> Design:
        return Design(
            rows={
                f"σ={s}": {"privacy": {"name": "proxy", "sigma": s, "lot": 128}}
                for s in (0, 2, 5, 10, 50)
            },
            columns=TABLE2,
            panels={"tuned": afind(preset.k), "paper": PAPERS},
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=(QUIET, "σ=50", "σ=5"),
        )
