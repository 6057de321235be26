"""The door: where the authority's signature suffices, members show each other their passes, and
those of the others whom they know.

Whoever has a link knocks at everybody else's: it shows its own pass, signed a moment ago. Who
answers shows its own and, if their books differ, those of all members that it knows, sealed to the
key on the pass. Nobody's word is taken for another: every pass is checked for itself. Who is let in
stands in a file of the state directory, where membership finds it, and is then a member like one
whom the roster lists.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from cryptography.x509 import Certificate

from amity.core import PeerId
from amity.errors import IdentityError, StorageError
from amity.files import write_atomically
from amity.net.audit import Audit
from amity.net.errands import Errands
from amity.net.limits import Bucket
from amity.net.link.base import AskFailed, Link, Request
from amity.net.membership import Papers
from amity.net.sealed.boxes import Box, seal
from amity.net.trust.identity import load_certificates
from amity.net.trust.passes import (
    EARLY,
    Book,
    Pass,
    admit,
    digest_of,
    dump_book,
    open_pass,
    sign_pass,
)
from amity.net.wire import Refused

KNOCKS = 50.0
"""Knocks that are answered in a second, whoever they are from."""
SOON, MET, LONGEST = 1.0, 5.0, 60.0
"""Seconds between two knocks of mine: after something is new, after a member came, and at most."""
MOST = 1024
"""Passes in one answer; if there are more, they are drawn by lot."""
MOST_BYTES = 16 << 20
PATIENCE = 3.0
"""Seconds for an answer."""
SETTLED = 600.0
"""Seconds for which a pass holds before a later one of the same member counts: whoever moved to and
fro would have all others open their links anew."""
STRANGE = 10.0
"""Seconds after which somebody who is linked and was not let in is reported."""


class Admitting:
    """Lets members in, and is let in. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        path: Path,
        papers: Callable[[], Papers],
        link: Callable[[], Link],
        errands: Errands,
        audit: Audit,
    ) -> None:
        self._path, self._papers, self._link = path, papers, link
        self._errands, self._audit = errands, audit
        self._lock = threading.Lock()
        self._book: Book = dict(papers().book)
        self._box = Box()
        self._answering = ThreadPoolExecutor(1, "door")
        self._bucket = Bucket(KNOCKS)
        self._due, self._pause = 0.0, SOON
        self._strangers: dict[PeerId, float] = {}
        self._since: dict[PeerId, float] = {}
        """When the pass of a member last changed."""

    def close(self) -> None:
        self._answering.shutdown(wait=False, cancel_futures=True)

    # -- knocking ----------------------------------------------------------------------------------

    def soon(self) -> None:
        """Something is new: a pass, or somebody whom I do not know."""
        self._due, self._pause = min(self._due, time.monotonic() + SOON), SOON

    def met(self) -> None:
        """A member came, who may know others."""
        self._due = min(self._due, time.monotonic() + MET)

    def stranger(self, name: PeerId) -> None:
        """Called by the link, again and again: somebody is linked whom I do not know."""
        since = self._strangers.setdefault(name, time.monotonic())
        if time.monotonic() - since > STRANGE:
            self._audit("refused", "", "no pass", link=name[:63])
        else:
            self.soon()

    def beat(self) -> None:
        """About once a second."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._pause
            self._pause = min(LONGEST, 2 * self._pause)
            self._errands.once("knock", "", self.knock)

    def knock(self) -> None:
        """Show my pass to everybody whom I am linked to, and take in what they show."""
        with suppress(AskFailed, IdentityError):  # not connected, or a torn file: I knock again
            papers = self._papers()
            me = papers.roster.members[papers.identity.name]
            mine = sign_pass(papers.identity, papers.roster.network, me.address, self._box.public)
            self._take([mine])
            ask = {"pass": mine.decode(), "book": digest_of(self._current())}
            for sealed in self._link().knock(
                json.dumps(ask).encode(), timeout=PATIENCE, limit=MOST_BYTES
            ):
                self._take_sealed(sealed)

    def _take_sealed(self, sealed: bytes) -> None:
        try:
            self._take(_passes(self._box.open(sealed, self._about(self._box.public))))
        except Refused as refused:
            self._audit.refuse("", refused.reason, f"at the door: {refused}")

    def _about(self, box: bytes) -> str:
        return f"amity door {self._papers().roster.network} {box.hex()}"

    def _current(self) -> Book:
        """Those whom I can recommend: their certificates hold today, and are not revoked."""
        revoked = self._papers().revoked
        gone = {} if revoked is None else revoked.keys
        return {
            name: one
            for name, one in self._book.items()
            if one.valid and one.member.fingerprint not in gone
        }

    # -- answering ---------------------------------------------------------------------------------

    def on_knock(self, request: Request) -> None:
        """Called by the link."""
        if not self._bucket.take():
            self._audit("refused", "", "too many knocks")
            request.fail("too many asks")
            return
        try:
            self._answering.submit(self._answer, request)
        except RuntimeError:  # closing
            request.fail("closing")

    def _answer(self, request: Request) -> None:
        try:
            shown, theirs = _knocked(request.payload)
            found = self._opened(shown, self._authorities())
            if abs(found.age) > EARLY:
                raise IdentityError(f"{found.member.name}: knocks with a pass of another time")
            if self._admit([found]):
                request.reply(seal(self._told(theirs), found.box, self._about(found.box)))
                request.done()
                return
        except (IdentityError, Refused) as error:
            self._refuse(error)
        request.fail("no pass")

    def _told(self, digest: str) -> bytes:
        """What somebody is told whose book has this digest."""
        book = self._current()
        known = [] if digest == digest_of(book) else list(book.values())
        chosen = random.sample(known, min(MOST, len(known)))
        return json.dumps([one.signed.decode() for one in chosen]).encode()

    # -- letting in --------------------------------------------------------------------------------

    def _authorities(self) -> Sequence[Certificate]:
        return load_certificates(self._papers().identity.ca_path)

    def _opened(self, signed: bytes, authorities: Sequence[Certificate]) -> Pass:
        return open_pass(signed, authorities, self._papers().roster.network)

    def _take(self, shown: Sequence[bytes]) -> None:
        """What an answer brought, until something in it is no pass: who is honest passes on none
        such. Those that I have are not opened again."""
        authorities, found = self._authorities(), list[Pass]()
        have = {one.signed for one in self._book.values()}
        try:
            for signed in shown[:MOST]:
                if signed not in have:
                    found.append(self._opened(signed, authorities))
        except IdentityError as error:
            self._refuse(error)
        self._admit(found)

    def _admit(self, found: Sequence[Pass]) -> bool:
        """Write down who may come in; membership reads it, and opens the line anew. Returns whether
        all of them may."""
        with self._lock:
            book, all_good = self._book, True
            for one in found:
                try:
                    book = self._with(book, one)
                except IdentityError as error:
                    self._refuse(error)
                    all_good = False
            if book is self._book:
                return all_good
            try:
                write_atomically(self._path, dump_book(book))
            except StorageError as error:  # they knock again
                self._audit("error", why="storage", message=str(error))
                return False
            self._book = book
        self.soon()
        return all_good

    def _with(self, book: Book, one: Pass) -> Book:
        """The book with one more pass; the same while that member's has just changed."""
        papers, name, now = self._papers(), one.member.name, time.monotonic()
        after = admit(book, one, papers.roster, papers.revoked)
        if after is book or (name in book and now - self._since.get(name, now - SETTLED) < SETTLED):
            return book
        self._since[name] = now
        return after

    def _refuse(self, error: IdentityError | Refused) -> None:
        self._audit.refuse("", "no pass", str(error))


def _knocked(payload: bytes) -> tuple[bytes, str]:
    """A pass, and the digest of its holder's book."""
    try:
        fields = json.loads(payload)
        return fields["pass"].encode(), str(fields["book"])[:64]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise IdentityError("a knock: is not in the form of one") from None


def _passes(text: bytes) -> list[bytes]:
    try:
        return [one.encode() for one in json.loads(text)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise Refused("malformed", "an answer at the door") from None
