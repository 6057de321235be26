"""What several commands share: the forms of their arguments, and which sinks they tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.console import say
from amity.errors import ConfigError

if TYPE_CHECKING:
    from amity.data import Dataset

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", show_default=False)
]
Where = Annotated[Path, typer.Argument(help="A run directory.")]
Keys = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)]


Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Run code that the file or folder names, though you never ran it before."
    ),
]


def say_data(dataset: Dataset) -> None:
    """What was done to one's own data: nothing of it in silence."""
    for note in dataset.notes:
        say(f"data: {note}")


def sinks_of(
    mine: Mapping[str, Any], file: Path | None, default: str = "auto", trust: bool = False
) -> list[str]:
    """Where events go: as the command says, else as its file does, else to the default."""
    from amity.config import read_toml, split_list
    from amity.sinks.stream import admit_sinks

    if "sinks" in mine:
        return split_list(mine["sinks"])
    given = read_toml(file).get("sinks", default) if file else default
    if isinstance(given, str):
        given = split_list(given)
    if not (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        raise ConfigError(f'{file}: sinks should be names, as in sinks = ["plain"], got {given!r}')
    if file:
        admit_sinks(file, given, trust)
    return list(given)
