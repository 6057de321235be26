"""What a user waits for: complete runs, from command to prompt, and what their time goes to.

Every run is a process of its own, as `amity run` is one. It tells when it began its work and how
long each part took; the parent holds the clock.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amity.bench.measure import Say
from amity.errors import Failure
from amity.processes import leave

REPEATS = 3
IMAGES = {"data.name": "synthetic", "data.train": 6000, "partition.samples": 300}
RUNS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "20 peers, digits": {"peers": 20, "rounds": 25, "partition.name": "iid"},
    "CNN, 28 x 28": {**IMAGES, "data.shape": "1x28x28", "model": "fedavg_cnn", "rounds": 5},
}
"""Keys of each run; all else is as it comes."""
PARTS = ("start", "train", "select", "mix", "evaluate", "keep", "report", "end")


@dataclass(frozen=True, kw_only=True)
class WholeRow:
    """One kind of run: medians."""

    run: str
    seconds: float
    """From the command to the prompt, wall clock."""
    shares: dict[str, float] = field(default_factory=dict)
    """Of it, by part. start: until the run begins, with imports and data; train to evaluate: the
    phases of its rounds; keep: peers made ready, records and checkpoints; report; end: until the
    process is gone."""


def measure_whole(say: Say, repeats: int = REPEATS) -> list[WholeRow]:
    """All kinds of runs, in turn."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    for repeat in range(repeats):
        for name, keys in RUNS.items():
            say(f"{name} ({repeat + 1} of {repeats})")
            found[name].append(_timed(keys))
    return [_row(name, parts) for name, parts in found.items()]


def _row(name: str, found: list[dict[str, float]]) -> WholeRow:
    seconds = statistics.median(sum(one.values()) for one in found)
    shares = {
        part: statistics.median(one[part] / sum(one.values()) for one in found) for part in PARTS
    }
    return WholeRow(run=name, seconds=seconds, shares=shares)


def _timed(keys: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the parts of one run."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        command = [sys.executable, "-m", "amity.bench.whole", json.dumps(keys), f"{folder}/run"]
        done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  ourselves
        ended = time.time()
    if done.returncode:
        raise Failure(f"bench: a run failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    first, last = told.pop("began"), told.pop("ended")
    return {**told, "start": first - began, "end": ended - last}


class _Phases:
    """A sink that adds up the phases of all rounds."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("train", "select", "mix", "evaluate"), 0.0)

    def take(self, event: Any) -> None:
        from amity.events import RoundDone

        if isinstance(event, RoundDone):
            for phase in self.seconds:
                self.seconds[phase] += event.report.seconds[phase]

    def close(self) -> None:
        """There is nothing to end."""


def run_and_tell(keys: Mapping[str, Any], path: Path) -> dict[str, float]:
    """Does what `amity run` does. Returns the seconds of its parts, and when it began and ended."""
    from amity.config import load
    from amity.lab.reports import write_report
    from amity.lab.run import run
    from amity.round.build import load_data

    config, phases = load(None, keys), _Phases()
    load_data(config)
    began = time.time()
    run(config, path, [phases])
    ran = time.time()
    write_report(path)
    ended = time.time()
    keep = ran - began - sum(phases.seconds.values())
    told = {"began": began, "ended": ended, "keep": keep, "report": ended - ran}
    return {**phases.seconds, **told}


if __name__ == "__main__":
    found = run_and_tell(json.loads(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(json.dumps(found) + "\n")
    leave(0)
