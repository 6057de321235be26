"""This machine: how many cores a process may use, how forked processes live and die with their
parent, and work that one does aside."""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, NoReturn, TypeVar

from amity.errors import Failure, line_of

T = TypeVar("T")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


_mine: list[int] = []


def cores_for_me() -> int:
    """How many cores this process may use: all, unless it has been told that it shares them."""
    return _mine[0] if _mine else cores()


def share_cores(processes: int) -> None:
    """Say that so many processes like this one are at work."""
    _mine[:] = [max(1, cores() // max(processes, 1))]


CAN_FORK = sys.platform == "linux"


def die_with(parent: int) -> None:
    """Linux: when the parent is gone, however it went, this process is too."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:  # it went before we could ask
        os._exit(1)


def keep_memory() -> None:
    """glibc: keep freed blocks instead of handing them back, so that every batch does not fault in
    its pages anew."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold, everything = -1, -3, 1 << 30
        libc.mallopt(trim_threshold, everything)
        libc.mallopt(mmap_threshold, everything)


def leave(code: object, *, wait: bool = True) -> NoReturn:
    """End this process at once, after its threads (with `wait`) and what was registered for its
    end: an interpreter that takes torch and all else apart takes a second for it."""
    for thread in threading.enumerate() if wait else ():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(bool(code)))


class Aside(Generic[T]):
    """Work that a forked process does while this one goes on; where forking is not safe, it is done
    at once. What it returns must go through a pipe."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._pipe: Connection | None = None
        if not CAN_FORK:
            self._value = work()
            return
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_aside, args=(work, theirs, os.getpid()))
        self._process.start()
        theirs.close()

    def result(self) -> T:
        """What came of it; waits for its end."""
        if self._pipe is not None:
            try:
                good, value = self._pipe.recv()
            except EOFError:
                good, value = False, "a process that was started aside died (a lack of memory?)"
            self._pipe.close()
            self._process.join()
            self._pipe, self._value = None, value
            if not good:
                raise Failure(value)
        return self._value


def _aside(work: Callable[[], Any], pipe: Connection, parent: int) -> None:
    """The parent decides what Ctrl-C means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    if "torch" in sys.modules:  # threads of the parent are not in a fork
        sys.modules["torch"].set_num_threads(1)
    try:
        found = (True, work())
    except Exception as error:
        found = (False, line_of(error))
    pipe.send(found)
