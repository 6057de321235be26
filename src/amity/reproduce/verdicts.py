"""A verdict per claim, from paired differences: it may say "holds" only where intervals say so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.optimize import linprog

from amity.reproduce.differences import Difference, paired
from amity.reproduce.paper import Claim
from amity.show.figures import Array

if TYPE_CHECKING:
    from amity.reproduce.record import Record
    from amity.reproduce.table import Table

HOLDS, PARTLY, NOT = "holds here", "holds in part", "does not hold here"
OPEN = "cannot be told at this size"
MISSING = "not run"
SO_FAR = "holds in what was run"
UNJUDGED = "not judged"
"""Where other data stand in."""
AFIND, SHARP = "AFIND+", "AFIND+ (υ=auto)"
RIVALS = ("Gossip", "PENS", "FedeRiCo")
RARE = 0.02
"""Where fewer than so many of those in reach are friends, nobody is asked to find them."""
T = TypeVar("T")


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    status: str
    evidence: str


Judged = tuple[str, str]
Check = Callable[["Table"], Judged]
CHECKS: dict[tuple[str, str], Check] = {}


def _check(experiment: str, claim: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CHECKS[experiment, claim] = check
        return check

    return register


def judge(table: Table) -> list[Verdict]:
    """All claims of an experiment; one whose runs are missing says so."""
    out = []
    for claim in table.printed.claims:
        try:
            status, evidence = CHECKS[table.experiment.name, claim.id](table)
        except LookupError:  # a row or column that the claim needs was not run
            status, evidence = MISSING, "Some of its runs are missing."
        if table.experiment.stand_in and status != MISSING:
            status = UNJUDGED
        elif status != MISSING and len(table.seeds) < 2:
            status, evidence = OPEN, f"One seed only. {evidence}"
        elif status == HOLDS and not _complete(table):
            status = SO_FAR
        out.append(Verdict(claim, status, evidence))
    return out


def _complete(table: Table) -> bool:
    """Whether every cell of the table is there, with more than one seed."""
    return all(
        len(table.by_key.get(key, {})) > 1 for key in table.experiment.whole | table.by_key.keys()
    )


def _judged(table: Table) -> list[str]:
    """The table's own rows; those that somebody added are shown, not judged."""
    own = {row for _, row, _ in table.experiment.whole}
    return [row for row in table.rows if row in own or not own]


# -- what verdicts are made of ---------------------------------------------------------------------


def weigh(found: Sequence[Difference | None], above: float = 0.0) -> Judged:
    """Whether these differences are above a bound: all, some, or none of them by more than their
    intervals."""
    there = [d for d in found if d is not None]
    if not there or len(there) < len(found):
        raise LookupError("a difference is missing")
    plus = sum(d.half is not None and d.mean - d.half > above for d in there)
    minus = sum(d.half is not None and d.mean + d.half < above for d in there)
    means = [d.mean for d in there]
    evidence = f"The difference is {there[0]} points" + (
        f", and should be above {above:g}." if above else "."
    )
    if len(there) > 1:
        evidence = (
            f"Of {len(there)} differences {plus} are above {above:g} and {minus} below by more than"
            f" their 95 % intervals; they are {min(means):+.1f} to {max(means):+.1f} points, mean"
            f" {np.mean(means):+.1f}."
        )
    if all(d.half is None for d in there):
        return OPEN, evidence
    if plus == len(there):
        return HOLDS, evidence
    if plus > minus:
        return PARTLY, evidence
    return (NOT if minus else OPEN), evidence


def _all(values: Iterable[T]) -> list[T]:
    """A list that is not empty; else something was not run."""
    found = list(values)
    if not found:
        raise LookupError("nothing was run")
    return found


def _there(found: Difference | None) -> Difference:
    """A difference; else something was not run."""
    if found is None:
        raise LookupError("no seed in common")
    return found


def _sure(differences: Sequence[Difference]) -> bool:
    """Whether there is more than one seed."""
    return all(d.half is not None for d in differences)


def _cells(table: Table) -> list[tuple[str, str]]:
    """Panels and columns that were run."""
    return [(panel, column) for panel in table.panels for column in table.columns(panel)]


