"""`amity reproduce`: an experiment of the paper, or beyond it, as a table, a picture and verdicts,
by one command."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.common import Words, sinks_of
from amity.console import blank_table, complain, out_console, say, status
from amity.errors import ConfigError, Failure, unknown
from amity.processes import cores
from amity.units import duration

if TYPE_CHECKING:
    from amity.reproduce.run import Todo
    from amity.reproduce.table import Table

ALL, LABELS = "all", "labels"
OWN = ("seeds", "out", "jobs", "rows", "columns", "panels", "sinks")
Name = Annotated[
    str, typer.Argument(help="table1, tau, toy, ... (a wrong name lists them), or all.")
]
PresetOption = Annotated[str, typer.Option("--preset", help="Sizes: smoke, cpu, paper.")]
UNSEEN = ("out", "jobs", "sinks")
"""Own keys that a table does not depend on."""
Done = Annotated[
    bool, typer.Option("--done", help="Run nothing: the table of what is finished so far.")
]


def reproduce(
    name: Name, words: Words = None, preset: PresetOption = "cpu", done: Done = False
) -> None:
    """A table or figure of the paper beside ours, with a verdict per claim. Own keys: seeds=0,1,2
    out=DIR jobs=N rows=A,B columns=WORD panels=WORD sinks=A,B; all others are config keys.

    Presets: smoke (seconds, on built-in data), cpu (two cores), paper (as printed, for a GPU or a
    cluster). Finished cells are kept: the same command goes on where it was, and tables share
    cells. engine=ray spreads them over a cluster. --done shows what is finished so far.
    """
    from amity.config import count, out_path, seeds_of, split_list, split_words
    from amity.reproduce.catalogue import EXPERIMENTS, PRESETS
    from amity.reproduce.run import ROOT, prepare

    file, values, mine = split_words(words or [], *OWN)
    if name not in (*EXPERIMENTS, LABELS, ALL):
        raise ConfigError(unknown("experiment", name, [*EXPERIMENTS, LABELS, ALL]))
    if preset not in PRESETS:
        raise ConfigError(unknown("preset", preset, PRESETS))
    for key in ("seeds", "rows", "columns", "panels"):
        if key in mine and not split_list(mine[key]):
            raise ConfigError(f"{key}: expected names or numbers separated by commas, got nothing")
    root = out_path(mine) if "out" in mine else ROOT
    seeds, jobs = seeds_of(mine["seeds"]) if "seeds" in mine else [], count(mine, "jobs")
    sinks = sinks_of(mine, file)
    if name == LABELS:
        _refuse_for_labels(mine, preset, done)
        _labels(file, values, seeds, root, preset)
        return
    asked = [word for word in words or [] if word.partition("=")[0].strip() not in UNSEEN]
    rows, columns, panels = (split_list(mine.get(key, "")) for key in ("rows", "columns", "panels"))
    failed, pages = False, list[Path]()
    for one in EXPERIMENTS if name == ALL else (name,):
        command = shlex.join(["amity", "reproduce", one, "--preset", preset, *asked])
        try:
            todo = prepare(one, preset, seeds, root, rows, columns, panels, file, values, command)
            table = todo.so_far() if done else _run(todo, jobs, sinks)
            failed |= bool(_finish(todo, table))
            pages.append(todo.path / "report.html")
        except Failure as error:
            if name != ALL:
                raise
            complain(str(error))
            failed = failed or not done  # what is not there yet is no failure of `--done`
    if name == ALL and preset == "smoke" and not done:
        _labels(file, values, seeds, root, preset)
    if len(pages) > 1:
        say(f"{len(pages)} tables:")
        for page in pages:
            say(f"  {page}")
    if failed:
        raise SystemExit(1)


def _refuse_for_labels(mine: Mapping[str, object], preset: str, done: bool) -> None:
    """It has no table, and one size."""
    for key in ("rows", "columns", "panels", "jobs", "sinks"):
        if key in mine:
            raise ConfigError(f"{key}: {LABELS!r} is no table and does not take it")
    if done or preset == "paper":
        raise ConfigError(
            f"{LABELS!r} takes no {'--done' if done else '--preset paper'}; it has the presets"
            " smoke and cpu"
        )


def _labels(
    file: Path | None, values: dict[str, object], seeds: list[int], root: Path, preset: str
) -> None:
    """The one experiment that is no table of runs."""
    from amity.reproduce.labels import measure_labels

    small = {
        "data": "digits",
        "model": "mlp",
        "peers": 12,
        "rounds": 2,
        "partition.samples": 24,
        "partition.test": 20,
    }
    values = {**small, **values} if preset == "smoke" else values
    chosen = seeds or ([0] if preset == "smoke" else [0, 1, 2])
    say(f"report: {measure_labels(file, values, chosen, root / f'{LABELS}-{preset}', say)}")


def _run(todo: Todo, jobs: int, sinks: list[str]) -> Table:
    from amity.lab.estimate import estimate
    from amity.round.build import load_data

    cells = todo.cells
    with status("reading the data"):
        for cell in cells:
            load_data(cell.config)
        left = [cell for cell in cells if cell.path not in todo.done]
        guess = (
            f"; {estimate([cell.config for cell in left], min(jobs or cores(), len(left)))}"
            if left
            else ""
        )
    say(
        f"{todo.experiment.title}: {len(cells)} runs at {todo.preset}, {len(cells) - len(left)} of"
        f" them done already{guess}"
    )
    began = time.monotonic()
    table = todo.run(jobs, sinks)
    if left:
        say(f"{len(left)} runs in {duration(time.monotonic() - began)}")
    return table


def _finish(todo: Todo, table: Table) -> Mapping[str, str]:
    """Show and save a table; returns what failed."""
    _show(table)
    budget = todo.experiment.budget
    slow = [record for record in table.records if budget and record.seconds > budget]
    if slow:
        say(
            f"{len(slow)} of {len(table.records)} runs took longer than the {budget:.0f} s meant"
            " for a cell"
        )
    with status("drawing the report"):
        page = table.save(todo.path)
    say(f"report: {page}")
    for what, error in table.errors.items():
        complain(f"{what} failed: {error}")
    return table.errors


def _show(table: Table) -> None:
    for title, head, lines in (*table.grids(), *table.differences()):
        if title:
            out_console.print(title, style="bold", markup=False, highlight=False)
        shown = blank_table(head, no_wrap=True)
        for cells in lines:
            shown.add_row(
                *(f"[bold]{cell[2:-2]}[/bold]" if cell.startswith("**") else cell for cell in cells)
            )
        out_console.print(shown)
    say(table.caption)
    if table.experiment.note:
        say(table.experiment.note)
    for verdict in table.verdicts:
        say(f"{verdict.status.upper()}: {verdict.claim.text} {verdict.evidence}")
    sys.stdout.flush()
