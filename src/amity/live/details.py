"""One round of a network, and one peer through all rounds: read from disk when somebody asks."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amity.lines import about, of_rounds, parsed
from amity.live.measure import as_json, harmed, number, received, sent, spread
from amity.live.plan import WorldSeen, as_data, binned, bins_of
from amity.live.watched import Watched
from amity.live.words import sentence_of
from amity.metric import Metric
from amity.records import PeerRecord

MOST_PEERS = 2000
"""Networks with more peers are shown in bins."""
BINS = 160
PLACED = 300
"""Beyond so many peers the drawing is laid out here."""
HISTORY = 400
"""Rounds of one peer that are shown: the newest."""
KEPT = 16
"""Rounds that are kept as they were told."""
KNOWN = frozenset(field.name for field in dataclasses.fields(PeerRecord))
"""Fields of a record; all others are the strategy's notes."""


def lines_of(cell: Watched, name: str, round: int) -> Iterator[dict[str, Any]]:
    """The records of a round in all directories of a network."""
    for track in cell.tracks.values():
        for line in of_rounds(track.path / name, round, round + 1):
            if (found := parsed(line)) is not None:
                yield found


def round_of(cell: Watched, round: int) -> dict[str, Any]:
    """Who took how much from whom, and how each peer was doing. Of a round that was done twice, the
    second counts."""
    metric = cell.metric
    records = {str(line.get("peer")): line for line in lines_of(cell, "metrics.jsonl", round)}
    rows = {str(line.get("peer")): line.get("row") for line in lines_of(cell, "edges.jsonl", round)}
    named = {str(j) for row in rows.values() if isinstance(row, dict) for j in row} - {"start"}
    world = WorldSeen.read(cell.found.path)
    everyone = records.keys() | rows.keys() | named | cell.states.keys() | world.labels.keys()
    peers = world.order(sorted(everyone))
    at = {name: i for i, name in enumerate(peers)}
    edges = list(_edges(rows, at))
    found = {"cell": cell.found.id, "round": round, "count": len(peers), **as_data(world, peers)}
    if len(peers) > MOST_PEERS:
        return found | _in_bins(peers, records, edges, metric, world)
    found |= {"peers": peers, "edges": edges, **_columns(peers, records, metric)}
    return found | ({"places": world.places(peers)} if len(peers) > PLACED else {})


def _edges(rows: Mapping[str, Any], at: Mapping[str, int]) -> Iterator[tuple[int, int, float]]:
    for taker, row in rows.items():
        for giver, weight in row.items() if isinstance(row, dict) else ():
            value = number(weight)
            if value and giver != taker and giver in at and taker in at:
                yield at[taker], at[giver], float(f"{value:.5g}")


def _columns(
    peers: Sequence[str], records: Mapping[str, Mapping[str, Any]], metric: Metric
) -> dict[str, list[Any]]:
    lines = [records.get(name, {}) for name in peers]
    return {
        "value": [number(line.get(metric.field)) for line in lines],
        "alone": [number(line.get(f"{metric.field}_alone")) for line in lines],
        "harmed": [harmed(line, metric) for line in lines],
        "self": [number(line.get("self_weight")) for line in lines],
        "taken": [line.get("taken") for line in lines],
        "available": [line.get("available") for line in lines],
        "missing": [line.get("missing") for line in lines],
        "attacker": [bool(line.get("attacker")) for line in lines],
        "epsilon": [number(line.get("epsilon")) for line in lines],
        "in": [received(line) for line in lines],
        "out": [sent(line) for line in lines],
        "there": [bool(line) for line in lines],
    }


