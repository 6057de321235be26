"""A terminal of 80 columns shows every name whole."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress

from rich.console import Console

from amity.console import show_grid
from amity.show.terminal import fitting

SMALL = ["peers=4", "rounds=1", "partition.samples=10", "partition.test=20", "model.hidden=8"]


def on_a_terminal(*words: str, columns: int = 80) -> list[str]:
    """What `amity WORDS` shows on a real terminal that is so wide, without its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR")
    environment = {k: v for k, v in os.environ.items() if k not in hidden} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "amity", *words, *SMALL]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    shown = b"".join(_until_it_ends(ours))
    os.close(ours)
    assert process.wait() == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    return [line.rstrip() for line in text.splitlines()]


def _until_it_ends(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # nobody holds the other end any more
        while part := os.read(terminal, 65536):
            yield part


def table_of(lines: list[str]) -> list[str]:
    """From its header to what follows it."""
    first = next(at for at, line in enumerate(lines) if line.startswith("strategy "))
    last = next(at for at in range(first, len(lines)) if lines[at].startswith("left out"))
    return lines[first : last + 1]


def test_strategies_that_begin_alike_are_told_apart() -> None:
    specs = ["afind+:paper:tau=0.8", "afind+:tuned:tau=0.8", "afind+:wary:tau=0.8"]
    strategies = ",".join(["local", *specs])
    lines = on_a_terminal("compare", f"strategies={strategies}", "seeds=0,1", "out=c")
    assert "…" not in "".join(lines)
    *table, left_out = table_of(lines)
    assert [line.split()[0] for line in table[1:]] == ["local", *specs]
    assert all(len(line) <= 80 for line in table)
    shown = {name for name in ("accuracy", "vs top", "balanced", "vs local") if name in table[0]}
    assert {"accuracy", "vs top"} <= shown
    assert "passes" in left_out
    assert "passes" not in table[0]


def test_the_tries_of_a_sweep_have_as_many_lines_as_their_names_need() -> None:
    grid = ["strategies=afind+", "train.lr=0.01,0.1", "strategy.tau=0.2,0.5"]
    lines = on_a_terminal("sweep", *grid, "out=s")
    assert "…" not in "".join(lines)
    names = " ".join(line[:34].strip() for line in table_of(lines)[1:-1])
    for lr in ("0.01", "0.1"):
        for tau in ("0.2", "0.5"):
            assert f"afind+, train.lr={lr}, strategy.tau={tau}" in names


def test_the_columns_that_matter_most_are_kept() -> None:
    assert fitting([0, 1, 5, 2], [20, 10, 10, 10], 80) == [0, 1, 2, 3]
    assert fitting([0, 1, 5, 2], [20, 10, 10, 10], 45) == [0, 1, 3]
    assert fitting([0, 1, 5, 2], [20, 10, 10, 10], 15) == [0], "the names are always there"


def test_a_wide_table_goes_on_below_with_the_names_again() -> None:
    file = io.StringIO()
    head = ["row", *(f"column {k}" for k in range(12))]
    rows = [[f"a row that is called {r}", *(f"**{r}.{k}**" for k in range(12))] for r in range(2)]
    show_grid(head, rows, Console(file=file, width=80))
    shown = file.getvalue()
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert shown.count("a row that is called 1") == shown.count("row  ")
    assert shown.count("a row that is called 1") > 1
    for k in range(12):
        assert shown.count(f"column {k} ") + shown.count(f"column {k}\n") == 1
        assert f"1.{k}" in shown
