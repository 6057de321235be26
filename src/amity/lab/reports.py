"""Write the report of a directory."""

from __future__ import annotations

from pathlib import Path

from amity.errors import RunDirError
from amity.files import write_atomically
from amity.lab.comparison import read_comparison
from amity.lab.result import Result
from amity.lab.worlds import INDEX, read_worlds
from amity.show.report import run_html
from amity.store import how_to_go_on, read_config


def write_report(path: Path) -> Path:
    """Write report.html again: for a run, a comparison (a folder of runs by strategy and seed),
    comparisons in several worlds, a swarm, a peer's folder, or a folder of several peers'
    folders."""
    if (path / INDEX).is_file():
        return read_worlds(path).save()
    if (path / "config.toml").is_file() and not (path / "audit.jsonl").is_file():
        text = run_html(_whole(path), _of_peers(path))
    elif _is_of_peers(path):
        from amity.net.ops.report import peers_html

        text = peers_html(path)
    else:
        return read_comparison(path).save()
    write_atomically(path / "report.html", text.encode())
    return path / "report.html"


def _whole(path: Path) -> Result:
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


def _of_peers(path: Path) -> list[str]:
    if not (path / "peers").is_dir():
        return []
    from amity.net.ops.report import sections

    return sections(path)
