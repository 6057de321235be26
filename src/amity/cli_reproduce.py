"""`amity reproduce`: an experiment of the paper, or beyond it, as a table and a picture, by one command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from amity.compare import collect
from amity.config import count, out_path, seeds_of, split_list, split_words
from amity.errors import ConfigError, unknown
from amity.estimate import estimate
from amity.labels import NAME as LABELS
from amity.labels import measure_labels
from amity.progress import Board
from amity.reproduce import GRIDS, Table, base_of, cells_of_grid, with_rows
from amity.run import load_data
from amity.simulate.crew import cores
from amity.terminal import blank_table, complain, out_console, say, status

Name = Annotated[str, typer.Argument(help=f"{', '.join(GRIDS)} or {LABELS}.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", show_default=False)]


def reproduce(name: Name, words: Words = None) -> None:
    """An experiment as a table and a picture. Own keys: seeds=0,1,2 out=DIR jobs=N rows=A,B/STAGE; others are config keys.

    pfl: personalised methods, each with Gossip and with AFIND+. attack: attackers and defences. privacy: noise on
    cards. labels: what a card tells of its peer's labels. Finished cells are kept: the same command goes on where it was.
    """
    file, values, mine = split_words(words or [], "seeds", "out", "jobs", "rows")
    if name not in (*GRIDS, LABELS):
        raise ConfigError(unknown("experiment", name, [*GRIDS, LABELS]))
    seeds = seeds_of(mine.get("seeds", "0,1,2"))
    path = out_path(mine) if "out" in mine else Path("runs") / name
    if name == LABELS:
        say(f"report: {measure_labels(file, values, seeds, path, say)}")
        return
    grid = with_rows(GRIDS[name], split_list(mine.get("rows", "")))
    cells = cells_of_grid(grid, base_of(grid, file, values), seeds, path)
    jobs = count(mine, "jobs")
    with status("reading the data"):
        load_data(cells[0].config)
    guess = estimate([cell.config for cell in cells], min(jobs or cores(), len(cells)))
    say(f"{grid.title}: {len(cells)} runs; {guess}")
    board = Board(out_console, [replace(cell, label=cell.label.partition(" | ")[0]) for cell in cells])
    with board:
        comparison = collect(cells, path, jobs, board.on_event)
    table = Table(grid, comparison)
    _show(table)
    with status("drawing the report"):
        page = table.save()
    say(f"report: {page}")
    for what, error in comparison.errors.items():
        complain(f"{what} failed: {error}")
    if comparison.errors:
        raise SystemExit(1)


def _show(table: Table) -> None:
    shown = blank_table(table.header(), no_wrap=True)
    for cells in table.lines():
        shown.add_row(*(f"[bold]{cell[2:-2]}[/bold]" if cell.startswith("**") else cell for cell in cells))
    out_console.print(shown)
    say(table.grid.note)