def _by_panel(table: Table, one: Callable[[str], Judged]) -> Judged:
    """Judged panel by panel; the whole holds if every panel does."""
    parts = {panel: one(panel) for panel in table.panels}
    if len(parts) == 1:
        return next(iter(parts.values()))
    kinds = [status for status, _ in parts.values()]
    status = (
        kinds[0]
        if len(set(kinds)) == 1
        else PARTLY
        if {HOLDS, PARTLY} & set(kinds)
        else NOT
        if NOT in kinds
        else OPEN
    )
    return status, " ".join(
        f"{panel}: {status}. {evidence}" for panel, (status, evidence) in parts.items()
    )


# -- the claims ------------------------------------------------------------------------------------


def _over(
    table: Table, panel: str, rivals: Sequence[str], equal_bytes: bool = False
) -> dict[str, dict[str, Difference]]:
    """AFIND+ minus each rival, by column; every rival must be there."""
    out: dict[str, dict[str, Difference]] = {}
    for column in _all(column for p, column in _cells(table) if p == panel):
        for rival in rivals:
            found = table.difference((panel, AFIND, column), (panel, rival, column), equal_bytes)
            out.setdefault(column, {})[rival] = _there(found)
    return out


@_check("table1", "best-everywhere")
def _best_everywhere(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        found = _over(table, panel, RIVALS)
        for column, by_rival in found.items():
            for row in ("Local", "FedAvg"):
                apart = table.difference((panel, AFIND, column), (panel, row, column))
                by_rival |= {row: apart} if apart is not None else {}
        status, evidence = weigh([d for by_rival in found.values() for d in by_rival.values()])
        ahead = sum(all(d.mean > 0 for d in by_rival.values()) for by_rival in found.values())
        if status in (PARTLY, NOT):
            status = PARTLY if 2 * ahead >= len(found) else NOT
        return (
            status,
            (
                f"First in {ahead} of {len(found)} columns (half are a part). AFIND+ minus all"
                f" others: {evidence}"
            ),
        )

    return _by_panel(table, one)


@_check("table1", "margin")
def _margin(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        found = _over(table, panel, RIVALS).values()
        closest = [min(by_rival.values(), key=lambda d: d.mean) for by_rival in found]
        theirs = [
            min(d.mean for rival, d in by_rival.items() if rival != "Gossip") for by_rival in found
        ]
        status, _ = weigh(closest, above=2)
        return (
            status,
            (
                "Two points or more ahead of the best of Gossip, PENS and FedeRiCo in"
                f" {sum(d.mean >= 2 for d in closest)} of {len(closest)} columns"
                f" ({', '.join(map(str, closest))}); of the better of PENS and FedeRiCo, the"
                f" paper's best rivals, in {sum(mean >= 2 for mean in theirs)} ({min(theirs):+.1f}"
                f" to {max(theirs):+.1f})."
            ),
        )

    return _by_panel(table, one)


@_check("table1", "equal-bytes")
def _equal_bytes(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        found = _over(table, panel, RIVALS, equal_bytes=True)
        every = [d for by_rival in found.values() for d in by_rival.values()]
        good = sum(all(d.mean >= 0 for d in by_rival.values()) for by_rival in found.values())
        behind = sum(any(d.sign < 0 for d in by_rival.values()) for by_rival in found.values())
        status = (
            HOLDS
            if good == len(found) and not behind
            else PARTLY
            if good * 2 >= len(found)
            else NOT
        )
        said = "; ".join(
            f"{column}: " + ", ".join(f"{r} {d}" for r, d in by.items())
            for column, by in found.items()
        )
        return (
            status if _sure(every) else OPEN,
            (
                f"At least equal to all three on average in {good} of {len(found)} columns, behind"
                f" one of them by more than its interval in {behind} (AFIND+ minus {said})."
            ),
        )

    return _by_panel(table, one)


@_check("table1", "friends")
def _friends(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        status, evidence = _finds(table, panel, AFIND)
        _, sharper = _finds(table, panel, SHARP)
        return status, evidence + (f" {SHARP}: {sharper}" if sharper else "")

    return _by_panel(table, one)


def _finds(table: Table, panel: str, row: str) -> Judged:
    """Whether a row takes twice as many friends as chance would, in every seed of every column
    where that is possible."""
    said, twice, better, seeds = [], [], [], 0
    for column in (column for p, column in _cells(table) if p == panel):
        runs = [
            r
            for r in table.of(panel, row, column).values()
            if r.precision is not None and r.base_rate
        ]
        pairs = [(r.precision or 0.0, r.base_rate or 1.0) for r in runs]
        if not pairs or float(np.mean([base for _, base in pairs])) < RARE:
            continue
        seeds = max(seeds, len(pairs))
        mean, base = (float(np.mean(values)) for values in zip(*pairs, strict=True))
        said.append(f"{column} {100 * mean:.0f} % of {100 * base:.0f} %")
        better.append(all(p > b for p, b in pairs))
        if base <= 0.5:  # twice as much is not possible above
            twice.append(all(p >= 2 * b for p, b in pairs))
    if not said:
        return (
            OPEN,
            (
                ""
                if row != AFIND
                else "Nobody has a true friend (half of the labels in common) in these columns."
            ),
        )
    status = HOLDS if twice and all(twice) else PARTLY if all(better) else NOT
    return (
        status if seeds > 1 else OPEN,
        (
            f"Friends among those taken, of friends in reach: {'; '.join(said)}. In every seed at"
            f" least twice as many in {sum(twice)} of {len(twice)} columns where that is possible,"
            f" more in {sum(better)} of {len(better)}."
        ),
    )


@_check("ablation", "each-part-helps")
def _each_part(table: Table) -> Judged:
    steps = (("Gossip", "i"), ("i", "i+ii"), ("i+ii", "i+ii+iii"), ("blind", "i+ii+iii"))
    parts = {}
    for below, above in steps:
        parts[below] = weigh(
            [table.difference((p, above, c), (p, below, c)) for p, c in _cells(table)]
        )
    kinds = {parts[below][0] for below, _ in steps[:3]}
    status = (
        HOLDS
        if kinds == {HOLDS}
        else PARTLY
        if {HOLDS, PARTLY} & kinds
        else NOT
        if NOT in kinds
        else OPEN
    )
    return status, " ".join(
        f"{above} over {below}: {parts[below][0]}. {parts[below][1]}" for below, above in steps
    )


def _area(record: Record) -> float:
    """Mean accuracy over the measured rounds: higher is sooner."""
    return 100 * float(np.mean([point[2] for point in record.curve]))


def _areas(table: Table, panel: str, column: str, ours: str, theirs: str) -> Difference:
    mine, other = (
        {s: _area(r) for s, r in table.of(panel, row, column).items()} for row in (ours, theirs)
    )
    return _there(paired(mine, other))


@_check("convergence", "faster")
def _faster(table: Table) -> Judged:
    found = {r: _areas(table, p, c, AFIND, r) for p, c in _cells(table) for r in RIVALS}
    status, evidence = weigh(list(found.values()))
    return (
        status,
        (
            "Mean accuracy over all rounds, AFIND+ minus"
            f" {', '.join(f'{r} {d}' for r, d in found.items())}. {evidence}"
        ),
    )


@_check("convergence", "plus")
def _plus(table: Table) -> Judged:
    found = [table.difference((p, AFIND, c), (p, "AFIND", c)) for p, c in _cells(table)]
    status, evidence = weigh(found, above=2)
    return status, f"AFIND+ minus AFIND: {evidence}"


@_check("pfl", "lifts")
def _lifts(table: Table) -> Judged:
    found = {
        f"{p} {c}": table.difference((p, AFIND, c), (p, "Gossip", c)) for p, c in _cells(table)
    }
    status, evidence = weigh(list(found.values()))
    small = status == HOLDS and any(d is not None and d.mean < 2 for d in found.values())
    said = "; ".join(f"{key} {d}" for key, d in found.items())
    return (
        PARTLY if small else status,
        f"AFIND+ minus Gossip (less than 2 points is in part): {said}. {evidence}",
    )


def taus_of(table: Table) -> list[str]:
    """The rows of a τ each, from the smallest to the largest; at least two."""
    rows = sorted(
        (row for row in table.rows if re.fullmatch(r"τ=[\d.]+", row)),
        key=lambda row: float(row[2:]),
    )
    if len(rows) < 2:
        raise LookupError("τ")
    return rows


@_check("tau", "fewer")
def _fewer(table: Table) -> Judged:
    rows, falls, said = taus_of(table), [], []
    for p, c in _cells(table):
        by_seed = [table.of(p, row, c) for row in rows]
        seeds = _all(set.intersection(*[set(runs) for runs in by_seed]))
        taken = [float(np.mean([runs[s].taken for s in seeds])) for runs in by_seed]
        steady = all(a >= b - 0.05 for a, b in pairwise(taken))
        falls.append(steady and all(by_seed[0][s].taken > by_seed[-1][s].taken for s in seeds))
        said.append(f"{c}: {', '.join(f'{n:.1f}' for n in taken)}")
    status = HOLDS if all(falls) else PARTLY if any(falls) else NOT
    return status, f"Neighbours taken, mean over rounds, for {', '.join(rows)}: {'; '.join(said)}."


@_check("tau", "stable")
def _stable(table: Table) -> Judged:
    rows, spans, firsts = taus_of(table), [], []
    for p, c in _cells(table):
        entries = _all(entry for row in rows if (entry := table.entry(p, row, c)) is not None)
        spans.append(max(e.accuracy for e in entries) - min(e.accuracy for e in entries))
        firsts.append(table.difference((p, rows[0], c), (p, rows[-1], c)))
    _, evidence = weigh(firsts)
    there = [d for d in firsts if d is not None]
    smaller_is_worse = any(d.sign < 0 for d in there)
    status = NOT if max(spans) > 4 else PARTLY if max(spans) > 2 or smaller_is_worse else HOLDS
    said = (
        f"From best to worst τ: {max(spans):.1f} points at most (2 are stable, 4 are in part)."
        f" {rows[0]} minus {rows[-1]}: {evidence}"
    )
    return status if _sure(there) else OPEN, said


def rounds_to(record: Record, level: float) -> float | None:
    """The first measured round with at least this accuracy."""
    return next((point[0] for point in record.curve if point[2] >= level), None)


def tau_levels(table: Table, panel: str, column: str) -> float:
    """The accuracy to be reached: 98 % of the lowest final accuracy of any τ."""
    entries = _all(
        entry for row in taus_of(table) if (entry := table.entry(panel, row, column)) is not None
    )
    return 0.0098 * min(entry.accuracy for entry in entries)


@_check("tau", "sooner")
def _sooner(table: Table) -> Judged:
    rows, said, found = taus_of(table), [], []
    for p, c in _cells(table):
        level = tau_levels(table, p, c)
        needed = [
            {s: rounds_to(r, level) or r.rounds for s, r in table.of(p, row, c).items()}
            for row in rows
        ]
        found.append(_there(paired(needed[0], needed[-1])))
        said.append(
            f"{c} ({100 * level:.1f} %):"
            f" {', '.join(f'{np.mean(list(n.values())):.0f}' for n in needed)}"
        )
    status, _ = weigh(found)
    saved_rounds = ", ".join(map(str, found))
    return (
        status,
        (
            f"Rounds to 98 % of the lowest final accuracy, for {', '.join(rows)}:"
            f" {'; '.join(said)}. {rows[-1]} saves {saved_rounds} rounds over {rows[0]}."
        ),
    )


@_check("topology", "grows")
def _grows(table: Table) -> Judged:
    found = {}
    for column in dict.fromkeys(c for _, c in _cells(table)):
        for rival in RIVALS:
            gaps = []
            for panel in ("full", "half"):
                ours, theirs = (
                    table.accuracies(panel, AFIND, column),
                    table.accuracies(panel, rival, column),
                )
                gaps.append(
                    {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}
                )
            found[f"{column}, {rival}"] = _there(paired(gaps[1], gaps[0]))
    status, evidence = weigh(list(found.values()))
    said = "; ".join(f"{key} {d}" for key, d in found.items())
    return (
        status,
        f"Advantage on half of the graph minus advantage on the full one: {said}. {evidence}",
    )


def _sigmas(table: Table, sigma: str) -> dict[str, Difference]:
    found = {
        f"{p} {c}".strip(): table.difference((p, sigma, c), (p, "σ=0", c)) for p, c in _cells(table)
    }
    return {name: _there(apart) for name, apart in found.items()}


@_check("privacy", "mild")
def _mild(table: Table) -> Judged:
    found = {
        f"σ={sigma}, {key}": d
        for sigma in (2, 5)
        for key, d in _sigmas(table, f"σ={sigma}").items()
    }
    status, evidence = weigh(list(found.values()), above=-3)
    return status, f"Minus σ=0: {'; '.join(f'{key} {d}' for key, d in found.items())}. {evidence}"


@_check("privacy", "loses")
def _loses(table: Table) -> Judged:
    found = _sigmas(table, "σ=50")
    near = sum(-10 <= d.mean <= -4 for d in found.values())
    status = (
        HOLDS
        if near == len(found)
        else PARTLY
        if near or any(d.sign < 0 for d in found.values())
        else NOT
    )
    said = (
        "σ=50 minus σ=0, where 4 to 10 points are near enough: "
        + "; ".join(f"{k} {d}" for k, d in found.items())
        + "."
    )
    return status if _sure(list(found.values())) else OPEN, said


@_check("toy", "friend-helps")
def _friend_helps(table: Table) -> Judged:
    return weigh([table.difference((p, "with 1", c), (p, "alone", c)) for p, c in _cells(table)])


@_check("toy", "stranger-harms")
def _stranger_harms(table: Table) -> Judged:
    found = [table.difference((p, "with 3", c), (p, "alone", c)) for p, c in _cells(table)]
    status, _ = weigh([-d for d in found if d is not None])
    return status, f"With client 3 minus alone: {', '.join(str(d) for d in found)} points."


def bound(table: Table) -> tuple[dict[tuple[float, int], float], Array, float]:
    """Mean squared gradient norm over the first T rounds for each η and T, the non-negative (a, b,
    c) of the tightest a/(ηT) + bη + cη² that is nowhere below it, and the median of that bound over
    what was measured."""
    points: dict[tuple[float, int], list[float]] = {}
    for record in table.records:
        if record.row.startswith("η=") and record.column == AFIND:
            eta, norms = float(record.row[2:]), record.series["gradient_norm2"]
            for upto in range(2, len(norms) + 1):
                points.setdefault((eta, int(norms[upto - 1][0])), []).append(
                    float(np.mean([v for _, v in norms[:upto]]))
                )
    mean = {key: float(np.mean(values)) for key, values in points.items()}
    if len(mean) < 4:
        raise LookupError("too few points")
    shape = (
        np.array([[1 / (eta * t), eta, eta * eta] for eta, t in mean])
        / np.array(list(mean.values()))[:, None]
    )
    fit = linprog(shape.mean(0), A_ub=-shape, b_ub=-np.ones(len(shape)), bounds=(0, None)).x
    return mean, fit, float(np.median(shape @ fit))


@_check("theorem", "rate")
def _rate(table: Table) -> Judged:
    mean, (a, b, c), slack = bound(table)
    etas = sorted({eta for eta, _ in mean})
    series = {
        eta: [value for (one, _), value in sorted(mean.items()) if one == eta] for eta in etas
    }
    falls = all(values[-1] < values[0] for values in series.values())
    status = NOT if not falls else HOLDS if slack <= 3 else PARTLY
    said = ", ".join(
        f"{values[0]:.2g} to {values[-1]:.2g} (η={eta:g})" for eta, values in series.items()
    )
    return (
        status,
        (
            f"AFIND+: from few rounds to all the mean goes from {said}. The tightest bound of that"
            f" shape, {a:.2g}/(ηT) + {b:.2g}η + {c:.2g}η², is {slack:.1f} times what is measured"
            " (median; up to 3 times is a bound)."
        ),
    )


@_check("theorem", "consensus")
def _consensus(table: Table) -> Judged:
    points = [
        (float(r.row[2:]), float(np.mean([v for _, v in r.series["consensus"]])))
        for r in table.records
        if r.row.startswith("η=") and r.column == AFIND and "consensus" in r.series
    ]
    if len({eta for eta, _ in points}) < 2:
        raise LookupError("too few points")
    eta, distance = np.log(np.array(points).clip(1e-30)).T
    slope = float(np.polyfit(eta, distance, 1)[0])
    status = HOLDS if 1.5 <= slope <= 2.5 else PARTLY if slope > 0.5 else NOT
    return (
        status,
        (
            f"Mean squared distance to the mean model grows like η to the power of {slope:.2f} (1.5"
            " to 2.5 is square, more than 0.5 is in part)."
        ),
    )


@_check("coreset", "closer")
def _closer(table: Table) -> Judged:
    closer: dict[str, Difference] = {}
    for p, c in _cells(table):
        for row in table.experiment.rows:
            runs = [[ratio for _, ratio in error_ratio(r)] for r in table.of(p, row, c).values()]
            saved = {
                at: 100 * (1 - float(np.mean(ratios))) for at, ratios in enumerate(runs) if ratios
            }
            if (by := paired(saved, dict.fromkeys(saved, 0.0))) is not None:
                closer[f"{row}, {c}"] = by
    status, _ = weigh(_all(d for name, d in closer.items() if name.startswith(f"{AFIND},")))
    said = "; ".join(f"{name} {d} %" for name, d in closer.items())
    return (
        status,
        (
            "By how much the gradients of the chosen are closer than those of all, in squared"
            f" distance: {said}."
        ),
    )


def error_ratio(record: Record) -> list[tuple[float, float]]:
    """Round, and gradient error of the chosen over that of all in reach."""
    everyone = {point[0]: point[1] for point in record.series.get("all_error", [])}
    chosen = record.series.get("coreset_error", [])
    return [(t, value / everyone[t]) for t, value in chosen if everyone.get(t)]


CALM = "all there"


@_check("dynamic", "survives")
def _survives(table: Table) -> Judged:
    columns = _all(c for _, c in _cells(table))
    lost = {c: table.difference(("", AFIND, c), ("", AFIND, CALM)) for c in columns if c != CALM}
    status, _ = weigh(list(lost.values()), above=-2)
    said = "; ".join(f"{c} {d}" for c, d in lost.items())
    ahead = weigh([table.difference(("", AFIND, c), ("", "Gossip", c)) for c in columns])[1]
    return (
        status,
        (
            f"AFIND+ minus the same with everyone there, where 2 points are allowed: {said}. AFIND+"
            f" minus Gossip: {ahead}"
        ),
    )


@_check("attack", "within-two")
def _within_two(table: Table) -> Judged:
    sure, likely, seeds = [], [], 0
    for row in _judged(table):
        entries = [
            e
            for p, c in _cells(table)
            if (e := table.entry(p, row, c)) is not None and e.difference is not None
        ]
        if not entries or max(e.taken for e in entries) <= 0.5:
            continue  # who takes nobody cannot be harmed
        seeds = max(seeds, *(e.seeds for e in entries))
        if all((e.difference or 0.0) >= -2 for e in entries):
            likely.append(row)
            if all(
                e.interval is not None and (e.difference or 0.0) - e.interval >= -2 for e in entries
            ):
                sure.append(row)
    if not seeds:
        raise LookupError("attack")
    status = HOLDS if sure else PARTLY if likely else NOT
    return (
        status if seeds > 1 else OPEN,
        (
            "Within 2 points for every attack while taking from others:"
            f" {', '.join(likely) or 'no row'}; with the whole interval:"
            f" {', '.join(sure) or 'no row'}."
        ),
    )


@_check("cost", "cheaper")
def _cheaper(table: Table) -> Judged:
    said, good, clear, total = [], 0, 0, 0
    for p, c in _cells(table):
        entries = [e for row in _judged(table) if (e := table.entry(p, row, c)) is not None]
        ours = [e for e in entries if e.row.startswith(AFIND)]
        for rival in (e for e in entries if not e.row.startswith((AFIND, "Local"))):
            total += 1
            best = max(
                (e for e in ours if e.megabytes <= 1.05 * rival.megabytes),
                key=lambda e: e.accuracy,
                default=None,
            )
            if best is None:
                said.append(f"{c} {rival.row}: no AFIND+ so cheap")
                continue
            apart = table.difference((p, best.row, c), (p, rival.row, c))
            if apart is None:
                raise LookupError(rival.row)
            good, clear = good + (apart.mean >= 0), clear + (apart.sign < 0)
            said.append(f"{c} {rival.row}: {best.row} {apart}")
    if not total:
        raise LookupError("cost")
    status = HOLDS if good == total and not clear else PARTLY if good * 2 >= total else NOT
    return (
        status,
        (
            f"So on average for {good} of {total} rivals (the best AFIND+ of at most 5 % more"
            f" bytes, minus the rival; the best of several flatters): {'; '.join(said)}."
        ),
    )
