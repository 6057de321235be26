"""Run an experiment from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amity.lab.cells import OnEvent
from amity.reproduce.experiment import ROOT, Findings, Scope
from amity.reproduce.registry import find


def reproduce(
    name: str,
    preset: str = "cpu",
    *,
    seeds: Sequence[int] = (),
    out: str | Path = ROOT,
    jobs: int = 0,
    on_event: OnEvent | None = None,
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
    findings = todo.run(jobs, on_event)
    findings.save(todo.path)
    return findings
