"""Answers what other members ask. Nothing is answered before the asker is known by key, name and
signature.

| method | answer |
|---|---|
| `hello` | my schema, version, round |
| `card` | my newest card |
| `head` | signed manifest of a model (`share`, `start`) or of a large card, of one of the last two rounds |
| `body` | its bytes from an offset on, in chunks |
| `losses` | my losses before and after training |
| `host` | fetches the asker's model, probes or trains it here within limits, and answers with the head of what came of it |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import torch

from amity._version import __version__
from amity.core import Share
from amity.errors import StorageError, brief
from amity.facts import REPLY_BYTES, Ledger, Probe, Visit
from amity.net.accounts import Accounts
from amity.net.audit import Audit
from amity.net.board import KEPT
from amity.net.limits import Allowance
from amity.net.link.zenoh import AskFailed, Request
from amity.net.moment import Blob, Moment
from amity.net.options import Net
from amity.net.trust.roster import Roster
from amity.net.wire import SKEW_MS, Expected, Manifest, Refused, Schema, Stamp, open_head
from amity.peer.proxy import CardSpec

ASK_AGE = 60.0
"""Seconds after which an ask is stale."""
FACTS = {"Probe": Probe(), "Visit": Visit()}
ONE_THREAD = (torch.set_num_threads, (1,))
"""torch counts its threads for each thread of ours: with another number, sums have other bits."""
Guest = Callable[[str, int], Share]
"""Fetches a member's model of the start of a round."""


class Absent(Exception):
    """Asked for something that is not here (yet, or any more): no fault of the asker."""


