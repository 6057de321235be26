"""Answering `sum`: my model's term of a neighbour's sum, under masks. Models leave in no other way
where sums are masked."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from amity.core import PeerId
from amity.net.answers import Answering, Unavailable
from amity.net.limits import Allowance
from amity.net.link.base import AskFailed, Request
from amity.net.moment import Blob, Moment
from amity.net.options import Net
from amity.net.sealed import Keys
from amity.net.spending import Spending
from amity.net.sums.masks import Summed, masked
from amity.net.trust.roster import Roster
from amity.net.wire import Manifest, Refused, Stamp
from amity.peer.fixed import term

GREET = 3.0
"""Seconds to ask another member of a crowd for its key."""


class Giving:
    """My terms of others' sums. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        me: PeerId,
        net: Net,
        stamp: Stamp,
        keys: Keys,
        answers: Answering,
        spending: Spending,
        roster: Callable[[], Roster],
    ) -> None:
        self._me, self._net, self._stamp, self._keys = me, net, stamp, keys
        self._answers, self._spending, self._roster = answers, spending, roster
        self._lock = threading.Lock()
        self._given: dict[tuple[PeerId, int], str] = {}
        """For whom and of which round my model was given: the number of that sum."""

    def answer(self, request: Request, manifest: Manifest, allowance: Allowance) -> None:
        """The head of my term; its body is asked for next."""
        data, asker = manifest.data, request.asker
        crowd = Summed.read(self._stamp.network, asker, data.get("number"), data.get("crowd"))
        weight = data.get("weight")
        self._check(crowd, weight, manifest.round)
        moment = self._answers.ready(manifest.round)
        secrets = {j: self._secret(j, crowd.keys[j]) for j in crowd.keys if j != self._me}
        with allowance.hosted():
            self._once(asker, moment.round, crowd.number)
            blob = self._blob(moment, crowd, float(weight), secrets.__getitem__, manifest)  # type: ignore[arg-type]
        self._answers.keep(asker, manifest.nonce, moment.round, blob)
        request.reply(blob.head)

    def _check(self, crowd: Summed, weight: object, round: int) -> None:
        if not isinstance(weight, float) or not math.isfinite(weight) or not 0 < weight <= 1:
            raise Refused("malformed", f"sum: weight {weight!r}")
        if len(crowd.keys) < self._net.crowd:
            raise Refused("small crowd", f"{len(crowd.keys)} members, {self._net.crowd} at least")
        if self._me not in crowd.keys or crowd.receiver in crowd.keys:
            raise Refused("malformed", "sum: a crowd without me, or with its receiver")
        if crowd.rounds[self._me] != round:
            raise Refused("malformed", "sum: asked for another round than the crowd says")
        if self._keys.mine_name != crowd.keys[self._me]:
            raise Unavailable("I have another key by now")
        strangers = [j for j in crowd.keys if j not in self._roster().members]
        if strangers:
            raise Refused("small crowd", f"{strangers[0]!r} is not on my roster")

    def _secret(self, other: PeerId, key: str) -> bytes:
        """What only I and another member know, if it still has the key that the receiver saw."""
        try:
            return self._keys.shared(other, key, GREET)
        except AskFailed as failed:
            raise Unavailable(f"no key of {other} ({failed.reason[:40]})") from None

    def _once(self, asker: PeerId, round: int, number: str) -> None:
        """A model is part of one sum for each receiver, also after a restart."""
        with self._lock:
            given = self._given.get((asker, round))
            if given is None and not self._spending.told("sum", round, asker):
                self._spending.disclose("sum", round, asker)
                self._given = {key: one for key, one in self._given.items() if key[1] > round - 8}
                self._given[asker, round] = number
                return
        raise Refused("one sum", f"my model of round {round} was in a sum of yours already")

    def _blob(
        self,
        moment: Moment,
        crowd: Summed,
        weight: float,
        secret: Callable[[PeerId], bytes],
        manifest: Manifest,
    ) -> Blob:
        words = masked(term(weight, moment.peer.share.theta), self._me, crowd, secret)
        body = words.astype("<u4", copy=False).tobytes()
        head = self._stamp.seal(
            "sum", moment.round, body, to=crowd.receiver, re=manifest.nonce, data={}
        )
        return Blob(head, body)
