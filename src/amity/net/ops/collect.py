"""From several peers' directories to one run: what a report needs, put together from what each peer
wrote of itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from amity.config import Config, read_toml
from amity.core import PeerId, Row
from amity.errors import RunDirError
from amity.facts import Ledger
from amity.files import dump, write_atomically
from amity.net.accounts import Privacy, privacy_of
from amity.records import EdgeRecord, PeerRecord, Record, RoundRecord, WhyRecord
from amity.round.build import deal_out, load_data
from amity.round.quality import Quality, choice_quality
from amity.round.recording import count_diverged, means
from amity.round.truth import Friendship
from amity.store import read_lines, read_records
from amity.topology import Network, peer_names


def peers_in(folder: Path) -> dict[PeerId, Path]:
    """State directories by name: of this folder if it is a peer's, of those in it, or of those
    below peers/."""
    for base in [folder], folder.glob("*"), (folder / "peers").glob("*"):
        found = dict(part for path in sorted(base) for part in _peer(path))
        if found:
            return found
    return {}


def _peer(path: Path) -> list[tuple[PeerId, Path]]:
    """A peer's folder, or only the state directory of one (copied from its machine)."""
    if (path / "peer.toml").is_file():
        who = read_toml(path / "peer.toml").get("peer", {})
        return [(str(who.get("name", path.name)), path / str(who.get("state", "state")))]
    if (path / "audit.jsonl").is_file():
        names = [record.peer for record in read_records(path / "metrics.jsonl", PeerRecord)[:1]]
        return [(names[0] if names else path.name, path)]
    return []


def records_of(state: Path) -> list[PeerRecord]:
    """A peer's records. What it moved and computed after the last of them stands in its log, since
    a peer goes on answering; here it is part of the last."""
    records = read_records(state / "metrics.jsonl", PeerRecord)
    if records:
        last = records[-1]
        rest = _after_records(state).as_dict()
        sums = {key: getattr(last, key) + value for key, value in rest.items()}
        records[-1] = replace(last, **sums)
    return records


def _after_records(state: Path) -> Ledger:
    """Of all lives of a peer that did not end with a kill."""
    stops = [line for line in read_lines(state / "audit.jsonl") if line["event"] == "stop"]
    return Ledger(
        **{key: sum(int(line.get(key, 0)) for line in stops) for key in Ledger().as_dict()}
    )


def merge(out: Path, config: Config) -> None:
    """Write metrics, edges, rounds and timings of a swarm from those of its peers. Rounds that a
    peer missed are missing."""
    states = peers_in(out)
    metrics = _in_order(records_of(at) for at in states.values())
    edges = _in_order(read_records(at / "edges.jsonl", EdgeRecord) for at in states.values())
    why = _in_order(read_records(at / "why.jsonl", WhyRecord) for at in states.values())
    if not metrics:
        raise RunDirError(f"{out}: no peer has finished a round; its peer.log says why")
    timings = [
        line | {"peer": peer}
        for peer, at in states.items()
        for line in read_lines(at / "timings.jsonl")
    ]
    rounds = _rounds(config, metrics, edges)
    spent = [found for state in states.values() if (found := privacy_of(state, config)) is not None]
    if spent:  # a peer goes on answering after its last round
        rounds[-1] = _with_privacy(rounds[-1], spent, bool(config.privacy.instance.sigma))
    records: tuple[tuple[str, Sequence[Record]], ...] = (
        ("metrics.jsonl", metrics),
        ("edges.jsonl", edges),
        ("why.jsonl", why),
        ("rounds.jsonl", rounds),
    )
    for name, lines in records:
        write_atomically(out / name, b"".join(dump(record.line()) for record in lines))
    write_atomically(out / "timings.jsonl", b"".join(map(dump, timings)))


OfPeer = TypeVar("OfPeer", PeerRecord, EdgeRecord, WhyRecord)


def _in_order(found: Iterable[list[OfPeer]]) -> list[OfPeer]:
    """All peers' records, by round and name."""
    return sorted((r for part in found for r in part), key=lambda r: (r.round, r.peer))


def _rounds(
    config: Config, metrics: Sequence[PeerRecord], edges: Sequence[EdgeRecord]
) -> list[RoundRecord]:
    """A record of the whole network for every round that anybody finished."""
    names = peer_names(config.peers)
    data = deal_out(config, load_data(config), names)
    friendship = Friendship.of(data, config.eval.friend)
    network = Network(config.topology.instance, names, config.seed, config.topology.common.redraw)
    alone: dict[PeerId, Row] = {name: {name: 1.0} for name in names}
    rounds = []
    for t, group in itertools.groupby(metrics, key=lambda r: r.round):
        rows = alone | {edge.peer: edge.row for edge in edges if edge.round == t}
        unknown: dict[PeerId, dict[PeerId, float]] = {name: {} for name in names}
        quality = choice_quality(friendship, rows, unknown, network.neighbours(t))
        quality.pop("auc", None)  # peers do not publish how they rank others
        rounds.append(_round(t, list(group), quality))
    return rounds


def _round(t: int, here: Sequence[PeerRecord], quality: Quality) -> RoundRecord:
    excluded = [r.excluded for r in here if r.excluded is not None]
    return RoundRecord(
        round=t,
        reported=len(here),
        **means(here),
        diverged=count_diverged(here),
        excluded=tuple(sorted(set().union(*excluded))) if excluded else None,
        epsilon=max((r.epsilon for r in here if r.epsilon is not None), default=None),
        **quality,
    )


def _with_privacy(last: RoundRecord, spent: Sequence[Privacy], noised: bool) -> RoundRecord:
    """What all peers have spent in their whole lives."""
    excluded = tuple(sorted({name for one in spent for name in one.excluded}))
    epsilon = max(one.epsilon for one in spent) if noised else last.epsilon
    return replace(last, excluded=excluded, epsilon=epsilon)
