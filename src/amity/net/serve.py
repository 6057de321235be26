"""One process = one peer: signals, the log, and the way out."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from amity.data import Dataset
from amity.net.audit import Handshakes
from amity.net.node import Node, OnRound
from amity.net.setup import Setup


class Stopped(SystemExit):
    """The operator asked this process to end; what was done is kept."""


def serve(setup: Setup, on_round: OnRound | None = None, dataset: Dataset | None = None) -> None:
    """Run a peer to its end. SIGTERM ends it at once and cleanly: a round that was not finished is done again."""
    node = Node(setup, dataset=dataset, listen_in=Handshakes)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        node.stop.set()
        raise Stopped(0)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)
    node.run(on_round)
