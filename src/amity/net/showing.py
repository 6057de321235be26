"""What members show each other of their progress, where they allow it (`net.show=names`).

After each round a peer asks those who are present how they are doing, over the same links and with
the same signatures as everything else, and writes the answers into shown.jsonl for its own page.
Nothing is decided by it, no round waits for it, and it is not part of the bytes of learning. What
is told: the round, the leading metric, bytes received and sent, and whom the peer took with what
weight. Each answer stands in disclosed.jsonl before it leaves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from amity.core import PeerId
from amity.files import dump
from amity.net.answers import Answering
from amity.net.audit import Audit
from amity.net.courier import Courier
from amity.net.errands import Errands
from amity.net.link.base import AskFailed
from amity.net.wire import Refused
from amity.records import Report

SHOWN = "shown.jsonl"
LARGEST = 1 << 22
"""Bytes after which the file begins anew."""


class Showing:
    """One peer's, in one life. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        folder: Path,
        me: PeerId,
        answers: Answering,
        courier: Courier,
        errands: Errands,
        present: Callable[[], Sequence[PeerId]],
        audit: Audit,
    ) -> None:
        self._path, self._me, self._audit = folder / SHOWN, me, audit
        self._answers, self._courier, self._errands = answers, courier, errands
        self._present, self._lock = present, threading.Lock()

    def done(self, report: Report) -> None:
        """A round is done: show it, and ask how the others are doing."""
        record = report.peers[self._me]
        self._answers.show(report.round, record, report.rows[self._me])
        for other in self._present():
            self._errands.once("shown", other, lambda other=other: self._ask(other))  # type: ignore[misc]

    def _ask(self, other: PeerId) -> None:
        try:
            shown = self._courier.shown(other)
        except AskFailed:
            return  # it does not show, or has nothing to show yet
        except Refused as refused:
            self._audit.refuse(other, refused.reason, str(refused))
            return
        line = dump({"at": round(time.time(), 3), "peer": other, **shown})
        with self._lock:
            try:
                full = self._path.exists() and self._path.stat().st_size > LARGEST
                with open(self._path, "wb" if full else "ab", buffering=0) as stream:
                    stream.write(line)
            except OSError as error:  # a page without the others is no reason to stop
                self._audit("error", why="storage", message=f"{self._path}: {error.strerror}")
