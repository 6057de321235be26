"""From several peers' directories to one run: what a report needs, put together from what each peer
wrote of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amity.config import Config, read_toml
from amity.core import PeerId
from amity.data import split
from amity.errors import RunDirError
from amity.files import write_atomically
from amity.lab.store import dump, read_lines
from amity.net.accounts import privacy_of
from amity.round.build import load_data
from amity.round.quality import choice_quality
from amity.topology import Network, peer_names

FILES = ("metrics.jsonl", "edges.jsonl", "timings.jsonl")


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
        names = [str(record["peer"]) for record in read_lines(path / "metrics.jsonl")[:1]]
        return [(names[0] if names else path.name, path)]
    return []


def merge(out: Path, config: Config) -> None:
    """Write metrics, edges, rounds and timings of a swarm from those of its peers. Rounds that a
    peer missed are missing."""
    states = peers_in(out)
    lines = {
        name: [r | {"peer": peer} for peer, at in states.items() for r in read_lines(at / name)]
        for name in FILES
    }
    metrics, edges = (
        sorted(lines[name], key=lambda r: (r["round"], r["peer"])) for name in FILES[:2]
    )
    if not metrics:
        raise RunDirError(f"{out}: no peer has finished a round; its peer.log says why")
    names = peer_names(config.peers)
    labels = {
        name: data.labels
        for name, data in split(
            load_data(config), config.partition.instance, names, config.seed
        ).items()
    }
    network = Network(config.topology.instance, names, config.seed, config.topology.common.redraw)
    rounds = []
    for t in sorted({r["round"] for r in metrics}):
        rows = {name: {name: 1.0} for name in names} | {
            r["peer"]: r["row"] for r in edges if r["round"] == t
        }
        quality = choice_quality(
            labels, config.eval.friend, rows, {name: {} for name in names}, network.neighbours(t)
        )
        quality.pop("auc", None)  # peers do not publish how they rank others
        here = [r for r in metrics if r["round"] == t]
        scores = [r["accuracy"] for r in here if "accuracy" in r]
        record: dict[str, Any] = {"round": t, **quality, "reported": len(here)}
        if any("excluded" in r for r in here):
            record["excluded"] = sorted({name for r in here for name in r.get("excluded", ())})
        if any("epsilon" in r for r in here):
            record["epsilon"] = max(r["epsilon"] for r in here if "epsilon" in r)
        rounds.append(record | ({"accuracy": sum(scores) / len(scores)} if scores else {}))
    spent = [found for state in states.values() if (found := privacy_of(state, config)) is not None]
    if spent and rounds:  # a peer goes on answering after its last round
        rounds[-1] |= {"excluded": sorted({name for one in spent for name in one.excluded})}
        rounds[-1] |= (
            {"epsilon": max(one.epsilon for one in spent)} if config.privacy.instance.sigma else {}
        )
    for name, records in (
        *zip(FILES, (metrics, edges, lines["timings.jsonl"]), strict=True),
        ("rounds.jsonl", rounds),
    ):
        write_atomically(out / name, b"".join(dump(record) for record in records))
