"""The network as a peer sees it: publish a card, ask a member, answer asks, know who is there.

`Link` is all that the rest of Amity knows of a network; `ZenohLink` is the one for real machines.
TLS with certificates on both sides is always on. Zenoh's access control lets a certificate's name
publish only below its own name and ask only in its own name:

    amity/NETWORK/OWNER/card              put by OWNER
    amity/NETWORK/OWNER/live              liveliness token of OWNER
    amity/NETWORK/OWNER/rpc/ASKER/METHOD  queries, by ASKER only

Behind a relay the neighbour's certificate is the relay's, so all of that is checked again by
signature (`wire.py`).
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import zenoh

from amity.errors import NetworkError
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster

LARGEST_MESSAGE = 4 << 20
"""Bytes of one message on a link; models travel in chunks, so nothing honest is longer."""
LOOK = 0.25
"""Seconds between looks whether somebody who owes an answer is still there."""
Alive = Callable[[], bool]
SMALLEST_CHUNK = 1024
"""Bytes of the parts of a long answer, but for the last."""
log = logging.getLogger(__name__)


class AskFailed(Exception):
    """An ask that got no answer, or only a part of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


KNOWN = frozenset(
    {
        *(
            "timeout",
            "gone",
            "no answer",
            "not connected",
            "not here",
            "unavailable",
            "failed",
            "closing",
        ),
        *(
            "more than was asked for",
            "a part is missing",
            "its card has no sketch",
            "not on the roster",
            "malformed",
        ),
        *(
            "replay",
            "too old",
            "clock",
            "wrong key",
            "bad signature",
            "wrong addressee",
            "wrong schema",
            "wrong network",
        ),
        *(
            "wrong sender",
            "wrong kind",
            "not invited",
            "too many asks",
            "too many transfers",
            "too many visits",
        ),
    }
)
"""Why an ask may fail, as we count it: what others write is theirs, and could be anything."""


def counted(reason: str) -> str:
    """A reason to count by."""
    word = reason.partition(":")[0]
    return word if word in KNOWN else "another reason"


class Request(Protocol):
    """An ask that arrived: who asks (as the network knows it), what, and how to answer."""

    asker: str
    method: str
    payload: bytes

    def reply(self, data: bytes, offset: int = 0) -> None:
        """A part of the answer."""

    def fail(self, reason: str) -> None: ...

    def done(self) -> None:
        """No more parts."""


@dataclass(frozen=True)
class Handlers:
    """What a link calls, from threads of its own; all must return at once."""

    on_card: Callable[[str, bytes], None]
    on_ask: Callable[[Request], None]
    on_live: Callable[[str, bool], None]
    on_stranger: Callable[[str], None]


class Link(Protocol):
    def publish(self, data: bytes) -> None: ...

    def ask(
        self,
        peer: str,
        method: str,
        payload: bytes,
        timeout: float,
        limit: int,
        alive: Alive,
        bulk: bool = False,
    ) -> Iterator[tuple[int, bytes]]:
        """Parts of the answer with their offsets, as they come, at most `limit` bytes; AskFailed
        where it breaks off. The parts of a bulky answer give way to small ones."""

    def close(self) -> None: ...


class _Query:
    """A Zenoh query as a request."""

    def __init__(self, query: zenoh.Query, asker: str, method: str) -> None:
        self._query, self.asker, self.method = query, asker, method
        payload = query.payload
        self.payload = payload.to_bytes() if payload is not None and len(payload) <= 65536 else b""

    def reply(self, data: bytes, offset: int = 0) -> None:
        self._query.reply(self._query.key_expr, data, attachment=offset.to_bytes(8, "big"))

    def fail(self, reason: str) -> None:
        self._query.reply_err(reason.encode())
        self.done()

    def done(self) -> None:
        self._query.drop()  # type: ignore[no-untyped-call]


class _Parts:
    """Collects replies for one ask, never more than its limit."""

    def __init__(self, limit: int, alive: Alive) -> None:
        self._alive = alive
        self._queue: queue.SimpleQueue[tuple[int, bytes] | str | None] = queue.SimpleQueue()
        self._left, self._parts = limit, limit // SMALLEST_CHUNK + 2
        self._over = False

    def put(self, reply: zenoh.Reply) -> None:
        if self._over:
            return  # whoever sends on and on fills nobody's memory
        if reply.ok is None:
            error = reply.err.payload.to_bytes() if reply.err is not None else b"failed"
            self._fail(error[:200].decode(errors="replace"))
            return
        data, attachment = reply.ok.payload, reply.ok.attachment
        self._left -= len(data)
        self._parts -= 1
        if self._left < 0 or self._parts < 0:
            self._fail("more than was asked for")
            return
        offset = int.from_bytes(attachment.to_bytes()[:8], "big") if attachment is not None else 0
        self._queue.put((offset, data.to_bytes()))

    def _fail(self, reason: str) -> None:
        self._over = True
        self._queue.put(reason)

    def end(self) -> None:
        self._queue.put(None)

    def __call__(self, timeout: float) -> Iterator[tuple[int, bytes]]:
        try:
            yield from self._until(time.monotonic() + timeout)
        finally:
            self._over = True

    def _until(self, until: float) -> Iterator[tuple[int, bytes]]:
        some = False
        while True:
            left = until - time.monotonic()
            try:
                part = self._queue.get(timeout=max(0.0, min(left, LOOK)))
            except queue.Empty:
                if left > LOOK and self._alive():
                    continue
                raise AskFailed("timeout" if left <= LOOK else "gone") from None
            if isinstance(part, str):
                raise AskFailed(part)
            if part is None:
                if not some:
                    raise AskFailed("no answer")
                return
            some = True
            yield part


