"""A verdict per claim, from paired differences: it may say "holds" only where intervals say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from amity.reproduce.paper import Claim

if TYPE_CHECKING:
    from amity.reproduce.record import Record
    from amity.reproduce.table import Difference, Table

HOLDS, PARTLY, NOT = "holds here", "holds in part", "does not hold here"
OPEN = "cannot be told at this size"
MISSING = "not run"
AFIND = "AFIND+"
RIVALS = ("Gossip", "PENS", "FedeRiCo")


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
        out.append(Verdict(claim, status, evidence))
    return out


# -- what verdicts are made of -----------------------------------------------------------------------------------------


def weigh(found: Sequence[Difference | None]) -> Judged:
    """Whether these differences are above 0: all, some, or none of them by more than their intervals."""
    there = [d for d in found if d is not None]
    if not there:
        raise LookupError("no difference")
    plus, minus = sum(d.sign > 0 for d in there), sum(d.sign < 0 for d in there)
    means = [d.mean for d in there]
    evidence = (
        f"Of {len(there)} differences {plus} are above 0 and {minus} below by more than their 95 % intervals; they are "
        f"{min(means):+.1f} to {max(means):+.1f} points, mean {np.mean(means):+.1f}."
    )
    if all(d.half is None for d in there):
        return OPEN, f"One seed only. {evidence}"
    if plus == len(there):
        return HOLDS, evidence
    if plus > minus:
        return PARTLY, evidence
    return (NOT if minus else OPEN), evidence


def _cells(table: Table) -> list[tuple[str, str]]:
    """Panels and columns that were run."""
    have = {(record.panel, record.column) for record in table.records}
    return [(p, c) for p in table.experiment.panels for c in table.experiment.columns if (p, c) in have]


def _by_panel(table: Table, one: Callable[[str], Judged]) -> Judged:
    """Judged panel by panel; the whole holds if every panel does."""
    panels = dict.fromkeys(panel for panel, _ in _cells(table))
    parts = {panel: one(panel) for panel in panels}
    if len(parts) == 1:
        return next(iter(parts.values()))
    kinds = [status for status, _ in parts.values()]
    status = kinds[0] if len(set(kinds)) == 1 else PARTLY if {HOLDS, PARTLY} & set(kinds) else NOT if NOT in kinds else OPEN
    return status, " ".join(f"{panel}: {status}. {evidence}" for panel, (status, evidence) in parts.items())


def _rows(table: Table, wanted: Sequence[str]) -> list[str]:
    return [row for row in wanted if row in table.experiment.rows]


# -- the claims --------------------------------------------------------------------------------------------------------


@_check("table1", "best-everywhere")
def _best_everywhere(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        closest = []
        for p, column in _cells(table):
            if p == panel:
                rivals = _rows(table, ("Local", "FedAvg", *RIVALS))
                found = [d for r in rivals if (d := table.difference((p, AFIND, column), (p, r, column))) is not None]
                closest.append(min(found, key=lambda d: d.mean))
        status, evidence = weigh(closest)
        return status, f"To the best rival of each column: {evidence}"

    return _by_panel(table, one)


@_check("table1", "margin")
def _margin(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        margins = []
        for p, column in _cells(table):
            if p == panel:
                found = [table.difference((p, AFIND, column), (p, r, column)) for r in _rows(table, ("PENS", "FedeRiCo"))]
                margins.append(min(d.mean for d in found if d is not None))
        reached = sum(margin >= 2 for margin in margins)
        status = HOLDS if reached == len(margins) else PARTLY if reached else NOT
        return status, (
            f"Two points or more ahead of the better of PENS and FedeRiCo in {reached} of {len(margins)} columns "
            f"({min(margins):+.1f} to {max(margins):+.1f} points)."
        )

    return _by_panel(table, one)


@_check("table1", "equal-bytes")
def _equal_bytes(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        said, good, clear = [], 0, 0
        columns = [column for p, column in _cells(table) if p == panel]
        for column in columns:
            found = {
                r: d
                for r in _rows(table, RIVALS)
                if (d := table.difference((panel, AFIND, column), (panel, r, column), equal_bytes=True)) is not None
            }
            good += all(d.mean >= 0 for d in found.values())
            clear += any(d.sign < 0 for d in found.values())
            said.append(f"{column}: " + ", ".join(f"{r} {d}" for r, d in found.items()))
        status = HOLDS if good == len(columns) else PARTLY if good * 2 >= len(columns) else NOT
        return status, (
            f"At least equal to all three in {good} of {len(columns)} columns, behind one of them by more than its interval "
            f"in {clear} (AFIND+ minus {'; '.join(said)})."
        )

    return _by_panel(table, one)


@_check("table1", "friends")
def _friends(table: Table) -> Judged:
    def one(panel: str) -> Judged:
        ratios = []
        for p, column in _cells(table):
            entry = table.entry(p, AFIND, column) if p == panel else None
            if entry is not None and entry.precision is not None and entry.base_rate:
                ratios.append((entry.precision / entry.base_rate, column, entry.precision, entry.base_rate))
        twice = sum(ratio >= 2 for ratio, *_ in ratios)
        low = min(ratio for ratio, *_ in ratios)
        status = HOLDS if twice == len(ratios) else PARTLY if low > 1 else NOT
        said = "; ".join(f"{c} {100 * p:.0f} % of {100 * b:.0f} %" for _, c, p, b in ratios)
        return status, f"Friends among those taken, of friends in reach: {said}. At least twice in {twice} of {len(ratios)}."

    return _by_panel(table, one)


@_check("ablation", "each-part-helps")
def _each_part(table: Table) -> Judged:
    steps = (("Gossip", "i"), ("i", "i+ii"), ("i+ii", "i+ii+iii"))
    parts = {}
    for below, above in steps:
        parts[above] = weigh([table.difference((p, above, c), (p, below, c)) for p, c in _cells(table)])
    kinds = {status for status, _ in parts.values()}
    status = HOLDS if kinds == {HOLDS} else PARTLY if {HOLDS, PARTLY} & kinds else NOT if NOT in kinds else OPEN
    return status, " ".join(f"{above} over {below}: {parts[above][0]}. {parts[above][1]}" for below, above in steps)


def _area(record: Record) -> float:
    """Mean accuracy over the measured rounds: higher is sooner."""
    return 100 * float(np.mean([point[2] for point in record.curve]))


def _areas(table: Table, panel: str, column: str, ours: str, theirs: str) -> Difference:
    from amity.reproduce.table import Difference, paired

    mine, other = table.of(panel, ours, column), table.of(panel, theirs, column)
    both = sorted(mine.keys() & other.keys())
    if not both:
        raise LookupError(theirs)
    return Difference(*paired([_area(mine[s]) for s in both], [_area(other[s]) for s in both]), len(both))


@_check("convergence", "faster")
def _faster(table: Table) -> Judged:
    found = {r: _areas(table, p, c, AFIND, r) for p, c in _cells(table) for r in _rows(table, RIVALS)}
    status, evidence = weigh(list(found.values()))
    return (
        status,
        f"Mean accuracy over all rounds, AFIND+ minus {', '.join(f'{r} {d}' for r, d in found.items())}. {evidence}",
    )


@_check("convergence", "plus")
def _plus(table: Table) -> Judged:
    return weigh([table.difference((p, AFIND, c), (p, "AFIND", c)) for p, c in _cells(table)])


@_check("pfl", "lifts")
def _lifts(table: Table) -> Judged:
    status, evidence = weigh([table.difference((p, AFIND, c), (p, "Gossip", c)) for p, c in _cells(table)])
    return status, f"AFIND+ minus Gossip: {evidence}"


def _taus(table: Table) -> list[str]:
    have = {record.row for record in table.records}
    return [row for row in table.experiment.rows if row.startswith("τ=") and row in have]


@_check("tau", "fewer")
def _fewer(table: Table) -> Judged:
    rows, falls, said = _taus(table), [], []
    for p, c in _cells(table):
        entries = [table.entry(p, row, c) for row in rows]
        taken = [entry.taken for entry in entries if entry is not None]
        falls.append(all(a >= b for a, b in pairwise(taken)) and taken[0] > taken[-1])
        said.append(f"{c}: {', '.join(f'{n:.1f}' for n in taken)}")
    status = HOLDS if all(falls) else PARTLY if any(falls) else NOT
    return status, f"Neighbours taken, mean over rounds, for {', '.join(rows)}: {'; '.join(said)}."


@_check("tau", "stable")
def _stable(table: Table) -> Judged:
    rows, spans, firsts = _taus(table), [], []
    for p, c in _cells(table):
        entries = [entry for row in rows if (entry := table.entry(p, row, c)) is not None]
        spans.append(max(e.accuracy for e in entries) - min(e.accuracy for e in entries))
        firsts.append(table.difference((p, rows[0], c), (p, rows[-1], c)))
    small = [d for d in firsts if d is not None]
    status = NOT if max(spans) > 4 else HOLDS if max(spans) <= 2 else PARTLY
    said = ", ".join(str(d) for d in small)
    return status, f"From best to worst τ: {max(spans):.1f} points at most. {rows[0]} minus {rows[-1]}: {said} points."


def rounds_to(record: Record, level: float) -> float | None:
    """The first measured round with at least this accuracy."""
    return next((point[0] for point in record.curve if point[2] >= level), None)


def tau_levels(table: Table, panel: str, column: str) -> float:
    """The accuracy to be reached: 98 % of the lowest final accuracy of any τ."""
    entries = [entry for row in _taus(table) if (entry := table.entry(panel, row, column)) is not None]
    return 0.0098 * min(entry.accuracy for entry in entries)


@_check("tau", "sooner")
def _sooner(table: Table) -> Judged:
    rows, said, good = _taus(table), [], []
    for p, c in _cells(table):
        level = tau_levels(table, p, c)
        needed = [[rounds_to(r, level) or r.rounds for r in table.of(p, row, c).values()] for row in rows]
        means = [float(np.mean(n)) for n in needed if n]
        good.append(means[-1] < means[0])
        said.append(f"{c} ({100 * level:.1f} %): {', '.join(f'{n:.0f}' for n in means)}")
    status = HOLDS if all(good) else PARTLY if any(good) else NOT
    return status, f"Rounds to 98 % of the lowest final accuracy, for {', '.join(rows)}: {'; '.join(said)}."


@_check("topology", "grows")
def _grows(table: Table) -> Judged:
    from amity.reproduce.table import Difference, paired

    found = {}
    for column in dict.fromkeys(c for _, c in _cells(table)):
        for rival in _rows(table, RIVALS):
            gaps = []
            for panel in ("full", "half"):
                ours, theirs = table.accuracies(panel, AFIND, column), table.accuracies(panel, rival, column)
                gaps.append({seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()})
            both = sorted(gaps[0].keys() & gaps[1].keys())
            if both:
                found[f"{column}, {rival}"] = Difference(
                    *paired([gaps[1][s] for s in both], [gaps[0][s] for s in both]), len(both)
                )
    status, evidence = weigh(list(found.values()))
    said = "; ".join(f"{key} {d}" for key, d in found.items())
    return status, f"Advantage on half of the graph minus advantage on the full one: {said}. {evidence}"


def _sigmas(table: Table, sigma: str) -> dict[str, Difference]:
    found = {
        f"{p} {c}".strip(): d for p, c in _cells(table) if (d := table.difference((p, sigma, c), (p, "σ=0", c))) is not None
    }
    if not found:
        raise LookupError(sigma)
    return found


@_check("privacy", "mild")
def _mild(table: Table) -> Judged:
    found = _sigmas(table, "σ=5")
    worst = min(found.values(), key=lambda d: d.mean)
    status = HOLDS if worst.mean > -2 else NOT
    return status, "σ=5 minus σ=0: " + "; ".join(f"{key} {d}" for key, d in found.items()) + "."


@_check("privacy", "down-to-gossip")
def _down(table: Table) -> Judged:
    found = _sigmas(table, "σ=50")
    lost = sum(d.mean <= -6 for d in found.values())
    status = HOLDS if lost == len(found) else PARTLY if any(d.sign < 0 for d in found.values()) else NOT
    return status, "σ=50 minus σ=0: " + "; ".join(f"{key} {d}" for key, d in found.items()) + "."


@_check("toy", "friend-helps")
def _friend_helps(table: Table) -> Judged:
    return weigh([table.difference((p, "with 1", c), (p, "alone", c)) for p, c in _cells(table)])


@_check("toy", "stranger-harms")
def _stranger_harms(table: Table) -> Judged:
    from amity.reproduce.table import Difference

    found = [table.difference((p, "with 3", c), (p, "alone", c)) for p, c in _cells(table)]
    status, _ = weigh([Difference(-d.mean, d.half, d.seeds) for d in found if d is not None])
    return status, f"With client 3 minus alone: {', '.join(str(d) for d in found)} points."


def bound(table: Table) -> tuple[dict[tuple[float, int], float], np.ndarray, float]:
    """Mean squared gradient norm over the first T rounds for each η and T, the non-negative (a, b, c) of a/(ηT) + bη + cη²
    that fit it best in relative terms, and the share of its variation (in logarithms) that they explain."""
    points: dict[tuple[float, int], list[float]] = {}
    for record in table.records:
        if record.row.startswith("η="):
            eta, norms = float(record.row[2:]), record.series["gradient_norm2"]
            for upto in range(2, len(norms) + 1):
                points.setdefault((eta, int(norms[upto - 1][0])), []).append(float(np.mean([v for _, v in norms[:upto]])))
    mean = {key: float(np.mean(values)) for key, values in points.items()}
    if len(mean) < 4:
        raise LookupError("too few points")
    y = np.array(list(mean.values()))
    x = np.array([[1 / (eta * t), eta, eta * eta] for eta, t in mean])
    fit, _ = nnls(x / y[:, None], np.ones(len(y)))
    rest = np.log(y) - np.log((x @ fit).clip(1e-30))
    explained = 1 - float((rest**2).sum() / ((np.log(y) - np.log(y).mean()) ** 2).sum())
    return mean, fit, explained


@_check("theorem", "rate")
def _rate(table: Table) -> Judged:
    mean, (a, b, c), explained = bound(table)
    status = HOLDS if explained > 0.9 else PARTLY if explained > 0.6 else NOT
    return status, (
        f"{len(mean)} means over T rounds for {len({eta for eta, _ in mean})} values of η; the best non-negative "
        f"{a:.2g}/(ηT) + {b:.2g}η + {c:.2g}η² explains {100 * explained:.0f} % of their variation (in logarithms)."
    )


@_check("theorem", "consensus")
def _consensus(table: Table) -> Judged:
    points = [
        (float(r.row[2:]), float(np.mean([v for _, v in r.series["consensus"]])))
        for r in table.records
        if r.row.startswith("η=") and "consensus" in r.series
    ]
    if len({eta for eta, _ in points}) < 2:
        raise LookupError("too few points")
    eta, distance = np.log(np.array(points).clip(1e-30)).T
    slope = float(np.polyfit(eta, distance, 1)[0])
    status = HOLDS if 1.5 <= slope <= 2.5 else PARTLY if slope > 0.5 else NOT
    return status, f"Mean squared distance to the mean model grows like η to the power of {slope:.2f}."


@_check("coreset", "closer")
def _closer(table: Table) -> Judged:
    ratios = {}
    for p, c in _cells(table):
        for row in table.experiment.rows:
            found = [ratio for r in table.of(p, row, c).values() for _, ratio in error_ratio(r)]
            if found:
                ratios[f"{row} {c}"] = float(np.mean(found))
    ours = [ratio for name, ratio in ratios.items() if name.startswith(AFIND)]
    status = HOLDS if max(ours) < 0.95 else PARTLY if min(ours) < 0.95 else NOT
    return status, "Squared distance of gradients, the chosen over all: " + "; ".join(
        f"{name} {ratio:.2f}" for name, ratio in ratios.items()
    ) + "."


def error_ratio(record: Record) -> list[tuple[float, float]]:
    """Round, and gradient error of the chosen over that of all in reach."""
    everyone = {point[0]: point[1] for point in record.series.get("all_error", [])}
    chosen = record.series.get("coreset_error", [])
    return [(t, value / everyone[t]) for t, value in chosen if everyone.get(t)]


@_check("dynamic", "survives")
def _survives(table: Table) -> Judged:
    columns = [c for _, c in _cells(table)]
    calm = columns[0]
    lost = {c: table.difference(("", AFIND, c), ("", AFIND, calm)) for c in columns[1:]}
    there = {c: d for c, d in lost.items() if d is not None}
    ahead = [table.difference(("", AFIND, c), ("", "Gossip", c)) for c in columns]
    if not there:
        raise LookupError("dynamic")
    worst = min(d.mean for d in there.values())
    status = HOLDS if worst > -2 else PARTLY if worst > -5 else NOT
    said = "; ".join(f"{c} {d}" for c, d in there.items())
    return status, f"AFIND+ minus the same with everyone there: {said}. Over Gossip: {weigh(ahead)[1]}"


@_check("attack", "within-two")
def _within_two(table: Table) -> Judged:
    best: dict[str, tuple[float, str]] = {}
    everywhere = []
    for row in table.experiment.rows:
        entries = {c: e for p, c in _cells(table) if (e := table.entry(p, row, c)) is not None and e.difference is not None}
        taking = [e for e in entries.values() if e.taken > 0.5]
        if not taking:
            continue  # who takes nobody cannot be harmed
        for column, entry in entries.items():
            best[column] = max(best.get(column, (-np.inf, "")), (entry.difference or 0.0, row))
        if all((e.difference or 0.0) >= -2 for e in entries.values()):
            everywhere.append(row)
    if not best:
        raise LookupError("attack")
    failed = [column for column, (difference, _) in best.items() if difference < -2]
    status = NOT if failed else HOLDS
    said = f"Within 2 points for every attack, while taking from others: {', '.join(everywhere) or 'no single row'}."
    return status, said + (f" None holds against {', '.join(failed)}." if failed else "")


@_check("cost", "cheaper")
def _cheaper(table: Table) -> Judged:
    said, good, total = [], 0, 0
    for p, c in _cells(table):
        entries = [e for row in table.experiment.rows if (e := table.entry(p, row, c)) is not None]
        ours = [e for e in entries if e.row.startswith(AFIND)]
        for rival in (e for e in entries if not e.row.startswith((AFIND, "Local"))):
            total += 1
            cheap = [e for e in ours if e.megabytes <= rival.megabytes]
            best = max(cheap, key=lambda e: e.accuracy, default=None)
            won = best is not None and best.accuracy >= rival.accuracy
            good += won
            if best is not None and not won:
                said.append(f"{c}, {rival.row}: {best.accuracy - rival.accuracy:+.1f}")
            elif best is None:
                said.append(f"{c}, {rival.row}: no AFIND+ so cheap")
    if not total:
        raise LookupError("cost")
    status = HOLDS if good == total else PARTLY if good * 2 >= total else NOT
    return status, f"So for {good} of {total} rivals and settings" + (f"; not for {'; '.join(said)}." if said else ".")