class Service:
    """The answering half of a peer."""

    def __init__(
        self,
        stamp: Stamp,
        schema: Schema,
        net: Net,
        audit: Audit,
        accounts: Accounts,
        spec: CardSpec | None,
        guest: Guest,
    ) -> None:
        self._stamp, self._schema, self._net, self._audit, self._accounts = (
            stamp,
            schema,
            net,
            audit,
            accounts,
        )
        self._spec, self._guest = spec, guest
        self._me = stamp.identity.name
        self._roster: Roster | None = None
        self._allowances: dict[str, Allowance] = {}
        self._lock = threading.Lock()
        self._moments: dict[int, Moment] = {}
        self._visits: dict[tuple[str, str], tuple[int, Blob]] = {}
        self.invited: set[tuple[int, str]] = set()
        """Whom I asked to host me, by round: they may have my start model."""
        self.farewell: Blob | None = None
        """My last card, once all rounds are done."""
        self.degree = 0
        self.phase = "joining"
        self.allowed: Callable[[], int | None] = lambda: None
        """Private steps that my budget still has room for."""
        self.spending = threading.Lock()
        """Held while private steps are done and written down, so that two together do not
        overspend."""
        self.rate = 1.0
        """The chance of an example to be in a private step."""
        self.ledger = Ledger()
        """What answering moved; the caller takes it at the end of a round."""
        self._quick = ThreadPoolExecutor(4, "asks", *ONE_THREAD)
        self._bulk: ThreadPoolExecutor | None = None
        self._hosts = ThreadPoolExecutor(8, "visits", *ONE_THREAD)
        self._slow = ThreadPoolExecutor(8, "losses", *ONE_THREAD)
        """What may wait for the learner has threads of its own: greetings and cards never wait."""
        self._methods: Mapping[str, Callable[[Request, Manifest, Allowance], None]] = {
            "hello": self._hello,
            "card": self._card,
            "head": self._head,
            "body": self._body,
            "losses": self._losses,
            "host": self._host,
        }

    def admit(self, roster: Roster) -> None:
        """Answer the members of this roster, and nobody else."""
        with self._lock:
            self._roster = roster
            old = self._allowances
            self._allowances = {
                name: old.get(name) or Allowance(self._net)
                for name in roster.names
                if name != self._me
            }
            if self._bulk is None:
                self._bulk = ThreadPoolExecutor(
                    min(128, self._net.transfers * max(4, len(roster.names))), "transfers"
                )

    def offer(self, moment: Moment) -> None:
        """From now on this round can be asked about; two rounds are kept."""
        with self._lock:
            self._moments[moment.round] = moment
            for old in sorted(self._moments)[:-KEPT]:
                del self._moments[old]
            oldest = min(self._moments)
            self._visits = {key: found for key, found in self._visits.items() if found[0] >= oldest}
            self.invited = {(round, name) for round, name in self.invited if round >= oldest}

    def allow_card(self, sender: str) -> None:
        """Raises if a member publishes more cards than anybody needs."""
        allowance = self._allowances.get(sender)
        if allowance is None:
            raise Refused("not on the roster", repr(sender[:63]))
        allowance.card()

    def take_ledger(self) -> Ledger:
        with self._lock:
            ledger, self.ledger = self.ledger, Ledger()
            for moment in self._moments.values():
                ledger.forward += moment.peer.ledger.forward
                ledger.backward += moment.peer.ledger.backward
                moment.peer.ledger = Ledger()
        return ledger

    def close(self) -> None:
        for pool in (self._quick, self._bulk, self._hosts, self._slow):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    # -- taking asks -------------------------------------------------------------------------------

    def on_ask(self, request: Request) -> None:
        """Called by the link: decides in a few microseconds whether the ask is worth a thread."""
        allowance = self._allowances.get(request.asker)
        if allowance is None:
            self._audit("refused", "", "not on the roster", asker=request.asker[:63])
            request.fail("not on the roster")
            return
        try:
            allowance.ask()
            if not request.payload:  # also: one that is too long to be an ask
                allowance.answered()
                raise Refused("malformed", "no ask")
        except Refused as refused:
            self._audit("refused", request.asker, refused.reason)
            request.fail(refused.reason)
            return
        pools = {"body": self._bulk, "host": self._hosts, "losses": self._slow}
        pool = pools.get(request.method, self._quick) or self._quick
        try:
            pool.submit(self._serve, request, allowance)
        except RuntimeError:  # closing
            allowance.answered()
            request.fail("closing")

    def _serve(self, request: Request, allowance: Allowance) -> None:
        try:
            manifest = self._believe(request, allowance)
            self._methods[request.method](request, manifest, allowance)
            self._audit("answered", request.asker, request.method)
            request.done()
        except Refused as refused:
            self._audit.refuse(request.asker, refused.reason, str(refused))
            request.fail(refused.reason)
        except Absent as absent:
            self._audit("absent", request.asker, request.method)
            request.fail(f"not here: {absent}")
        except StorageError as error:
            self._audit("error", request.asker, "storage", detail=str(error))
            request.fail("unavailable")
        except Exception as error:  # whatever one ask causes must not reach the others
            self._audit("error", request.asker, request.method, detail=brief(error))
            request.fail("failed")
        finally:
            allowance.answered()

    def _believe(self, request: Request, allowance: Allowance) -> Manifest:
        if request.method not in self._methods:
            raise Refused("malformed", f"unknown method {request.method[:40]!r}")
        roster = self._roster
        if roster is None:
            raise Absent("starting")
        greeting = request.method == "hello"
        want = Expected(
            me=self._me,
            schema=self._schema,
            kinds=("ask",),
            sender=request.asker,
            max_age=ASK_AGE,
            any_schema=greeting,
        )
        manifest, _ = open_head(request.payload, roster, want)
        if manifest.to != self._me or manifest.data.get("method") != request.method:
            raise Refused("wrong addressee", "the ask was for somebody or something else")
        allowance.fresh(manifest.nonce, ASK_AGE + 2 * SKEW_MS / 1000)
        return manifest

    def _answer(
        self, request: Request, manifest: Manifest, data: Mapping[str, int | float | str]
    ) -> None:
        head = self._stamp.seal(
            "answer", manifest.round, to=request.asker, re=manifest.nonce, data=data
        )
        self._audit.meters.bytes.labels("out").inc(len(head))
        request.reply(head)

    def _moment(self, round: int) -> Moment:
        with self._lock:
            wanted = max(self._moments, default=-1) if round < 0 else round
            moment = self._moments.get(wanted)
        if moment is None:
            raise Absent(f"round {round}")
        return moment

    # -- methods -----------------------------------------------------------------------------------

    def _hello(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        with self._lock:
            newest = max(self._moments, default=-1)
        data: dict[str, int | float | str] = {
            "version": __version__,
            "round": newest,
            "phase": self.phase,
        }
        self._answer(request, manifest, data)

    def _card(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        last = self.farewell if manifest.round < 0 else None
        request.reply((last or self._moment(manifest.round).blob("card")).message)

    def _blob(self, request: Request, manifest: Manifest) -> Blob:
        kind = manifest.data.get("kind")
        if manifest.round < 0:
            raise Refused("malformed", "a model is of some round")
        if kind in ("probe", "visit"):
            found = self._visits.get((request.asker, str(manifest.data.get("visit"))))
            if found is None:
                raise Absent("no such visit")
            return found[1]
        if kind == "start" and (manifest.round, request.asker) not in self.invited:
            raise Refused("not invited", "a start model is for those whom I asked to host it")
        if kind not in ("card", "share", "start"):
            raise Refused("malformed", f"unknown kind {kind!r}")
        if self.phase == "joining" and kind == "share":
            raise Absent("joining")
        return self._moment(manifest.round).blob(str(kind))

    def _head(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        blob = self._blob(request, manifest)
        self._spend(request, manifest)
        request.reply(blob.head)

    def _spend(self, request: Request, manifest: Manifest) -> None:
        """Before a model leaves."""
        if manifest.data.get("kind") == "share":
            self._accounts.spend("share", manifest.round)
        elif manifest.data.get("kind") == "start":
            self._accounts.spend("start", manifest.round, request.asker)

    def _body(self, request: Request, manifest: Manifest, allowance: Allowance) -> None:
        body, offset = self._blob(request, manifest).body, manifest.data.get("offset", 0)
        if not isinstance(offset, int) or not 0 <= offset < max(len(body), 1):
            raise Refused("malformed", f"offset {offset!r}")
        self._spend(request, manifest)
        with allowance.transfer():
            for at in range(offset, len(body), self._net.chunk):
                part = body[at : at + self._net.chunk]
                if wait := allowance.pace(len(part)):
                    time.sleep(min(wait, self._net.patience))
                request.reply(part, at)
        self._audit.meters.bytes.labels("out").inc(len(body) - offset)
        if manifest.data.get("kind") in ("share", "visit"):
            with self._lock:
                self.ledger.model_out += len(body) - offset

    def _losses(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        if manifest.round < 0:
            raise Refused("malformed", "losses are of some round")
        losses = self._moment(manifest.round).losses()
        self._accounts.spend("losses", manifest.round, request.asker)
        self._answer(request, manifest, {"before": losses.before, "after": losses.after})
        with self._lock:
            self.ledger.reply_out += REPLY_BYTES

    def _host(self, request: Request, manifest: Manifest, allowance: Allowance) -> None:
        fact = FACTS.get(str(manifest.data.get("fact")))
        if fact is None:
            raise Refused("malformed", "unknown fact")
        if manifest.round < 0:
            raise Refused("malformed", "a visit is of some round")
        moment = self._moment(-1 if self._net.sync == "none" else manifest.round)
        allowance.visit(moment.round)  # of mine: the visitor's rounds are what it says they are
        with allowance.hosted():
            try:
                guest = self._guest(request.asker, manifest.round)
            except AskFailed as failed:
                raise Absent(f"your model did not come ({failed.reason[:40]})") from None
            with self.spending:
                offer, steps = moment.host(
                    fact, guest, request.asker, self._spec, self.degree, self.allowed()
                )
                kind = type(fact).__name__.lower()
                self._accounts.spend(
                    kind, moment.round, request.asker, again=True, steps=steps, rate=self.rate
                )
        blob = moment.visit_blob(offer, request.asker, manifest.nonce)
        with self._lock:
            self._visits[request.asker, manifest.nonce] = (moment.round, blob)
            self.ledger.model_in += guest.nbytes
            self.ledger.reply_out += REPLY_BYTES
        request.reply(blob.head)
