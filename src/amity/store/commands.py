"""Which commands made a directory, and when: what the foot of its report says."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amity._version import __version__
from amity.errors import StorageError
from amity.files import dump
from amity.store.reading import read_lines

COMMANDS = "commands.jsonl"
OURS = ("amity", "__main__.py")
"""What our program is called where it was started as such, or by `python -m amity`."""
UNSEEN = "sinks"
"""A key that changes no result, and may hold what nobody else should see."""


def typed(argv: Sequence[str]) -> str:
    """What was typed, as a shell takes it. Of a Python program its name alone; empty where there is
    none, as in a notebook."""
    program, *words = argv or [""]
    if Path(program).name in OURS:
        shown = [word for word in words if word.partition("=")[0].strip() != UNSEEN]
        return shlex.join(["amity", *shown])
    return shlex.join(["python", program]) if Path(program).is_file() else ""


def note_command(path: Path) -> None:
    """Add the command that is at work to those that made this directory."""
    line = {"at": round(time.time(), 2), "command": typed(sys.argv), "version": __version__}
    try:
        with open(path / COMMANDS, "ab") as stream:
            stream.write(dump(line))
    except OSError as error:
        raise StorageError(f"{path / COMMANDS}: cannot be written ({error.strerror})") from None


def read_commands(path: Path) -> list[dict[str, Any]]:
    """All of them, the oldest first; none if the directory was made by an older version."""
    return read_lines(path / COMMANDS)
