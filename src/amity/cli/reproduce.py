"""`amity reproduce`: an experiment of the paper, or beyond it, as a table, a picture and verdicts,
by one command."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.cli.common import Words, sinks_of
from amity.cli.watch import NO_PAGE, LivePage, with_live_page
from amity.console import complain, out_console, say, show_grid, status
from amity.errors import ConfigError, Failure
from amity.reproduce.experiments import NAMES
from amity.units import duration

if TYPE_CHECKING:
    from amity.reproduce.experiment import Experiment, Findings, Scope, Todo

ALL = "all"
LISTS = ("seeds", "rows", "columns", "panels")
OWN = (*LISTS, "out", "jobs", "sinks")
EVERYONES = ("seeds", "out")
"""The own keys that every experiment takes."""
UNSEEN = ("out", "jobs", "sinks")
"""Own keys that a table does not depend on."""
Name = Annotated[str, typer.Argument(help=f"{', '.join(NAMES)} or {ALL}.")]
PresetOption = Annotated[str, typer.Option("--preset", help="Sizes: smoke, cpu, mid, paper.")]
Done = Annotated[
    bool, typer.Option("--done", help="Run nothing: the table of what is finished so far.")
]


@with_live_page
def reproduce(
    name: Name,
    words: Words = None,
    preset: PresetOption = "cpu",
    done: Done = False,
    page: LivePage = NO_PAGE,
) -> None:
    """A table or figure of the paper beside ours, with a verdict per claim. Own keys: seeds=0,1,2
    out=DIR jobs=N rows=A,B columns=WORD panels=WORD sinks=A,B; all others are config keys.

    Presets: smoke (seconds, on built-in data), cpu (two cores), mid (table1 only: a night on two
    cores), paper (as printed, for a GPU or a cluster). Finished cells are kept: the same command
    goes on where it was, and tables share cells. engine=ray spreads them over a cluster. --done
    shows what is finished so far.
    """
    from amity.config import count, split_words
    from amity.sinks.stream import choose

    file, values, mine = split_words(words or [], *OWN)
    chosen = _chosen(name, preset, mine)
    scope = _scope(name, preset, file, values, mine)
    jobs, sinks = count(mine, "jobs"), sinks_of(mine, file)
    choose(sinks)  # mistakes are found before anything else is done
    pages: list[Path] = []
    failed = False
    for one, experiment in chosen.items():
        asked = replace(scope, name=one, command=_command(one, preset, words or []))
        try:
            todo = experiment.prepare(asked)
            title = f"{experiment.title}: {len(todo.cells)} runs at {preset}"
            labels = {cell.path: cell.label for cell in todo.cells}
            with page.beside(list(labels), labels):
                findings = todo.so_far() if done else _run(todo, title, jobs, sinks)
            pages.append(_finish(todo, findings))
        except Failure as error:
            if name != ALL:
                raise
            complain(str(error))
            failed |= not done  # with --done, what is not there yet has not failed
        else:
            failed |= bool(findings.errors)
    _list(pages)
    if failed:
        raise SystemExit(1)


# -- what is asked for -----------------------------------------------------------------------------


def _chosen(name: str, preset: str, mine: Mapping[str, Any]) -> dict[str, Experiment]:
    """The experiments that a name stands for. One that is named itself must take every key; of
    `all`, each takes what it can."""
    from amity.reproduce.registry import everything, find

    if name == ALL:
        return everything(preset)
    experiment = find(name, preset, others=[ALL])
    for key in mine:
        if key not in (*EVERYONES, *experiment.takes):
            raise ConfigError(f"{key}: {name!r} is not a table of runs and does not take it")
    return {name: experiment}


def _scope(
    name: str, preset: str, file: Path | None, values: Mapping[str, Any], mine: Mapping[str, Any]
) -> Scope:
    from amity.config import out_path, seeds_of, split_list
    from amity.reproduce.experiment import ROOT, Scope

    for key in LISTS:
        if key in mine and not split_list(mine[key]):
            raise ConfigError(f"{key}: expected names or numbers separated by commas, got nothing")
    rows, columns, panels = (split_list(mine.get(key, "")) for key in ("rows", "columns", "panels"))
    return Scope(
        name=name,
        preset=preset,
        seeds=tuple(seeds_of(mine["seeds"])) if "seeds" in mine else (),
        rows=tuple(rows),
        columns=tuple(columns),
        panels=tuple(panels),
        file=file,
        overrides=values,
        root=out_path(mine) if "out" in mine else ROOT,
    )


def _command(name: str, preset: str, words: Sequence[str]) -> str:
    """What makes this table again, anywhere."""
    asked = [word for word in words if word.partition("=")[0].strip() not in UNSEEN]
    return shlex.join(["amity", "reproduce", name, "--preset", preset, *asked])


# -- making it -------------------------------------------------------------------------------------


def _run(todo: Todo, title: str, jobs: int, sinks: list[str]) -> Findings:
    """Say how much there is to do, do it, and say how long it took."""
    from amity.lab.estimate import estimate
    from amity.processes import cores
    from amity.round.build import load_data

    if not todo.cells:
        return todo.run(jobs, sinks, say)
    left = [cell for cell in todo.cells if cell.path not in todo.done]
    with status("reading the data"):
        for cell in todo.cells:
            load_data(cell.config)
        at_once = min(jobs or cores(), len(left))
        guess = f"; {estimate([cell.config for cell in left], at_once)}" if left else ""
    say(f"{title}, {len(todo.cells) - len(left)} of them done already{guess}")
    began = time.monotonic()
    findings = todo.run(jobs, sinks, say)
    if left:
        say(f"{len(left)} runs in {duration(time.monotonic() - began)}")
    return findings


def _finish(todo: Todo, findings: Findings) -> Path:
    """Show and save what was found; returns the page."""
    _show(findings)
    with status("drawing the report"):
        page = findings.save(todo.path)
    say(f"report: {page}")
    for what, error in findings.errors.items():
        complain(f"{what} failed: {error}")
    return page


# -- showing it ------------------------------------------------------------------------------------


def _show(findings: Findings) -> None:
    for title, head, lines in findings.shown():
        if title:
            out_console.print(title, style="bold", markup=False, highlight=False)
        show_grid(head, lines, out_console)
    for remark in findings.remarks():
        say(remark)
    sys.stdout.flush()


def _list(pages: Sequence[Path]) -> None:
    """Where to look, if there are several."""
    if len(pages) > 1:
        say(f"{len(pages)} reports:")
        for page in pages:
            say(f"  {page}")