def _in_bins(
    peers: Sequence[str],
    records: Mapping[str, Mapping[str, Any]],
    edges: Sequence[tuple[int, int, float]],
    metric: Metric,
    world: WorldSeen,
) -> dict[str, Any]:
    """A large network: a mean over the peers of each bin."""
    bins = bins_of(peers, BINS)
    matrix, sizes = binned(edges, bins)
    values: list[list[float]] = [[] for _ in sizes]
    bad = [0] * len(sizes)
    for name, bin in zip(peers, bins, strict=True):
        line = records.get(name, {})
        value = number(line.get(metric.field))
        if value is not None and not line.get("attacker"):
            values[bin].append(value)
        bad[bin] += bool(harmed(line, metric))
    firsts = [bins.index(bin) for bin in range(len(sizes))]
    return {
        "bins": sizes,
        "matrix": matrix,
        "first": [peers[at] for at in firsts],
        "colours": [world.colour(peers[at]) for at in firsts],
        "value": [told[0] if (told := spread(found)) else None for found in values],
        "harmed": bad,
    }


class RoundsKept:
    """The rounds that were asked for last, so that many who look at the same cost little."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], tuple[object, bytes]] = {}

    def of(self, cell: Watched, round: int) -> bytes:
        """As JSON; made anew only where something was written since."""
        tracks = [(t.lives, t.latest.get("round", -1) >= round) for t in cell.tracks.values()]
        key, now = (cell.found.id, round), (tracks, all(done for _, done in tracks))
        with self._lock:
            known = self._kept.pop(key, None)
            if known is None or known[0] != now or not now[1]:
                known = (now, as_json(round_of(cell, round)))
            self._kept[key] = known
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return known[1]


# -- one peer --------------------------------------------------------------------------------------


def peer_of(cell: Watched, peer: str) -> dict[str, Any]:
    """Whom a peer took in each round, with what weight and why; what it cost, and its log."""
    records, rows, why = (
        _history(cell, name, peer) for name in ("metrics.jsonl", "edges.jsonl", "why.jsonl")
    )
    metric = cell.metric
    explain = sentence_of(next(iter(cell.found.sources.values())), cell.found.path)
    rounds = [
        {
            "round": t,
            "value": number(line.get(metric.field)),
            "alone": number(line.get(f"{metric.field}_alone")),
            "in": received(line),
            "out": sent(line),
            "epsilon": number(line.get("epsilon")),
            "available": line.get("available"),
            "missing": line.get("missing"),
            "diverged": bool(line.get("diverged")),
            "row": _top(rows.get(t, {}).get("row")),
            "facts": why.get(t, {}).get("facts", {}),
            "notes": (notes := _notes(line)),
            "said": explain(notes),
        }
        for t, line in sorted(records.items())
    ]
    state = cell.states.get(peer)
    world = WorldSeen.read(cell.found.path)
    return {
        "cell": cell.found.id,
        "peer": peer,
        "rounds": rounds,
        "attacker": any(line.get("attacker") for line in records.values()),
        "log": state.log if state is not None else [],
        "labels": list(world.labels.get(peer, ())),
        "group": world.groups.get(peer),
        "classes": list(world.classes),
    }


def _history(cell: Watched, name: str, peer: str) -> dict[int, dict[str, Any]]:
    """Records of one peer by round; of a round that was done twice, the second counts."""
    tracks = [cell.tracks[peer]] if peer in cell.tracks else list(cell.tracks.values())
    found: dict[int, dict[str, Any]] = {}
    for track in tracks:
        for line in about(track.path / name, "peer", peer, HISTORY):
            if isinstance(line.get("round"), int):
                found[line["round"]] = line
    return found


def _top(row: Any, most: int = 30) -> dict[str, float]:
    """The largest weights."""
    weights = {j: w for j, v in row.items() if (w := number(v))} if isinstance(row, dict) else {}
    best = sorted(weights, key=lambda j: (-weights[j], j))[:most]
    return {j: float(f"{weights[j]:.5g}") for j in best}


def _notes(line: Mapping[str, Any]) -> dict[str, float]:
    return {
        key: math.nan if value is None else value
        for key, value in line.items()
        if key not in KNOWN and (value is None or number(value) is not None)
    }
