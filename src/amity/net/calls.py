"""Asks on the wire: small ones are answered in one piece, bodies come by ranges and are taken up
again where they broke off."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amity.net.audit import Audit
from amity.net.board import Board
from amity.net.link.base import AskFailed, Link, counted
from amity.net.tally import BOOKED, Tally
from amity.net.wire import Manifest, Stamp, check_body

SMALL = 128 * 1024
"""Bytes of an answer that is no model: a head, and the body of a card that travels with it."""
MUTE = ("timeout", "gone", "no answer", "not connected")
"""Failures that are no sign of life."""
PATIENT = 20
"""So often a transfer is taken up again without a single byte."""
BACKGROUND = 10
"""Times its patience: so long a slow transfer may take, while nobody waits for it."""
PAUSE = 0.2
"""Seconds before a transfer that broke off is taken up again."""


class Calls:
    """Signs asks, and brings back bytes that nobody has believed yet. All methods may be called
    from several threads, and raise AskFailed (a body also Refused)."""

    def __init__(
        self,
        *,
        stamp: Stamp,
        audit: Audit,
        board: Board,
        tally: Tally,
        link: Callable[[], Link],
    ) -> None:
        self._stamp, self._audit, self._board, self._tally = stamp, audit, board, tally
        self._link = link
        self._lock, self._debts = threading.Lock(), Counter[str]()

    def ask(
        self, peer: str, method: str, round: int, data: Mapping[str, Any], timeout: float
    ) -> tuple[bytes, str]:
        """One small ask: the bytes of the answer, and the nonce that it must refer to."""
        nonce = secrets.token_hex(16)
        payload = self._stamp.seal(
            "ask", round, to=peer, data={"method": method, **data}, nonce=nonce
        )
        with self._owed(peer):
            answer = self._link().ask(
                peer, method, payload, timeout=timeout, limit=SMALL, alive=self._alive(peer)
            )
            parts = [part for _, part in answer]
            if not parts:
                raise AskFailed("no answer")
        self._audit.meters.bytes.labels("in").inc(len(parts[0]))
        return parts[0], nonce

    @contextmanager
    def _owed(self, peer: str) -> Iterator[None]:
        """While a member owes an answer; that it has none is a sign of life too."""
        with self._lock:
            self._debts[peer] += 1
        try:
            yield
        except AskFailed as failed:
            if failed.reason not in MUTE:
                self._board.heard(peer)
            raise
        finally:
            with self._lock:
                self._debts[peer] -= 1

    def owing(self, peer: str) -> bool:
        """Whether a member owes me an answer."""
        return self._debts[peer] > 0

    def _alive(self, peer: str) -> Callable[[], bool]:
        return lambda: self._board.reachable(peer)

    def body(
        self, peer: str, manifest: Manifest, what: Mapping[str, Any], until: float
    ) -> bytearray:
        """The body of a head, as long as there is time and the member is there. Past its time it
        may go on, `BACKGROUND` times as long, while its rate lets it be whole by then."""
        body, idle, began = bytearray(), 0, time.monotonic()
        last = began + BACKGROUND * (until - began)

        def in_time() -> bool:
            now = time.monotonic()
            rate = len(body) / max(now - began, 1e-9)
            return now < until or (now < last and rate * (last - began) >= manifest.length)

        while len(body) < manifest.length:
            before = len(body)
            if not in_time() or idle > PATIENT:
                raise AskFailed(f"timeout: after {len(body)} of {manifest.length} bytes")
            try:
                self._more(peer, manifest, what, body, last - time.monotonic(), in_time)
            except AskFailed as failed:
                if counted(failed.reason) == "not here" or not self._board.reachable(peer):
                    raise
                why = counted(failed.reason)
                self._audit("resumed", peer, why, at=len(body), of=manifest.length)
            if len(body) == before:
                idle += 1
                time.sleep(min(PAUSE, max(0.0, until - time.monotonic())))
        check_body(manifest, body)
        self._audit.meters.bytes.labels("in").inc(len(body))
        return body

    def _more(
        self,
        peer: str,
        manifest: Manifest,
        what: Mapping[str, Any],
        body: bytearray,
        timeout: float,
        in_time: Callable[[], bool],
    ) -> None:
        ask = {"method": "body", **what, "offset": len(body)}
        payload = self._stamp.seal("ask", manifest.round, to=peer, data=ask)
        left = manifest.length - len(body)
        with self._owed(peer):
            for offset, part in self._link().ask(
                peer,
                "body",
                payload,
                timeout=timeout,
                limit=left,
                alive=lambda: in_time() and self._board.reachable(peer),
                bulk=True,
            ):
                self._board.heard(peer)
                if not in_time():
                    raise AskFailed("timeout")
                if offset == len(body):
                    body += part
                    self._tally.received(BOOKED[manifest.kind], len(part))
                elif offset > len(body):
                    raise AskFailed("a part is missing")