class ZenohLink:
    """One Zenoh session. Roster and certificate are read when it opens; a change of either means a
    new link."""

    def __init__(
        self, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> None:
        self._me, self._root, self._handlers = identity.name, f"amity/{roster.network}", handlers
        self._roster = roster
        mine, where = f"{self._root}/{self._me}", f"listen {listen}" if listen else "no listener"
        try:
            self._session = session = _opened(settings(identity, roster, listen, lease), roster)
        except zenoh.ZError as error:
            raise NetworkError(
                f"{identity.name}: the network could not be opened ({where}; {_short(error)})"
            ) from None
        try:
            self._declared: list[Any] = [
                session.declare_queryable(f"{mine}/rpc/**", self._on_query),
                session.declare_subscriber(f"{self._root}/*/card", self._on_card),
                session.liveliness().declare_subscriber(
                    f"{self._root}/*/live", self._on_live, history=True
                ),
                session.liveliness().declare_token(f"{mine}/live"),
            ]
        except zenoh.ZError as error:
            session.close()  # type: ignore[no-untyped-call]
            raise NetworkError(
                f"{identity.name}: the network could not be opened ({_short(error)})"
            ) from None
        self._closing = watch_links(session, roster, handlers.on_stranger)

    def close(self) -> None:
        self._closing.set()
        self._session.close()  # type: ignore[no-untyped-call]

    def publish(self, data: bytes) -> None:
        try:
            self._session.put(
                f"{self._root}/{self._me}/card",
                data,
                congestion_control=zenoh.CongestionControl.BLOCK,
                priority=zenoh.Priority.INTERACTIVE_HIGH,
            )
        except zenoh.ZError as error:  # closed meanwhile
            raise AskFailed(_short(error)) from None

    def ask(
        self,
        peer: str,
        method: str,
        payload: bytes,
        timeout: float,
        limit: int,
        alive: Alive,
        bulk: bool = False,
    ) -> Iterator[tuple[int, bytes]]:
        parts = _Parts(limit, alive)
        try:
            self._session.get(
                f"{self._root}/{peer}/rpc/{self._me}/{method}",
                zenoh.handlers.Callback(parts.put, parts.end),
                payload=payload,
                timeout=timeout,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
                priority=zenoh.Priority.DATA_LOW if bulk else zenoh.Priority.INTERACTIVE_HIGH,
            )
        except zenoh.ZError as error:
            raise AskFailed(_short(error)) from None
        yield from parts(timeout + 1)

    # -- called by Zenoh ---------------------------------------------------------------------------

    def _name_in(self, key: str, at: int) -> str:
        words = key.removeprefix(self._root + "/").split("/")
        return words[at] if len(words) > at else ""

    def _on_query(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        request = _Query(query, self._name_in(key, 2), self._name_in(key, 3))
        try:
            self._handlers.on_ask(request)
        except Exception:
            log.exception("an ask could not be taken")
            request.fail("failed")

    def _on_card(self, sample: zenoh.Sample) -> None:
        sender = self._name_in(str(sample.key_expr), 0)
        if sender != self._me:
            self._handlers.on_card(sender, sample.payload.to_bytes())

    def _on_live(self, sample: zenoh.Sample) -> None:
        name = self._name_in(str(sample.key_expr), 0)
        if name != self._me:
            self._handlers.on_live(name, sample.kind == zenoh.SampleKind.PUT)


SESSIONS: list[int] = []
"""Processes that have opened a session: Zenoh's threads do not survive a fork, so they must not
fork peers."""


def _opened(config: dict[str, Any], roster: Roster) -> zenoh.Session:
    """Zenoh closes a link whose data cannot be delivered by blocking one of its threads for ten
    seconds (SO_LINGER). With one thread of a kind, as it has by default, all other links stand
    still meanwhile: give it enough of them."""
    if not SESSIONS:
        threads = max(8, min(64, len(roster.everyone)))
        kinds = ", ".join(
            f"{kind}: (worker_threads: {threads})" for kind in ("acc", "app", "net", "tx", "rx")
        )
        os.environ.setdefault("ZENOH_RUNTIME", f"({kinds})")
    SESSIONS.append(os.getpid())
    return zenoh.open(zenoh.Config.from_json5(json.dumps(config)))


def _short(error: Exception) -> str:
    return str(error).partition(" at /")[0].splitlines()[0][:160]


def settings(identity: Identity, roster: Roster, listen: str, lease: float) -> dict[str, Any]:
    """Zenoh's own config. Everyone dials every member that stands before it in the roster (links
    that are only learnt by gossip are never dialled again), and the relay; a peer that nobody can
    dial is a client of the relay."""
    direct = [
        member.address
        for name, member in roster.members.items()
        if member.address and name < identity.name
    ]
    relay = [roster.relay.address] if roster.relay and roster.relay.name != identity.name else []
    hidden = not listen
    return {
        "mode": "client" if hidden else "peer",
        "listen": {"endpoints": [] if hidden else [f"tls/{listen}"]},
        "connect": _dialling(relay if hidden else direct + relay),
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}, "delay": 0},
        "transport": transport(identity, lease),
        "access_control": access(roster, f"amity/{roster.network}"),
    }


