"""How a swarm is doing, read from what its peers write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.table import Table

from amity.core import START, PeerId
from amity.net.ops.swarm import Swarm
from amity.show.terminal import blank_table


def last_line(path: Path, tail: int = 16384) -> dict[str, Any]:
    """The last whole line of a file of JSON lines; empty where there is none yet."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - tail))
            lines = stream.read().split(b"\n")[:-1]
        found = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Watch:
    """The newest of every peer, each time one looks."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm

    def _state(self, name: PeerId) -> str:
        if name in self._swarm.running:
            return "running"
        return (
            "failed"
            if name in self._swarm.failed
            else "done"
            if name in self._swarm.processes
            else "waiting"
        )

    def table(self) -> Table:
        table = blank_table(
            ("peer", "round", "accuracy", "took from", "kB in", "s/round", ""),
            (0, 3, 6),
            no_wrap=True,
        )
        for name in self._swarm.names:
            state = self._swarm.folder(name) / "state"
            found, edges, time = (
                last_line(state / f"{f}.jsonl") for f in ("metrics", "edges", "timings")
            )
            row = {
                j: weight for j, weight in edges.get("row", {}).items() if j not in (name, START)
            }
            took = " ".join(
                f"{j.removeprefix('peer-')}:{weight:.2f}" for j, weight in sorted(row.items())
            )
            received = sum(found.get(key, 0) for key in ("card_in", "model_in", "reply_in")) / 1e3
            table.add_row(
                name,
                f"{found['round'] + 1}/{self._swarm.config.rounds}" if found else "-",
                f"{100 * found['accuracy']:.1f} %" if "accuracy" in found else "",
                took[:60],
                f"{received:.0f}" if found else "",
                f"{time['seconds']:.2f}" if time else "",
                self._state(name),
            )
        return table

    def line(self) -> str:
        found = {
            name: last_line(self._swarm.folder(name) / "state" / "metrics.jsonl")
            for name in self._swarm.names
        }
        done = min((record["round"] + 1 if record else 0) for record in found.values())
        scores = [record["accuracy"] for record in found.values() if "accuracy" in record]
        accuracy = f"; accuracy {100 * sum(scores) / len(scores):.1f} %" if scores else ""
        running = len(self._swarm.running)
        return (
            f"all peers have done {done} of {self._swarm.config.rounds} rounds, {running}"
            f" running{accuracy}"
        )
