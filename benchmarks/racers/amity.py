"""Amity: what `amity bench WORKLOAD --json` says, in the words of the race. Run it with the
project's own Python.

Amity steps without `torch.optim`, so the race's counter does not see it: `steps_per_round` is what
`amity bench` reports under that name, else nothing, and then the race cannot say that the work was
equal. Its seconds are medians too: of the phases of a round but for evaluation, added up, so what
lies between the phases is not in them.

`cd benchmarks && python -m racers.amity WORKLOAD`
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from common import Workload, arguments, emit


def bench(workload: Workload) -> list[dict[str, Any]]:
    """The lines that `amity bench` prints for a workload: one, or one for each precision."""
    command = [sys.executable, "-m", "amity", "bench", workload.name, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.stderr.strip() or done.stdout.strip())
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def convert(line: dict[str, Any], workload: Workload) -> dict[str, Any]:
    from amity import __version__

    steps = line.get("steps_per_round")
    return {
        "framework": "amity",
        "version": __version__,
        "workload": workload.name,
        "setting": str(line["precision"]),
        "rounds": workload.rounds,
        "seconds_per_round": 1 / line["rounds_per_s"],
        "rounds_per_s": line["rounds_per_s"],
        "samples_per_s": line["samples_per_s"],
        "startup_s": None,
        "steps_per_round": steps,
        "expected_steps": workload.steps,
        "equal_work": None if steps is None else steps == workload.steps,
        "peak_mb": line["peak_mb"],
        "notes": "its steps are not counted by the race"
        if steps is None
        else "its steps are counted by itself",
    }


def main() -> None:
    args = arguments(__doc__)
    for line in bench(args.workload):
        emit(convert(line, args.workload))


if __name__ == "__main__":
    main()
