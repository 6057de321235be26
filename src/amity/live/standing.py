"""The table of a comparison as it grows: means over seeds, intervals, and who leads.

Rows are compared at the newest round that all of them have reached, over the seeds that have
reached it: whoever is further does not look better for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amity.live.measure import spread
from amity.live.watched import Watched
from amity.live.words import Role, role_of

if TYPE_CHECKING:
    from amity.differences import Difference


@dataclass(frozen=True)
class Row:
    """One strategy with its seeds."""

    label: str
    kind: Role
    by_seed: Mapping[int, Mapping[int, float]]
    """The leading metric by seed and round."""
    latest: Sequence[Mapping[str, Any]]
    planned: int

    def at(self, round: int) -> dict[int, float]:
        """By seed: the newest value up to a round, of those that have reached it."""
        there = {s: v for s, v in self.by_seed.items() if v and max(v) >= round}
        return {s: v[max(t for t in v if t <= round)] for s, v in there.items()}

    @property
    def reached(self) -> int:
        """The newest round that any seed has reached; -1: none."""
        return max((max(v) for v in self.by_seed.values() if v), default=-1)


def rows_of(cells: Iterable[Watched]) -> list[Row]:
    rows: dict[str, list[Watched]] = {}
    for cell in cells:
        rows.setdefault(cell.found.label, []).append(cell)
    return [_row(label, found) for label, found in rows.items()]


def _row(label: str, cells: Sequence[Watched]) -> Row:
    tracks = [(cell, track) for cell in cells for track in cell.tracks.values()]
    states = [state for cell in cells for state in cell.state.get("tracks", {}).values()]
    return Row(
        label=label,
        kind=role_of(str(next((c.about["strategy"] for c in cells if c.about), ""))),
        by_seed={_seed(cell, at): dict(track.values) for at, (cell, track) in enumerate(tracks)},
        latest=[track.latest for _, track in tracks if track.latest],
        planned=max((int(state["rounds"]) for state in states), default=0),
    )


def _seed(cell: Watched, at: int) -> int:
    seed = cell.about.get("seed")
    return seed if isinstance(seed, int) else -1 - at


def table_of(cells: Sequence[Watched]) -> dict[str, Any]:
    """Of one group of runs."""
    from amity.differences import leads  # late: who watches one run needs no numpy

    rows, sign = rows_of(cells), cells[0].metric.sign
    fair = [row for row in rows if row.kind != "reference"] or rows
    begun = [row for row in fair if row.reached >= 0]
    common = min((row.reached for row in begun), default=-1)
    scores = {row.label: found for row in begun if (found := row.at(common))}
    means = {label: sign * sum(v.values()) / len(v) for label, v in scores.items()}
    top = max(means, key=means.__getitem__) if means else ""
    signed = {k: {s: sign * v for s, v in one.items()} for k, one in scores.items()}
    seeds = min((len(one) for one in signed.values()), default=0)
    sure = len(signed) > 1 and len(signed) == len(fair) and seeds > 1 and leads(top, signed)
    alone = next((row.at(common) for row in rows if row.kind == "alone"), {})
    best = scores.get(top, {})
    return {
        "round": common,
        "top": top,
        "leads": sure,
        "rows": [_line(row, common, best if row.label != top else {}, alone) for row in rows],
    }


def _line(
    row: Row, common: int, best: Mapping[int, float], alone: Mapping[int, float]
) -> dict[str, Any]:
    from amity.differences import paired

    now = row.at(common) if common >= 0 else {}
    values = spread(list(now.values()))
    done = [max(v, default=-1) + 1 for v in row.by_seed.values()]
    harmed = [line["harmed"] / line["peers"] for line in row.latest if line.get("harmed")]
    known = [line for line in row.latest if "harmed" in line]
    moved = [float(line["in"]) for line in row.latest]
    return {
        "label": row.label,
        "reference": row.kind == "reference",
        "alone": row.kind == "alone",
        "seeds": len(row.by_seed),
        "begun": sum(bool(v) for v in row.by_seed.values()),
        "compared": len(now),
        "done": done,
        "rounds": row.planned,
        "value": values[0] if values else None,
        "by_seed": now,
        "vs_top": _gap(paired(now, best)),
        "vs_local": None if row.kind == "alone" else _gap(paired(now, alone)),
        "harmed": sum(harmed) / len(known) if known else None,
        "in": sum(moved) / len(moved) if moved else None,
    }


def _gap(gap: Difference | None) -> dict[str, Any] | None:
    return None if gap is None else {"mean": gap.mean, "half": gap.half, "seeds": gap.seeds}
