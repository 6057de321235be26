"""How peers are doing, from what they wrote of themselves, whether they run or not: `amity peer
status`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amity.config import Config, read_toml
from amity.core import PeerId, taken_from
from amity.errors import AmityError, RunDirError
from amity.net.accounts import Privacy, privacy_of
from amity.net.ops.collect import peers_in
from amity.net.ops.reach import Finding
from amity.net.status import read_status
from amity.net.trust.identity import expires
from amity.records import EdgeRecord, PeerRecord
from amity.show.alone import worth_of
from amity.store import locked, read_config, read_records
from amity.tasks import ACCURACY

TAIL = 1 << 22
"""Bytes of a log that are looked at: the newest."""


@dataclass(frozen=True, kw_only=True)
class PeerSeen:
    """One peer, as it stands."""

    name: PeerId
    running: bool
    status: Mapping[str, Any]
    """What it wrote last; empty for one of Amity 0.1.0."""
    metrics: Sequence[PeerRecord]
    took: Mapping[PeerId, float]
    """In its last round."""
    log: Sequence[Mapping[str, Any]]
    """Since its last start."""
    days: float | None
    """Until its certificate ends; None: there is none here."""
    privacy: Privacy | None
    config: Config | None

    @classmethod
    def of(cls, name: PeerId, state: Path) -> PeerSeen:
        """From a state directory."""
        edges = read_records(state / "edges.jsonl", EdgeRecord)
        config = read_config(state) if (state / "config.toml").is_file() else None
        return cls(
            name=name,
            running=locked(state),
            status=read_status(state),
            metrics=read_records(state / "metrics.jsonl", PeerRecord),
            took=taken_from(edges[-1].row, name) if edges else {},
            log=_since_start(state / "audit.jsonl"),
            days=_days(state.parent),
            privacy=None if config is None else privacy_of(state, config),
            config=config,
        )

    def events(self, kind: str) -> Counter[tuple[str, str]]:
        """By peer and reason, how often since the last start."""
        counts: Counter[tuple[str, str]] = Counter()
        for line in self.log:
            if line.get("event") == kind:
                key = (str(line.get("peer", "")), str(line.get("why", "")))
                counts[key] += int(line.get("count", 1))
        return counts


def _since_start(path: Path) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            lines = stream.read().split(b"\n")[:-1]
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the first one may be cut
        if event.get("event") == "start":
            found.clear()
        found.append(event)
    return found


def _days(folder: Path) -> float | None:
    try:
        who = read_toml(folder / "peer.toml").get("peer", {})
        end = expires(folder / str(who.get("identity", "identity")) / "cert.pem")
    except AmityError:
        return None
    return (end - datetime.now(UTC)).total_seconds() / 86400


def peers_seen(folders: Sequence[Path]) -> list[PeerSeen]:
    """All peers of these folders: peers' own, a swarm's, or folders of several peers."""
    found: list[PeerSeen] = []
    for folder in folders:
        states = peers_in(folder)
        if not states:
            raise RunDirError(
                f"{folder}: is no peer's folder (no peer.toml), and holds none; `amity peer init"
                f" {folder} name=...` makes one"
            )
        found += [PeerSeen.of(name, state) for name, state in sorted(states.items())]
    return found


# -- in words --------------------------------------------------------------------------------------


def headline(peer: PeerSeen) -> str:
    """`running, round 12 of 100, accuracy 91.2 %`."""
    state = str(peer.status.get("state", ""))
    if peer.running:
        what = "waits" if state == "waits" else "running"
    else:
        what = {"done": "done", "failed": "failed"}.get(state, "not running")
    done = peer.metrics[-1].round + 1 if peer.metrics else 0
    scores = [value for r in peer.metrics if (value := r.lead()) is not None]
    metric = ACCURACY if peer.config is None else peer.config.metric
    accuracy = f", {metric.called} {metric.text(scores[-1])}" if scores else ""
    rounds = "?" if peer.config is None else peer.config.rounds
    why = f" ({peer.status['why']})" if what in ("waits", "failed") and peer.status["why"] else ""
    return f"{what}{why}, {done} of {rounds} rounds done{accuracy}"


def details(peer: PeerSeen) -> Iterator[tuple[str, str]]:
    """What else there is to say, under short words."""
    status = peer.status
    if peer.running and status:
        yield "present", _names(status["present"]) or "nobody"
        away = [*status["away"], *(f"{j} (linked, but silent)" for j in status["mute"])]
        if away:
            yield "away", _names(away)
    late = peer.events("late")
    if late:
        yield "late", "; ".join(f"{j}: {why}, {n} x" for (j, why), n in sorted(late.items()))
    for j, words in _costs(status):
        yield "costs time", f"{j}: {words}"
    yield from _refused(peer)
    if peer.metrics:
        took = ", ".join(f"{j} {weight:.2f}" for j, weight in sorted(peer.took.items()))
        yield "took from", f"{took or 'nobody'} (round {peer.metrics[-1].round})"
    yield "gain", _gain(peer)
    if peer.days is not None:
        more = f"valid for {peer.days:.0f} more days"
        yield "certificate", more if peer.days > 0 else f"ended {-peer.days:.0f} days ago: renew it"
    if peer.privacy is not None:
        yield "privacy", peer.privacy.statement
    if peer.config is not None:
        for at, before in peer.config.extended:
            yield "extended", f"after {at} rounds; until then {before} were planned"
        for change in peer.config.changes:
            yield "planned", str(change)


def _costs(status: Mapping[str, Any]) -> Iterator[tuple[PeerId, str]]:
    """Who has cost this peer time, and whether it is still waited for."""
    for j, (standing, seconds) in sorted(status.get("costs", {}).items()):
        waited = "is waited for" if standing > 0 else "is not waited for, but used when it comes"
        yield j, f"{seconds:.1f} s lost so far; {waited}"


def _refused(peer: PeerSeen) -> Iterator[tuple[str, str]]:
    for j, words in sorted(peer.status.get("differs", {}).items()):
        yield "refused", f"{j}: {words}"
    for j, words in sorted(peer.status.get("soon", {}).items()):
        yield "later", f"{j} will be refused: {words}"
    for (j, why), count in sorted(peer.events("refused").items()):
        if j not in peer.status.get("differs", {}):
            yield "refused", f"{j or 'no member'}: {why}, {count} x"


def _gain(peer: PeerSeen) -> str:
    metric = ACCURACY if peer.config is None else peer.config.metric
    worth = worth_of(peer.metrics, metric).get(peer.name)
    unknown = "not known; eval.shadow=1 under [run] trains a shadow that learns from nobody"
    return unknown if worth is None else str(worth)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def findings(state: Path) -> Iterator[Finding]:
    """What a running peer says of itself, for `amity peer check`."""
    status = read_status(state)
    if not status:
        return
    for j in status["present"]:
        yield Finding(f"with {j}", True, "present, and learns the same")
    for j, words in sorted(status["differs"].items()):
        yield Finding(f"with {j}", False, f"cannot learn with this peer: {words}")
    for j, words in sorted(status["soon"].items()):
        yield Finding(f"with {j}", False, f"will be refused: {words}")
    for j, words in _costs(status):
        yield Finding(f"with {j}", True, f"costs time: {j} {words}")
    for j in status["mute"]:
        words = "is linked, but does not answer; is this peer on its roster, with this key?"
        yield Finding(f"with {j}", False, words)
    if status["state"] == "waits":
        words = f"round {status['round']} waits {status['why']} (net.least={status['least']})"
        yield Finding("company", False, words)
    else:
        yield Finding("company", True, f"in round {status['round']} of {status['rounds']}")
