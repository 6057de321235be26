"""One network that is watched, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amity.live.finding import Subject, toml
from amity.live.measure import as_told, leading
from amity.live.states import PeerState
from amity.live.tracks import RecordTrack
from amity.metric import ACCURACY, Metric


@dataclass
class Watched:
    """Found on the disk, and read on."""

    found: Subject
    tracks: dict[str, RecordTrack]
    states: dict[str, PeerState]
    about: dict[str, Any] = field(default_factory=dict)
    """What it is: told to everyone who comes, and again when it changes."""
    state: dict[str, Any] = field(default_factory=dict)
    """How it is doing: the same."""
    version: int = 0
    due: float = 0.0
    """When to look at it again."""
    metric: Metric = ACCURACY
    """What its peers are judged by."""
    _stamp: tuple[float, int] = (-1.0, -1)

    @classmethod
    def of(cls, found: Subject) -> Watched:
        tracks = {peer: RecordTrack(found, peer, path) for peer, path in found.sources.items()}
        states = {peer: PeerState(path) for peer, path in found.states.items()}
        return cls(found, tracks, states)

    @property
    def rests(self) -> bool:
        """Whether nothing is going on there."""
        tracks = self.state.get("tracks", {}).values()
        return not any(one["state"] in ("running", "waits") for one in tracks)

    def describe(self) -> dict[str, Any]:
        """From config.toml, read again when it has changed."""
        path = self.found.path
        path = path if (path / "config.toml").is_file() else next(iter(self.found.sources.values()))
        try:
            stat = (path / "config.toml").stat()
            stamp = (stat.st_mtime, stat.st_size)
        except OSError:
            stamp = (0.0, 0)
        if stamp != self._stamp or not self.about:
            self._stamp = stamp
            config = toml(path / "config.toml")
            self.metric = leading(config)
            self.about = _about(self.found, config, self.tracks, self.metric)
            for track in self.tracks.values():
                track.metric = self.metric
        return self.about


def _about(
    found: Subject, config: Mapping[str, Any], tracks: Mapping[str, RecordTrack], metric: Metric
) -> dict[str, Any]:
    strategy = config.get("strategy", {})
    return {
        "id": found.id,
        "label": found.label,
        "kind": found.kind,
        "path": str(found.path),
        "group": str(found.group) if found.group else "",
        "seed": config.get("seed"),
        "peers": len(found.states) or config.get("peers", 0),
        "strategy": strategy.get("name", "") if isinstance(strategy, dict) else str(strategy),
        "data": config.get("data", {}).get("name", ""),
        "metric": as_told(metric),
        "tracks": {track.id: peer for peer, track in tracks.items()},
    }
