"""What several commands share: the forms of their arguments, and which sinks they tell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.console import complain, say
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


@contextmanager
def going_on(out: Path) -> Iterator[None]:
    """At Ctrl-C, say which command goes on with what this one does in the directory `out`."""
    try:
        yield
    except KeyboardInterrupt:
        complain(
            "interrupted; what was finished is kept, and this goes on where it was:"
            f" {again(sys.argv, out)}"
        )
        raise SystemExit(130) from None


def again(argv: Sequence[str], out: Path) -> str:
    """The command that was typed, as a shell takes it, with the directory that it chose itself."""
    words = list(argv[1:])
    if not any(word.partition("=")[0].strip() == "out" for word in words):
        words.append(f"out={out}")
    return shlex.join([*_program(argv[0]), *words])


def _program(path: str) -> list[str]:
    """What our program is started by, here: its name suffices if a shell finds it by that."""
    if Path(path).name == "__main__.py":
        return ["python", "-m", "amity"]
    found = shutil.which(Path(path).name)
    if found is not None and os.path.realpath(found) == os.path.realpath(path):
        return [Path(path).name]
    near = os.path.relpath(path)
    return [path if near.startswith("..") else near]
