"""Takes what other members ask. Nothing is answered (`answers.py`) before the asker is known by
key, name and signature, and within its limits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from amity.errors import StorageError, brief
from amity.net.answers import Answering, Unavailable
from amity.net.audit import Audit
from amity.net.limits import Allowance, Allowances
from amity.net.link.base import Request
from amity.net.options import Net
from amity.net.seen import Seen
from amity.net.trust.roster import Roster
from amity.net.wire import SKEW_MS, Expected, Manifest, Refused, WireSchema, open_head

ASK_AGE = 60.0
"""Seconds after which an ask is stale."""
REMEMBERED = ASK_AGE + 2 * SKEW_MS / 1000
"""Seconds for which an ask could come again."""
ONE_THREAD = (torch.set_num_threads, (1,))
"""torch counts its threads for each thread of ours: with another number, sums have other bits."""
MOST_TRANSFERS = 128
GREETINGS = ("hello", "terms", "revoked")
"""What a member with another schema may ask: to find out in what we differ, and who is none."""


class Service:
    """The answering half of a peer: small pools of threads."""

    def __init__(
        self,
        *,
        me: str,
        schema: WireSchema,
        net: Net,
        answers: Answering,
        allowances: Allowances,
        audit: Audit,
        roster: Callable[[], Roster],
        seen: Seen,
    ) -> None:
        self._me, self._schema, self._seen = me, schema, seen
        self._answers, self._allowances, self._audit = answers, allowances, audit
        self._roster = roster
        transfers = min(MOST_TRANSFERS, net.transfers * max(4, len(roster().names)))
        self._quick = ThreadPoolExecutor(4, "asks", *ONE_THREAD)
        self._pools = {
            "body": ThreadPoolExecutor(transfers, "transfers"),
            "host": ThreadPoolExecutor(8, "visits", *ONE_THREAD),
            "losses": ThreadPoolExecutor(8, "losses", *ONE_THREAD),
            "sum": ThreadPoolExecutor(8, "sums"),
            "exchange": ThreadPoolExecutor(4, "exchanges"),
        }
        """What may wait for the learner, or for others, has threads of its own: greetings and cards
        never wait."""

    def on_ask(self, request: Request) -> None:
        """Called by the link: decides in a few microseconds whether the ask is worth a thread."""
        try:
            allowance = self._allowances.of(request.asker)
        except Refused as refused:
            self._audit("refused", "", refused.reason, asker=request.asker[:63])
            request.fail(refused.reason)
            return
        try:
            allowance.ask()
        except Refused as refused:
            self._audit("refused", request.asker, refused.reason)
            request.fail(refused.reason)
            return
        try:
            if not request.payload:  # also: one that is too long to be an ask
                raise Refused("malformed", "no ask")
        except Refused as refused:
            allowance.answered()
            self._audit("refused", request.asker, refused.reason)
            request.fail(refused.reason)
            return
        try:
            self._pools.get(request.method, self._quick).submit(self._serve, request, allowance)
        except RuntimeError:  # closing
            allowance.answered()
            request.fail("closing")

    def _serve(self, request: Request, allowance: Allowance) -> None:
        try:
            manifest = self._believe(request, allowance)
            self._answers.methods[request.method](request, manifest, allowance)
            self._audit("answered", request.asker, request.method)
            request.done()
        except Refused as refused:
            self._audit.refuse(request.asker, refused.reason, str(refused))
            request.fail(refused.reason)
        except Unavailable as absent:
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
        if request.method not in self._answers.methods:
            raise Refused("malformed", f"unknown method {request.method[:40]!r}")
        want = Expected(
            me=self._me,
            schema=self._schema,
            kinds=("ask",),
            sender=request.asker,
            max_age=ASK_AGE,
            any_schema=request.method in GREETINGS,
        )
        manifest, _ = open_head(request.payload, self._roster(), want)
        if manifest.to != self._me or manifest.data.get("method") != request.method:
            raise Refused("wrong addressee", "the ask was for somebody or something else")
        allowance.fresh(manifest.nonce, REMEMBERED)
        self._seen.answered(request.asker, manifest.nonce)
        return manifest

    def close(self) -> None:
        for pool in (self._quick, *self._pools.values()):
            pool.shutdown(wait=False, cancel_futures=True)
