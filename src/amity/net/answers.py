"""What a peer answers, once it knows who asks.

| method | answer |
|---|---|
| `hello` | my version and my keys, to whoever tells its own; sealed: version, round, phase |
| `terms` | what all members must have in common with me, in words |
| `revoked` | the authority's list of revoked members, if mine is newer than the asker's |
| `card` | my newest card |
| `head` | signed manifest of a model (`share`, `start`) or a large card of the last two rounds |
| `body` | its bytes from an offset on, in chunks |
| `losses` | my losses before and after training |
| `says` | what my strategy said at the end of the round before |
| `shown` | how I am doing, if `net.show` allows it: metric, bytes, whom I took |
| `exchange` | fetches cards that the asker hands over; the head of what it gets for them |
| `host` | fetches the asker's model, probes or trains it here; the head of what came of it |
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping

from amity._version import __version__
from amity.core import START, Row, Share
from amity.facts import REPLY_BYTES, Fact, Probe, Visit
from amity.net.audit import Audit
from amity.net.board import KEPT
from amity.net.limits import Allowance
from amity.net.link.base import AskFailed, Request
from amity.net.moment import Blob, Moment
from amity.net.options import Net
from amity.net.spending import Spending
from amity.net.tally import BOOKED, Tally
from amity.net.wire import PROTOCOL, Manifest, Refused, Stamp
from amity.records import PeerRecord
from amity.round.saying import encode_says

FACTS: Mapping[str, Fact] = {"Probe": Probe(), "Visit": Visit()}
"""What a guest may ask for."""
Guest = Callable[[str, int], Share]
"""Fetches a member's model of the start of a round."""
Answer = Callable[[Request, Manifest, Allowance], None]


class Unavailable(Exception):
    """Asked for something that is not here (yet, or any more): no fault of the asker."""


