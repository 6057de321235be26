"""Write the report of a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from amity.errors import RunDirError
from amity.files import write_atomically
from amity.lab.comparison import read_comparison
from amity.lab.result import Result
from amity.lab.tries import SWEEP, read_sweep
from amity.lab.worlds import INDEX, read_worlds
from amity.store import how_to_go_on, read_config

Kind = Literal["run", "comparison", "sweep", "worlds", "peers"]


def kind_of(path: Path) -> Kind:
    """What a directory holds: a run (or a swarm), a comparison (a folder of runs by strategy and
    seed), a sweep, comparisons in several worlds, or peers (one's own folder, or several)."""
    if (path / INDEX).is_file():
        return "worlds"
    if (path / SWEEP).is_file():
        return "sweep"
    if (path / "config.toml").is_file() and not (path / "audit.jsonl").is_file():
        return "run"
    return "peers" if _is_of_peers(path) else "comparison"


def write_report(path: Path) -> Path:
    """Write report.html again, and summary.csv beside it, for whatever a directory holds."""
    kind = kind_of(path)
    if kind == "worlds":
        return read_worlds(path).save()
    if kind == "sweep":
        return read_sweep(path).save()
    if kind == "run":
        return whole_run(path).save()
    if kind == "comparison":
        return read_comparison(path).save()
    from amity.net.ops.report import peers_html

    write_atomically(path / "report.html", peers_html(path).encode())
    return path / "report.html"


def whole_run(path: Path) -> Result:
    """The run of a directory, if a report can be made of it."""
    result = Result(path, read_config(path))
    expected = len(result.rounds) * result.config.peers
    if len(result.metrics) != expected and not (path / "peers").is_dir():
        raise RunDirError(
            f"{path}: lines of metrics.jsonl are missing; {how_to_go_on(path)} repairs it"
        )
    if not result.curve:
        raise RunDirError(f"{path}: no round is done yet; {how_to_go_on(path)} goes on with it")
    return result


def _is_of_peers(path: Path) -> bool:
    folders = (path, *path.glob("*"))
    return any((at / name).is_file() for at in folders for name in ("peer.toml", "audit.jsonl"))
