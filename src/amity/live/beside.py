"""The page beside a command (`--live`): a process of its own, which reads what the command writes.

The port is opened here and handed over, so the address is known at once and nothing waits. The
process has a low priority, loads the server when somebody first looks, and ends with the command.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from amity.live.where import Where
from amity.processes import die_with

NICE = 10
PATIENCE = 15.0
"""Seconds that viewers have at the end to take what is left."""


@contextmanager
def beside(
    paths: Sequence[Path], where: Where, labels: Mapping[Path, str] | None = None
) -> Iterator[str]:
    """Inside, the page is served; gives its address."""
    with where.listen() as listening:
        address = where.address(listening)
        asked = {
            "paths": [str(path.absolute()) for path in paths],
            "labels": {str(path.absolute()): label for path, label in (labels or {}).items()},
            "fd": listening.fileno(),
            "host": where.host,
            "identity": str(where.identity) if where.identity else "",
            "token": where.token,
            "parent": os.getpid(),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "amity.live.beside"],
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(),),
            start_new_session=True,  # Ctrl-C is for the command, which ends this
        )
        assert process.stdin is not None  # noqa: S101
        with process.stdin as stream:
            stream.write(json.dumps(asked).encode())
    try:
        yield address
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def somebody_comes(listening: socket.socket) -> bool:
    """Wait for the first viewer, who is not taken yet; False: the command ended before."""
    woken, wakes = socket.socketpair()
    with woken, wakes:
        wakes.setblocking(False)
        before = signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
        signal.set_wakeup_fd(wakes.fileno())
        try:
            came, _, _ = select.select([listening, woken], [], [])
        finally:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, before)
    return woken not in came


def main() -> None:
    """The process."""
    asked = json.loads(sys.stdin.buffer.read())
    die_with(asked["parent"])
    os.nice(NICE)
    identity = Path(asked["identity"]) if asked["identity"] else None
    where = Where(host=asked["host"], identity=identity, token=asked["token"])
    with socket.socket(fileno=asked["fd"]) as listening:
        if not somebody_comes(listening):
            return
        from amity.live.serving import serve

        labels = {Path(path): label for path, label in asked["labels"].items()}
        paths = [Path(path) for path in asked["paths"]]
        serve(paths, where, listening, beside=True, labels=labels)


if __name__ == "__main__":
    main()
