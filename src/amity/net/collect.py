"""From several peers' directories to one run: what a report needs, put together from what each peer wrote of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amity.config import Config
from amity.core import PeerId
from amity.data import split
from amity.errors import RunDirError
from amity.files import write_atomically
from amity.metrics import choice_quality
from amity.run import load_data
from amity.store import dump, read_lines
from amity.topology import Network, peer_names

FILES = ("metrics.jsonl", "edges.jsonl", "timings.jsonl")


def peers_in(folder: Path) -> dict[PeerId, Path]:
    """State directories by name: of this folder if it is a peer's, of those in it, or of those below peers/."""
    from amity.net.setup import read_setup

    for base in ([folder] if (folder / "peer.toml").is_file() else []), folder.glob("*"), (folder / "peers").glob("*"):
        found = [read_setup(path) for path in sorted(base) if (path / "peer.toml").is_file()]
        if found:
            return {setup.who.name: setup.state for setup in found}
    return {}


def merge(out: Path, config: Config) -> None:
    """Write metrics, edges, rounds and timings of a swarm from those of its peers. Rounds that a peer missed are missing."""
    states = peers_in(out)
    lines = {name: [r | {"peer": peer} for peer, at in states.items() for r in read_lines(at / name)] for name in FILES}
    metrics, edges = (sorted(lines[name], key=lambda r: (r["round"], r["peer"])) for name in FILES[:2])
    if not metrics:
        raise RunDirError(f"{out}: no peer has finished a round; its peer.log says why")
    names = peer_names(config.peers)
    labels = {
        name: data.labels for name, data in split(load_data(config), config.partition.thing, names, config.seed).items()
    }
    network = Network(config.topology.thing, names, config.seed, config.topology.extra.redraw)
    rounds = []
    for t in sorted({r["round"] for r in metrics}):
        rows = {name: {name: 1.0} for name in names} | {r["peer"]: r["row"] for r in edges if r["round"] == t}
        quality = choice_quality(labels, config.eval.friend, rows, {name: {} for name in names}, network.neighbours(t))
        quality.pop("auc", None)  # peers do not publish how they rank others
        here = [r for r in metrics if r["round"] == t]
        scores = [r["accuracy"] for r in here if "accuracy" in r]
        record: dict[str, Any] = {"round": t, **quality, "reported": len(here)}
        rounds.append(record | ({"accuracy": sum(scores) / len(scores)} if scores else {}))
    for name, records in (*zip(FILES, (metrics, edges, lines["timings.jsonl"]), strict=True), ("rounds.jsonl", rounds)):
        write_atomically(out / name, b"".join(dump(record) for record in records))
