"""Asks other members, and believes only what is signed, in time, and of the right shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from amity.core import Card, Share
from amity.facts import REPLY_BYTES, Losses, Offer
from amity.net.album import Album
from amity.net.audit import Audit
from amity.net.board import Board, Notice, read_notice
from amity.net.calls import Calls
from amity.net.link.base import AskFailed
from amity.net.options import Net
from amity.net.tally import Tally
from amity.net.trust.roster import Roster
from amity.net.wire import (
    Expected,
    HandData,
    Kind,
    Manifest,
    Refused,
    ShareData,
    ShownData,
    Terms,
    VisitData,
    WireSchema,
    check_body,
    decode_share,
    decode_sketch,
    losses_of,
    open_head,
    said,
    says_in,
)
from amity.peer.fixed import Words


class Courier:
    """The asking half of a peer. All methods may be called from several threads, and raise
    AskFailed or Refused."""

    def __init__(
        self,
        *,
        me: str,
        schema: WireSchema,
        net: Net,
        rounds: int,
        calls: Calls,
        board: Board,
        audit: Audit,
        tally: Tally,
        roster: Callable[[], Roster],
        norm: Callable[[], float],
        album: Album | None = None,
    ) -> None:
        self._me, self._schema, self._net, self._rounds = me, schema, net, rounds
        self._calls, self._board, self._audit, self._tally = calls, board, audit, tally
        self._roster, self._norm, self._album = roster, norm, album

    # -- belief ------------------------------------------------------------------------------------

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
        manifest, rest = open_head(data, self._roster(), want)
        if manifest.kind == "card" and manifest.round > self._rounds - (
            manifest.data.get("phase") != "done"
        ):
            raise Refused("wrong round", f"{manifest.round} of {self._rounds}")
        self._board.heard(manifest.sender)
        if want.re is not None:
            self._board.proved(manifest.sender)
        return manifest, rest

    def _post(self, data: bytes, want: Expected, again: bool = False) -> Notice:
        manifest, body = self._open(data, want)
        notice = read_notice(manifest, body, self._schema, data[: len(data) - len(body)])
        if self._board.post(notice, again):
            self._board.proved(manifest.sender)
            self._tally.card_came(manifest.sender, manifest.round, len(body))
        return notice

    # -- signs of life -----------------------------------------------------------------------------

    @property
    def in_step(self) -> bool:
        """Whether all do the same round."""
        return self._net.sync == "round"

    def owing(self, peer: str) -> bool:
        """Whether a member owes me an answer."""
        return self._calls.owing(peer)

    def hello(self, peer: str, timeout: float = 3.0) -> Manifest:
        """What a member says of itself; it may have another schema."""
        data, nonce = self._calls.ask(peer, "hello", 0, {}, timeout)
        return self._open(data, self._want("answer", peer=peer, re=nonce, any=True))[0]

    def terms(self, peer: str, timeout: float = 3.0) -> tuple[str, Terms | None]:
        """The digest of what a member says that all must have in common, and the whole of it;
        None: too long to be told."""
        data, nonce = self._calls.ask(peer, "terms", 0, {}, timeout)
        manifest, body = self._open(data, self._want("terms", peer=peer, re=nonce, any=True))
        check_body(manifest, body)
        return manifest.schema_, Terms.decode(body)

    def revoked(self, peer: str, number: int, timeout: float = 3.0) -> bytes:
        """A member's list of those who were revoked, if it is newer than mine, of this number;
        else nothing. Nobody has checked it yet."""
        data, nonce = self._calls.ask(peer, "revoked", 0, {"number": number}, timeout)
        manifest, body = self._open(data, self._want("revoked", peer=peer, re=nonce, any=True))
        check_body(manifest, body)
        return body

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

    # -- cards -------------------------------------------------------------------------------------

    def on_card(self, sender: str, data: bytes) -> None:
        """A card was published."""
        self._post(data, self._want("card", peer=sender))

    def card(self, peer: str, round: int = -1, timeout: float = 3.0) -> Notice:
        """A member's card of a round (-1: its newest)."""
        data, _ = self._calls.ask(peer, "card", round, {}, timeout)
        want = self._want("card", peer=peer, round=None if round < 0 else round)
        return self._post(data, want, again=True)

    def card_of(self, peer: str, notice: Notice) -> Card:
        """The card of a notice, fetched if it was too large to travel with it."""
        sketch = self.whole(peer, notice).sketch
        if sketch is None:
            raise AskFailed("its card has no sketch")
        return Card(peer, notice.round, notice.data.examples, notice.data.degree, sketch)

    def whole(self, peer: str, notice: Notice) -> Notice:
        """A card with its sketch; one that has been here before is not fetched again."""
        if not notice.fetch:
            return notice
        known = notice.manifest
        body = None if self._album is None else self._album.body(peer, known.sha256)
        if body is None:
            until = time.monotonic() + self._net.patience
            body = bytes(self._calls.body(peer, known, {"kind": "card"}, until))
        card = read_notice(known, body, self._schema, notice.head)
        if self._album is not None:
            self._album.keep(card)
        return card

    def cards(
        self, peer: str, round: int, visit: str, swap: bool = False
    ) -> tuple[HandData, bytes]:
        """Cards that a member hands over, which nobody has opened yet. `swap`: in exchange for
        those of mine that it finds under `visit`; otherwise its own are found there."""
        until = time.monotonic() + self._net.patience
        method, data = ("exchange", {}) if swap else ("head", {"kind": "cards"})
        answer, nonce = self._calls.ask(
            peer, method, round, {**data, "visit": visit}, self._net.patience
        )
        manifest, _ = self._open(answer, self._want("cards", peer=peer, re=nonce if swap else None))
        where = {"kind": "cards", "visit": nonce if swap else visit}
        return said(HandData, manifest), bytes(self._calls.body(peer, manifest, where, until))

    # -- losses and models -------------------------------------------------------------------------

    def losses(self, peer: str, round: int) -> Losses:
        data, nonce = self._calls.ask(peer, "losses", round, {}, self._net.patience)
        manifest, _ = self._open(data, self._want("answer", peer=peer, round=round, re=nonce))
        losses = losses_of(manifest)
        self._tally.received("reply", REPLY_BYTES)
        return losses

    def says(self, peer: str, round: int) -> Mapping[str, float]:
        """What a member's strategy said before a round."""
        data, nonce = self._calls.ask(peer, "says", round, {}, self._net.patience)
        manifest, body = self._open(data, self._want("says", peer=peer, round=round, re=nonce))
        check_body(manifest, body)
        says = says_in(body)
        self._tally.received("reply", len(body))
        return says

    def shown(self, peer: str) -> dict[str, Any]:
        """What a member shows of its newest round. These bytes are not part of learning."""
        data, nonce = self._calls.ask(peer, "shown", -1, {}, self._net.patience)
        manifest, body = self._open(data, self._want("shown", peer=peer, re=nonce))
        check_body(manifest, body)
        told = said(ShownData, manifest)
        return {"round": manifest.round, **told.model_dump(), "row": says_in(body)}

    def model(self, peer: str, kind: Kind, round: int) -> tuple[Share, int]:
        """A member's model of a round, and how many examples stand behind it."""
        until = time.monotonic() + self._net.patience
        data, _ = self._calls.ask(peer, "head", round, {"kind": kind}, self._net.patience)
        manifest, _ = self._open(data, self._want(kind, peer=peer, round=round))
        examples = said(ShareData, manifest).examples
        body = self._calls.body(peer, manifest, {"kind": kind}, until)
        return self._share(manifest, body)[0], examples

    def _share(
        self, manifest: Manifest, body: bytes | bytearray
    ) -> tuple[Share, torch.Tensor | None]:
        """A model that is no monster beside mine."""
        return decode_share(manifest, body, self._schema, self.largest)

    @property
    def largest(self) -> float:
        """The norm that a model may have."""
        return self._net.max_norm * self._norm()

    def term(self, peer: str, round: int, number: str, crowd: str, weight: float) -> Words:
        """A member's term of a masked sum."""
        until = time.monotonic() + self._net.patience
        data = {"number": number, "crowd": crowd, "weight": weight}
        answer, nonce = self._calls.ask(peer, "sum", round, data, self._net.patience)
        manifest, _ = self._open(answer, self._want("sum", peer=peer, round=round, re=nonce))
        if manifest.length != 4 * self._schema.size:
            raise Refused("wrong shape", f"a term of {manifest.length} bytes")
        body = self._calls.body(peer, manifest, {"kind": "sum", "visit": nonce}, until)
        return np.frombuffer(body, "<u4").astype(np.uint32)

    def visit(self, peer: str, fact: str, round: int) -> Offer:
        """Be a member's guest: it fetches my model, and I fetch what came of it."""
        until = time.monotonic() + self._net.patience
        kind: Kind = "visit" if fact == "Visit" else "probe"
        data, nonce = self._calls.ask(peer, "host", round, {"fact": fact}, self._net.patience)
        manifest, _ = self._open(data, self._want(kind, peer=peer, re=nonce))
        if self.in_step and manifest.round != round:
            raise Refused("wrong round", f"{manifest.round}, expected {round}")
        schema = self._schema.at(manifest.round)
        if schema is not self._schema.at(round):
            raise Refused(
                "wrong round", f"a change is planned between {manifest.round} and {round}"
            )
        found = said(VisitData, manifest)
        self._tally.received("reply", REPLY_BYTES)
        body = self._calls.body(peer, manifest, {"kind": kind, "visit": nonce}, until)
        share, sketch = self._share(manifest, body) if kind == "visit" else (None, None)
        if sketch is None:
            sketch = decode_sketch(body, schema.probe, schema.bits)
        card = Card(peer, manifest.round, found.examples, found.degree, sketch)
        return Offer(found.examples, card, share, Losses(found.before, found.after))
