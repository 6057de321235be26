"""Run an experiment from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amity.reproduce.experiment import ROOT, Findings, Scope
from amity.reproduce.registry import find
from amity.sinks.stream import Wanted


def reproduce(
    name: str,
    preset: str = "cpu",
    *,
    seeds: Sequence[int] = (),
    out: str | Path = ROOT,
    jobs: int = 0,
    sinks: Wanted = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    panels: Sequence[str] = (),
    **overrides: Any,
) -> Findings:
    """Run an experiment and write its table, figure and page: `amity.reproduce.reproduce("tau",
    "smoke")`. Tables of runs come as a `RunTable`."""
    scope = Scope(
        name=name,
        preset=preset,
        seeds=tuple(seeds),
        root=Path(out),
        rows=tuple(rows),
        columns=tuple(columns),
        panels=tuple(panels),
        overrides=overrides,
    )
    todo = find(name, preset).prepare(scope)
    findings = todo.run(jobs, sinks)
    findings.save(todo.path)
    return findings
