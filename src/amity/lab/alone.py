"""What the peers of a run would have if they learnt from nobody: from their shadows, or from a run
of Local that is otherwise the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amity.core import PeerId
from amity.errors import AmityError, RunDirError
from amity.lab.result import Result
from amity.store import differences, read_config
from amity.strategies.local import Local
from amity.toml import read_toml

SAME = ("data", "task", "partition", "shift", "model", "method", "train", "peers", "rounds", "seed")
"""What a run of Local must have in common with the run whose peers it shows alone."""


@dataclass(frozen=True)
class Unaided:
    """What each peer would have, and from where that is known, or how it could be."""

    said: str
    scores: Mapping[PeerId, float] = field(default_factory=dict)


def alone_of(result: Result, given: Path | None = None) -> Unaided:
    """From the run of Local that is given, the run itself, its shadows, or the comparison in which
    it stands."""
    if given is not None:
        return _of_local(result, given)
    if _nobody(result):
        return Unaided("the run itself: nobody learnt from anybody", _leads(result))
    shadows = _leads(result, "alone")
    if shadows:
        return Unaided(f"shadows, every {result.config.eval.shadow} rounds", shadows)
    for folder in _neighbours(result):
        return _of_local(result, folder)
    return Unaided(remedy(result))


def remedy(result: Result) -> str:
    """How what is not known can be known."""
    path = result.path
    alone = path.with_name(f"{path.name}-alone")
    return (
        f"not known; `amity run {path / 'config.toml'} strategy=local out={alone}`, then"
        f" `amity matrix {path} alone={alone}`; or run with eval.shadow=1"
    )


def _leads(result: Result, of: str = "") -> dict[PeerId, float]:
    """The leading metric of each honest peer when it was last measured."""
    found = {r.peer: r.lead(of) for r in result.metrics if not r.attacker}
    return {peer: value for peer, value in found.items() if value is not None}


def _nobody(result: Result) -> bool:
    return isinstance(result.config.strategy.instance, Local) and not result.config.stages


def _of_local(result: Result, folder: Path) -> Unaided:
    local = Result(folder, read_config(folder))
    if not isinstance(local.config.strategy.instance, Local):
        raise RunDirError(
            f"alone: {folder} is a run of {local.config.label}; expected one with strategy=local"
        )
    if not local.complete:
        raise RunDirError(f"alone: {folder} has not ended; `amity resume {folder}` goes on with it")
    other = [k for k in differences(result.config, local.config) if k.partition(".")[0] in SAME]
    if other:
        raise RunDirError(
            f"alone: {folder} is another run than {result.path} (differs in"
            f" {', '.join(other[:4])}); expected the same but for strategy=local"
        )
    return Unaided(f"the run {folder}, in which nobody learns from anybody", _leads(local))


def _neighbours(result: Result) -> Iterator[Path]:
    """Runs of Local with the same seed, in the comparison that holds this run."""
    for cell in cells_of(result.path.parent.parent):
        try:
            if _is_local(read_toml(cell / "config.toml"), result):
                _of_local(result, cell)
                yield cell
        except AmityError:  # another world, or not finished
            continue


def cells_of(path: Path) -> list[Path]:
    """The runs of the comparison or sweep in a directory, unread; none: it holds none."""
    try:
        folders: dict[str, list[str]] = json.loads((path / "comparison.json").read_bytes())
        return [path / name for names in folders.values() for name in names]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def _is_local(plain: Mapping[str, Any], result: Result) -> bool:
    strategy = plain.get("strategy", {})
    name = strategy.get("name") if isinstance(strategy, dict) else strategy
    return name == "local" and plain.get("seed") == result.config.seed
