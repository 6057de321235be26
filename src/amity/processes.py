"""This machine: how many cores a process may use, and how forked processes live and die with their
parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


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
