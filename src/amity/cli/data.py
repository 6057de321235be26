"""`amity data`: what is there, how to get what is not, and how it looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from amity.cli.common import Keys
from amity.cli.tables import check, schema
from amity.console import err_console, out_console, status
from amity.errors import ConfigError, DataError, unknown
from amity.files import write_atomically
from amity.units import size

if TYPE_CHECKING:
    from amity.data.published import Published

app = typer.Typer(
    no_args_is_help=True, help="Datasets: what is there, how to get what is not, how it looks."
)
Name = Annotated[str, typer.Argument(help="A dataset, such as cifar10.")]


def published() -> dict[str, Published]:
    """The datasets that are files, by name."""
    from amity.data import datasets
    from amity.data.published import Published

    found = {entry.name: vars(entry.cls).get("published") for entry in datasets}
    return {name: dataset for name, dataset in found.items() if isinstance(dataset, Published)}


def _where(dataset: Published) -> tuple[Path, int]:
    from amity.data import femnist
    from amity.data.published import usable

    if dataset.files:
        return usable(dataset)
    folder = femnist.find()
    return folder, sum(path.stat().st_size for path in folder.glob("*/*.json"))


@app.command("list")
def list_datasets() -> None:
    """Show what is present, where and how large, and the command that gets what is missing."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("dataset", "size", "where, or how to get it"):
        table.add_column(column, overflow="fold")
    table.add_row("digits", "", "built in")
    for name, dataset in sorted(published().items()):
        try:
            folder, count = _where(dataset)
            table.add_row(f"[green]{name}[/green]", size(count), str(folder))
        except DataError:
            table.add_row(name, "missing", dataset.command)
    table.add_row(
        "your own", "", "data=FILE.npz, data=FOLDER, data=TABLE.csv, data=FILE.py:FUNCTION"
    )
    out_console.print(table)


@app.command("get")
def get_dataset(name: Name, words: Keys = None) -> None:
    """Download a dataset: checked, resumable. Own keys: dir=FOLDER (default AMITY_DATA or the
    cache), mirror=URL (a folder of the files, or an index of packages: .../simple)."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from amity.config import only
    from amity.data.fetch import get

    values = only(words or [], "dir", "mirror")
    known = published()
    if name not in known:
        raise ConfigError(unknown("dataset", name, known))
    if known[name].steps:
        err_console.print(known[name].steps, markup=False, soft_wrap=True)
        raise SystemExit(1)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err_console) as progress:

        def on_bytes(file: str, here: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file, total=total or None)
            progress.update(tasks[file], completed=here, total=total or None)

        def on_wait() -> None:
            err_console.print(f"another process is getting {name}; waiting for it")

        root = Path(values["dir"]) if "dir" in values else None
        folder = get(known[name], root, values.get("mirror", ""), on_bytes, on_wait)
    out_console.print(f"{name}: {folder}", soft_wrap=True, markup=False)


@app.command("show")
def show_dataset(
    name: Annotated[str, typer.Argument(help="A dataset, as in data=NAME.")] = "",
    words: Keys = None,
) -> None:
    """Draw a contact sheet of samples, the partition, and what each group of peers sees. Keys as in
    `amity run` (such as shift=rotate shift.groups=4), and out=FILE.html."""
    from amity.config import load, parse
    from amity.show.report import data_html

    named = [f"data={name}" if "=" not in name else name] if name else []
    values = parse([*named, *(words or [])])
    given = values.pop("out", None)
    config = load(None, values)
    shown = str(values.get("data", config.data.name))
    out = _page(f"{Path(shown).stem.replace(':', '-')}.html" if given is None else str(given))
    with status(f"reading {shown}"):
        page, groups = data_html(config)
    write_atomically(out, page.encode())
    if groups:
        out_console.print(groups, soft_wrap=True, markup=False)
    out_console.print(f"picture: {out}", soft_wrap=True, markup=False)


app.command("check")(check)
app.command("schema")(schema)


def _page(out: str) -> Path:
    """The file that out= names; one without an ending gets that of a page."""
    path = Path(out)
    if path.is_dir():
        raise ConfigError(f"out: {path} is a folder, expected FILE.html")
    if path.suffix not in ("", ".html", ".htm"):
        raise ConfigError(f"out: a page is written, expected FILE.html, got {path}")
    return path if path.suffix else path.with_suffix(".html")
