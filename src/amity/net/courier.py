"""Asks other members, and believes only what is signed, in time, and of the right shape."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amity.core import Card, Share
from amity.facts import Losses, Offer
from amity.net.audit import Audit
from amity.net.board import Board, Notice, read_notice
from amity.net.link.zenoh import AskFailed, Link, counted
from amity.net.options import Net
from amity.net.trust.roster import Roster
from amity.net.wire import (
    Expected,
    Kind,
    Manifest,
    Refused,
    Schema,
    ShareData,
    Stamp,
    VisitData,
    check_body,
    decode_share,
    decode_sketch,
    losses_of,
    open_head,
    said,
)

SMALL = 128 * 1024
"""Bytes of an answer that is no model: a head, and the body of a card that travels with it."""
MUTE = ("timeout", "gone", "no answer", "not connected")
"""Failures that are no sign of life."""
PATIENT = 20
"""So often a transfer is taken up again without a single byte."""
PAUSE = 0.2
"""Seconds before a transfer that broke off is taken up again."""


class Courier:
    """The asking half of a peer. All methods may be called from several threads, and raise
    AskFailed or Refused."""

    def __init__(
        self, stamp: Stamp, schema: Schema, net: Net, audit: Audit, board: Board, rounds: int
    ) -> None:
        self._rounds = rounds
        self._stamp, self._schema, self._net, self._audit, self._board = (
            stamp,
            schema,
            net,
            audit,
            board,
        )
        self._me = stamp.identity.name
        self._lock, self._debts = threading.Lock(), Counter[str]()
        self.link: Callable[[], Link] = _no_link
        self.roster: Roster

    def _ask(
        self,
        peer: str,
        method: str,
        round: int,
        data: Mapping[str, Any],
        timeout: float,
        nonce: str = "",
    ) -> tuple[bytes, str]:
        """One small ask: the bytes of the answer, and the nonce that it must refer to."""
        nonce = nonce or secrets.token_hex(16)
        payload = self._stamp.seal(
            "ask", round, to=peer, data={"method": method, **data}, nonce=nonce
        )
        with self._owed(peer):
            parts = [
                part
                for _, part in self.link().ask(
                    peer, method, payload, timeout, SMALL, self._alive(peer)
                )
            ]
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
        return lambda: self._board.alive(peer)

    def ping(self, peer: str, timeout: float) -> None:
        """Is anybody there? If not, nobody waits for it any longer."""
        try:
            self.hello(peer, timeout)
        except AskFailed as failed:
            if failed.reason == "timeout":
                self._audit("silent", peer)
                self._board.silent(peer)
        except Refused as refused:
            self._audit.refuse(peer, refused.reason, str(refused))
            self._board.silent(peer)

    def _want(
        self,
        *kinds: Kind,
        peer: str,
        round: int | None = None,
        re: str | None = None,
        any: bool = False,
    ) -> Expected:
        return Expected(
            me=self._me,
            schema=self._schema,
            kinds=kinds,
            sender=peer,
            round=round,
            re=re,
            max_age=self._net.max_age,
            any_schema=any,
        )

    def _open(self, data: bytes, want: Expected) -> tuple[Manifest, bytes]:
        """A head that is believed is a sign of life; and nobody is past the last round."""
        manifest, rest = open_head(data, self.roster, want)
        if manifest.kind == "card" and manifest.round > self._rounds - (
            manifest.data.get("phase") != "done"
        ):
            raise Refused("wrong round", f"{manifest.round} of {self._rounds}")
        self._board.heard(manifest.sender)
        return manifest, rest

    @property
    def in_step(self) -> bool:
        """Whether all do the same round."""
        return self._net.sync == "round"

    def hello(self, peer: str, timeout: float = 3.0) -> Manifest:
        """What a member says of itself; it may have another schema."""
        data, nonce = self._ask(peer, "hello", 0, {}, timeout)
        return self._open(data, self._want("answer", peer=peer, re=nonce, any=True))[0]

    def card(self, peer: str, round: int = -1, timeout: float = 3.0) -> Notice:
        """A member's card of a round (-1: its newest)."""
        data, _ = self._ask(peer, "card", round, {}, timeout)
        manifest, body = self._open(
            data, self._want("card", peer=peer, round=None if round < 0 else round)
        )
        notice = read_notice(manifest, body, self._schema)
        self._board.post(notice, again=True)
        return notice

    def on_card(self, sender: str, data: bytes) -> None:
        """A card was published."""
        manifest, body = self._open(data, self._want("card", peer=sender))
        self._board.post(read_notice(manifest, body, self._schema))

    def card_of(self, peer: str, notice: Notice) -> Card:
        """The card of a notice, fetched if it was too large to travel with it."""
        sketch = notice.sketch
        if notice.fetch:
            body = self._body(
                peer, notice.manifest, {"kind": "card"}, time.monotonic() + self._net.patience
            )
            sketch = decode_sketch(body, self._schema.sketch)
        if sketch is None:
            raise AskFailed("its card has no sketch")
        return Card(peer, notice.round, notice.data.examples, notice.data.degree, sketch)

    def losses(self, peer: str, round: int) -> Losses:
        data, nonce = self._ask(peer, "losses", round, {}, self._net.patience)
        manifest, _ = self._open(data, self._want("answer", peer=peer, round=round, re=nonce))
        return losses_of(manifest)

    def model(self, peer: str, kind: Kind, round: int) -> tuple[Share, int]:
        """A member's model of a round, and how many examples stand behind it."""
        until = time.monotonic() + self._net.patience
        data, _ = self._ask(peer, "head", round, {"kind": kind}, self._net.patience)
        manifest, _ = self._open(data, self._want(kind, peer=peer, round=round))
        examples = said(ShareData, manifest).examples
        body = self._body(peer, manifest, {"kind": kind}, until)
        return decode_share(manifest, body, self._schema)[0], examples

    def visit(self, peer: str, fact: str, round: int) -> Offer:
        """Be a member's guest: it fetches my model, and I fetch what came of it."""
        until = time.monotonic() + self._net.patience
        kind: Kind = "visit" if fact == "Visit" else "probe"
        data, nonce = self._ask(peer, "host", round, {"fact": fact}, self._net.patience)
        manifest, _ = self._open(data, self._want(kind, peer=peer, re=nonce))
        if self._net.sync == "round" and manifest.round != round:
            raise Refused("wrong round", f"{manifest.round}, expected {round}")
        found = said(VisitData, manifest)
        body = self._body(peer, manifest, {"kind": kind, "visit": nonce}, until)
        share, sketch = (
            decode_share(manifest, body, self._schema) if kind == "visit" else (None, None)
        )
        if sketch is None:
            sketch = decode_sketch(body, self._schema.probe)
        card = Card(peer, manifest.round, found.examples, found.degree, sketch)
        return Offer(found.examples, card, share, Losses(found.before, found.after))

    def _body(
        self, peer: str, manifest: Manifest, what: Mapping[str, Any], until: float
    ) -> bytearray:
        """The body of a head, taken up again where it broke off, as long as there is time and the
        member is there."""
        body, idle = bytearray(), 0
        while len(body) < manifest.length:
            left, before = until - time.monotonic(), len(body)
            if left <= 0 or idle > PATIENT:
                raise AskFailed(f"timeout: after {len(body)} of {manifest.length} bytes")
            try:
                self._more(peer, manifest, what, body, left)
            except AskFailed as failed:
                if counted(failed.reason) == "not here" or not self._board.alive(peer):
                    raise
                self._audit(
                    "resumed", peer, counted(failed.reason), at=len(body), of=manifest.length
                )
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
    ) -> None:
        ask = {"method": "body", **what, "offset": len(body)}
        payload = self._stamp.seal("ask", manifest.round, to=peer, data=ask)
        left = manifest.length - len(body)
        with self._owed(peer):
            for offset, part in self.link().ask(
                peer, "body", payload, timeout, left, self._alive(peer), bulk=True
            ):
                self._board.heard(peer)
                if offset == len(body):
                    body += part
                elif offset > len(body):
                    raise AskFailed("a part is missing")


def _no_link() -> Link:
    raise AskFailed("not connected")