class Answering:
    """What can be asked about the last two rounds. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        stamp: Stamp,
        net: Net,
        audit: Audit,
        spending: Spending,
        tally: Tally,
        guest: Guest,
        terms: bytes,
        keys: Callable[[Manifest], Mapping[str, int | str]],
        revoked: Callable[[str, int], bytes],
    ) -> None:
        """`revoked`: what somebody gets who has a list of some number."""
        self._stamp, self._net, self._audit, self._guest = stamp, net, audit, guest
        self._spending, self._tally, self._terms, self._keys = spending, tally, terms, keys
        self._newer_list = revoked
        self._lock = threading.Lock()
        self._moments: dict[int, Moment] = {}
        self._visits: dict[tuple[str, str], tuple[int, Blob]] = {}
        self._invited: set[tuple[int, str]] = set()
        """Whom I asked to host me, by round: they may have my start model."""
        self._farewell: Blob | None = None
        self.told: set[str] = set()
        """Who has asked for my terms."""
        self.methods: dict[str, Answer] = {
            "hello": self._hello,
            "terms": self._tell_terms,
            "revoked": self._revoked,
            "card": self._card,
            "head": self._head,
            "body": self._body,
            "losses": self._losses,
            "says": self._says,
            "shown": self._tell_shown,
            "host": self._host,
        }
        self._shown: tuple[int, PeerRecord, Row] | None = None

    def offer(self, moment: Moment) -> None:
        """From now on this round can be asked about; two rounds are kept."""
        with self._lock:
            self._moments[moment.round] = moment
            for old in sorted(self._moments)[:-KEPT]:
                del self._moments[old]
            oldest = min(self._moments)
            self._visits = {key: found for key, found in self._visits.items() if found[0] >= oldest}
            self._invited = {(round, name) for round, name in self._invited if round >= oldest}

    def ready(self, round: int) -> Moment:
        """A round of mine in which I take part."""
        moment = self._moment(round)
        if round < 0 or moment.phase == "joining":
            raise Unavailable(f"round {round}")
        return moment

    def keep(self, asker: str, nonce: str, round: int, blob: Blob) -> None:
        """Something made for one asker alone, until it is fetched."""
        with self._lock:
            self._visits[asker, nonce] = (round, blob)

    def invite(self, name: str, round: int) -> None:
        """From now on this member may have my start model of a round."""
        with self._lock:
            self._invited.add((round, name))

    def say_farewell(self, card: Blob) -> None:
        """All rounds are done: this is my last card."""
        self._farewell = card

    # -- methods -----------------------------------------------------------------------------------

    def _answer(
        self, request: Request, manifest: Manifest, data: Mapping[str, int | float | str]
    ) -> None:
        head = self._stamp.seal(
            "answer", manifest.round, to=request.asker, re=manifest.nonce, data=data
        )
        self._audit.meters.bytes.labels("out").inc(len(head))
        request.reply(head)

    def _moment(self, round: int) -> Moment:
        """Of a round; -1: the newest."""
        with self._lock:
            wanted = max(self._moments, default=-1) if round < 0 else round
            moment = self._moments.get(wanted)
        if moment is None:
            raise Unavailable(f"round {round}")
        return moment

    def _hello(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        if keys := self._keys(manifest):  # in the clear, so nothing else
            self._answer(request, manifest, keys)
            return
        with self._lock:
            newest = max(self._moments, default=-1)
            phase = self._moments[newest].phase if self._moments else "joining"
        data: Mapping[str, int | float | str] = {
            "version": __version__,
            "protocol": PROTOCOL,
            "round": newest,
            "phase": phase,
        }
        self._answer(request, manifest, data)

    def _tell_terms(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        head = self._stamp.seal(
            "terms", manifest.round, self._terms, to=request.asker, re=manifest.nonce
        )
        self._audit.meters.bytes.labels("out").inc(len(head) + len(self._terms))
        request.reply(head + self._terms)
        self.told.add(request.asker)

    def _revoked(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        number = manifest.data.get("number")
        if type(number) is not int:
            raise Refused("malformed", "a list has a number")
        body = self._newer_list(request.asker, number)
        head = self._stamp.seal(
            "revoked", manifest.round, body, to=request.asker, re=manifest.nonce
        )
        self._audit.meters.bytes.labels("out").inc(len(head) + len(body))
        request.reply(head + body)

    def _card(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        last = self._farewell if manifest.round < 0 else None
        request.reply((last or self._moment(manifest.round).blob("card")).message)

    def _head(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        blob = self._blob(request, manifest)
        self._disclose(request, manifest)
        request.reply(blob.head)

    def _body(self, request: Request, manifest: Manifest, allowance: Allowance) -> None:
        body, offset = self._blob(request, manifest).body, manifest.data.get("offset", 0)
        if not isinstance(offset, int) or not 0 <= offset < max(len(body), 1):
            raise Refused("malformed", f"offset {offset!r}")
        self._disclose(request, manifest)
        kind = BOOKED[str(manifest.data["kind"])]
        with allowance.transfer():
            for at in range(offset, len(body), self._net.chunk):
                part = body[at : at + self._net.chunk]
                if wait := allowance.pace(len(part)):
                    time.sleep(min(wait, self._net.patience))
                self._tally.sent(kind, len(part))  # whoever has it finds it booked
                request.reply(part, at)
        self._audit.meters.bytes.labels("out").inc(len(body) - offset)

    def _blob(self, request: Request, manifest: Manifest) -> Blob:
        """What a head or a body is asked of, if this asker may have it."""
        kind = manifest.data.get("kind")
        if manifest.round < 0:
            raise Refused("malformed", "a model is of some round")
        if kind in ("probe", "visit", "sum", "cards"):
            found = self._visits.get((request.asker, str(manifest.data.get("visit"))))
            if found is None:
                raise Unavailable("no such visit")
            return found[1]
        if self._net.masked and kind in ("share", "start"):
            raise Refused("not alone", "models leave this peer in masked sums (net.masked)")
        if kind == "start" and (manifest.round, request.asker) not in self._invited:
            raise Refused("not invited", "a start model is for those whom I asked to host it")
        if kind not in ("card", "share", "start"):
            raise Refused("malformed", f"unknown kind {kind!r}")
        moment = self._moment(manifest.round)
        if moment.phase == "joining" and kind == "share":
            raise Unavailable("joining")
        return moment.blob(str(kind))

    def _disclose(self, request: Request, manifest: Manifest) -> None:
        """Before a model leaves."""
        if manifest.data.get("kind") == "share":
            self._spending.disclose("share", manifest.round)
        elif manifest.data.get("kind") == "start":
            self._spending.disclose("start", manifest.round, request.asker)

    def _losses(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        if manifest.round < 0:
            raise Refused("malformed", "losses are of some round")
        losses = self._moment(manifest.round).losses()
        self._spending.disclose("losses", manifest.round, request.asker)
        self._tally.sent("reply", REPLY_BYTES)
        self._answer(request, manifest, {"before": losses.before, "after": losses.after})

    def _says(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        if manifest.round < 0:
            raise Refused("malformed", "what is said is of some round")
        body = encode_says(self._moment(manifest.round).says)
        head = self._stamp.seal("says", manifest.round, body, to=request.asker, re=manifest.nonce)
        self._spending.disclose("says", manifest.round, request.asker)
        self._tally.sent("reply", len(body))
        self._audit.meters.bytes.labels("out").inc(len(head) + len(body))
        request.reply(head + body)

    def show(self, round: int, record: PeerRecord, row: Row) -> None:
        """From now on members may see how this round went."""
        self._shown = (round, record, row)

    def _tell_shown(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        if self._net.show == "nothing" or self._shown is None:
            raise Unavailable("nothing is shown")
        round, record, row = self._shown
        body = encode_says({j: float(weight) for j, weight in row.items() if j != START})
        data: dict[str, int | float | str] = {"received": record.received, "sent": record.sent}
        if (value := record.lead()) is not None and math.isfinite(value):
            data["value"] = float(value)
        head = self._stamp.seal(
            "shown", round, body, to=request.asker, re=manifest.nonce, data=data
        )
        self._spending.disclose("shown", round, request.asker)
        self._audit.meters.bytes.labels("out").inc(len(head) + len(body))
        request.reply(head + body)

    def _host(self, request: Request, manifest: Manifest, allowance: Allowance) -> None:
        if self._net.masked:
            raise Refused("not alone", "no visits where models are summed under masks (net.masked)")
        fact = FACTS.get(str(manifest.data.get("fact")))
        if fact is None:
            raise Refused("malformed", "unknown fact")
        if manifest.round < 0:
            raise Refused("malformed", "a visit is of some round")
        moment = self._moment(-1 if self._net.sync == "none" else manifest.round)
        allowance.visit(moment.round)  # of mine: the visitor's rounds are what it says they are
        with allowance.hosted():
            blob = self._hosted(moment, fact, request.asker, manifest)
        with self._lock:
            self._visits[request.asker, manifest.nonce] = (moment.round, blob)
        self._tally.sent("reply", REPLY_BYTES)
        request.reply(blob.head)

    def _hosted(self, moment: Moment, fact: Fact, visitor: str, manifest: Manifest) -> Blob:
        """What a guest takes home."""
        try:
            guest = self._guest(visitor, manifest.round)
        except AskFailed as failed:
            raise Unavailable(f"your model did not come ({failed.reason[:40]})") from None
        hosted = self._spending.hosted(
            type(fact).__name__.lower(),
            moment.round,
            visitor,
            lambda allowed: moment.host(fact, guest, visitor, allowed),
        )
        return moment.visit_blob(hosted.offer, visitor, manifest.nonce)