def _dialling(addresses: list[str]) -> dict[str, Any]:
    return {
        "endpoints": [f"tls/{address}" for address in addresses],
        "timeout_ms": -1,
        "exit_on_failure": False,
        "retry": {"period_init_ms": 200, "period_max_ms": 1000, "period_increase_factor": 2},
    }


def transport(identity: Identity, lease: float) -> dict[str, Any]:
    key, cert, ca = (
        str(Path(path).resolve())
        for path in (identity.key_path, identity.cert_path, identity.ca_path)
    )
    return {
        "link": {
            "protocols": ["tls"],
            "tx": {"lease": int(lease * 1000), "keep_alive": 4},
            "rx": {"max_message_size": LARGEST_MESSAGE},
            "tls": {
                "root_ca_certificate": ca,
                "enable_mtls": True,
                "verify_name_on_connect": True,
                "listen_private_key": key,
                "listen_certificate": cert,
                "connect_private_key": key,
                "connect_certificate": cert,
                "close_link_on_expiration": True,
            },
        },
        "shared_memory": {"enabled": False},
    }


def access(roster: Roster, root: str) -> dict[str, Any]:
    """Default: nothing. Each name on the roster may speak below its own name and ask in its own
    name; a relay passes on what others said, so its word is worth what their signatures are
    worth."""
    rules: list[dict[str, Any]] = []
    subjects: list[dict[str, Any]] = []
    policies: list[dict[str, Any]] = []
    heard = ["put", "delete", "reply", "query", "declare_queryable", "declare_subscriber"]
    heard += ["liveliness_token", "liveliness_query", "declare_liveliness_subscriber"]

    def allow(name: str, kind: str, flow: str, keys: list[str], messages: list[str]) -> str:
        rule = {
            "id": f"{kind}-{name}",
            "permission": "allow",
            "flows": [flow],
            "key_exprs": keys,
            "messages": messages,
        }
        rules.append(rule)
        return f"{kind}-{name}"

    for name in roster.names:
        said = ["put", "delete", "reply", "declare_queryable", "liveliness_token"]
        follow = ["declare_subscriber", "declare_liveliness_subscriber", "liveliness_query"]
        mine = [
            allow(name, "own", "ingress", [f"{root}/{name}/**"], said),
            allow(name, "ask", "ingress", [f"{root}/*/rpc/{name}/**"], ["query"]),
            allow(name, "follow", "ingress", [f"{root}/*/card", f"{root}/*/live"], follow),
            allow(name, "out", "egress", [f"{root}/**"], heard),
        ]
        subjects.append({"id": name, "cert_common_names": [name]})
        policies.append({"rules": mine, "subjects": [name]})
    if roster.relay is not None:
        name = roster.relay.name
        passes = [
            allow(name, f"relay-{flow}", flow, [f"{root}/**"], heard)
            for flow in ("ingress", "egress")
        ]
        subjects.append({"id": name, "cert_common_names": [name]})
        policies.append({"rules": passes, "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


class Relay:
    """A Zenoh router for peers that nobody can dial. It sees what passes and can drop it, never
    alter it unseen. It does not pass on between two that both listen: those dial each other."""

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        listen: str,
        lease: float,
        on_stranger: Callable[[str], None],
    ) -> None:
        config = settings(identity, roster, listen, lease)
        config |= {"mode": "router", "connect": _dialling([])}
        try:
            self._session = _opened(config, roster)
        except zenoh.ZError as error:
            raise NetworkError(
                f"{identity.name}: the relay could not listen on {listen} ({_short(error)})"
            ) from None
        self._closing = watch_links(self._session, roster, on_stranger)

    def close(self) -> None:
        self._closing.set()
        self._session.close()  # type: ignore[no-untyped-call]


def watch_links(
    session: zenoh.Session, roster: Roster, on_stranger: Callable[[str], None]
) -> threading.Event:
    """A certificate of our authority opens a link even if its name is on no roster; it gets
    nothing, and is reported. Returns what ends the watch."""
    allowed, closing = {member.name for member in roster.everyone}, threading.Event()

    def watch() -> None:
        while not closing.wait(0.5):
            try:
                names = {str(link.auth_identifier) for link in session.info.links()}
            except zenoh.ZError:
                return
            for name in names - allowed:
                on_stranger(name)

    threading.Thread(target=watch, name="links", daemon=True).start()
    return closing
