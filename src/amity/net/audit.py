"""Who asked what, who was used with what weight, who was refused and why: a JSON-lines log, and
counters.

Every event is counted; of events of one kind about one peer, a line is written at most once a
second, with how many there were, so that nobody can fill the disk by being refused.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, get_args

from prometheus_client import CollectorRegistry, Gauge, start_http_server
from prometheus_client import Counter as Counted

from amity.events import What
from amity.sinks.prometheus import Gauges

EVERY = 1.0
"""Seconds between two lines about the same thing."""
LARGEST = 1 << 28
"""Bytes after which the log begins anew; the one before is kept as audit.jsonl.1."""
MOST_KINDS = 1 << 14
"""Different events, by peer and reason, that are counted apart."""
PROMPT = frozenset({"start", "stop", "used", "late", "roster", "certificate", "caught up"})
"""Events that are rare by nature: each has its line."""
TOLD = frozenset(get_args(What))
"""Events that the stream is told as well, as often as there is a line."""
Heard = Callable[[str, Any, str, str, Mapping[str, Any]], None]
"""Told who heard what, about whom and why, and what else is known."""


def unheard(*_what: Any) -> None:
    """Nobody listens."""


class Audit:
    """The log of one peer. Methods may be called from any thread, and never raise: a full disk must
    not stop a peer."""

    def __init__(self, path: Path, name: str, heard: Heard = unheard) -> None:
        """`heard` is called with the lock held: it must return at once."""
        self._heard = heard
        self.name, self.counts = name, Counter[tuple[str, str, str]]()
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str, str], tuple[float, int]] = {}
        self._stream: IO[bytes] | None = None
        self._path, self._closed = path, False
        self.meters = Meters(name)
        self.lost = 0
        """Lines that could not be written."""

    def __call__(self, event: str, peer: str = "", why: str = "", **more: Any) -> None:
        """Log an event; `why` is a short reason to count by."""
        key = (event, peer, why)
        with self._lock:
            if (
                key not in self.counts and len(self.counts) >= MOST_KINDS
            ):  # somebody thinks up reasons
                key, more = (event, "", "other"), {"of": peer, **more}
            self.counts[key] += 1
            self.meters.events.labels(*key).inc()
            now = time.monotonic()
            last, held = self._held.get(key, (-EVERY, 0))
            if event not in PROMPT and now - last < EVERY:
                self._held[key] = (last, held + 1)
                return
            self._held[key] = (now, 0)
            self._write(key, held + 1, more)

    def refuse(self, peer: str, reason: str, text: str, **more: Any) -> None:
        """Log what was not believed: the reason to count by, and what it said."""
        self("refused", peer, reason, detail=text[:200], **more)

    def _write(self, key: tuple[str, str, str], count: int, more: dict[str, Any]) -> None:
        event, peer, why = key
        if event in TOLD:
            self._heard(self.name, event, peer, why, more | {"count": count} if count > 1 else more)
        record: dict[str, Any] = {"at": round(time.time(), 3), "event": event}
        record |= {"peer": peer} if peer else {}
        record |= {"why": why} if why else {}
        record |= {"count": count} if count > 1 else {}
        try:
            if self._closed:
                self.lost += 1
                return
            if self._stream is not None and self._stream.tell() > LARGEST:
                self._stream.close()
                self._stream = None
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            if self._stream is None:
                self._stream = open(self._path, "ab", buffering=0)  # noqa: SIM115  held until the peer stops
            self._stream.write(
                (json.dumps(record | more, ensure_ascii=False, default=str) + "\n").encode()
            )
        except OSError:
            self.lost += 1

    def flush(self, pause: float = EVERY) -> None:
        """Write what was held back, but not sooner than a pause after the last line about the same
        thing."""
        with self._lock:
            now = time.monotonic()
            for key, (last, held) in self._held.items():
                if held and now - last >= pause:
                    self._write(key, held, {})
                    self._held[key] = (now, 0)

    def close(self) -> None:
        self.flush(pause=0)
        with self._lock:
            self._closed = True
            if self._stream is not None:
                self._stream.close()


class Meters(Gauges):
    """The same in the form that Prometheus reads, on a port of this machine only; beside the
    figures of the run, which its events keep up to date."""

    def __init__(self, name: str) -> None:
        super().__init__(CollectorRegistry())
        gauge, counted = (
            partial(Gauge, registry=self.registry),
            partial(Counted, registry=self.registry),
        )
        self.events = counted(
            "amity_events", "What happened, by kind, peer and reason", ["event", "peer", "why"]
        )
        self.bytes = counted("amity_bytes", "Bytes of messages", ["direction"])
        self.alive = gauge("amity_neighbours_alive", "Members that are reachable now")
        self.certificate = gauge("amity_certificate_seconds", "Until this peer's certificate ends")
        gauge("amity_peer_info", "Which peer this is", ["peer"]).labels(name).set(1)

    def serve(self, port: int) -> Any:
        """On 127.0.0.1 only; returns what stops it."""
        server, _thread = start_http_server(port, "127.0.0.1", self.registry)
        return server


LEVELS = "zenoh_link_tls=warn,zenoh::net::routing::interceptor=trace,zenoh=error"
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
LINE = re.compile(
    rb"\x1b\[2m\S+\x1b\[0m \x1b\[\d+m *\w+\x1b\[0m +(?:(\S+) +)?ThreadId\((\d+)\) "
    rb"\x1b\[2m([\w:]+)\x1b\[0m\x1b\[2m:\x1b\[0m (.*)"
)
"""Thread, its number, who writes, what. Zenoh colours its own lines and escapes colours in what
others wrote, so nobody forges a line with a line break in a key."""
DENIED = re.compile(
    rb"CertCommonName\(([^)]*)\)\S* is unauthorized to ([A-Za-z/ ]+ \(ingress\) on .*)"
)
REASONS = (
    (b"no certificates", "no certificate"),
    (b"UnknownIssuer", "certificate of another authority"),
    (b"expired", "certificate expired"),
    (b"InvalidContentType", "no TLS"),
    (b"corrupt message", "no TLS"),
    (b"NotValidForName", "certificate of another name"),
    (b"BadSignature", "bad certificate"),
    (b"invalid peer certificate", "bad certificate"),
    (b"eof", "broken handshake"),
    (b"EOF", "broken handshake"),
    (b"reset", "broken handshake"),
)


class Handshakes:
    """Zenoh tells of refused handshakes, and of messages that its access control drops, on standard
    output only. This reads them from there; what Python prints goes past it.

    Take it before Zenoh opens anything, once in a process.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._denied: dict[bytes, tuple[str, str]] = {}
        """By thread, whom and what the access control denied last."""
        import zenoh

        sys.stdout.flush()
        out = os.dup(1)
        read, write = os.pipe()
        os.dup2(write, 1)
        os.close(write)
        sys.stdout = os.fdopen(out, "w", buffering=1, errors="replace")
        os.environ.pop("NO_COLOR", None)
        zenoh.init_log_from_env_or(LEVELS)
        threading.Thread(
            target=self._read, args=(os.fdopen(read, "rb"),), name="handshakes", daemon=True
        ).start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            if found := LINE.match(line):
                self._heard(*found.groups(b""))

    def _heard(self, name: bytes, thread: bytes, target: bytes, text: bytes) -> None:
        if target.startswith(b"zenoh_link_tls"):
            reason = next((words for part, words in REASONS if part in text), "handshake failed")
            self._audit(
                "refused", "", reason, detail=_plain(COLOUR.sub(b"", text).partition(b" Hint:")[0])
            )
        elif target.endswith(b"::access_control"):
            self._denied.pop(thread, None)
            if denied := DENIED.search(text):
                self._denied[thread] = _plain(denied[1]), _plain(denied[2])
        elif (
            thread in self._denied
            and text.startswith(b"Msg intercepted")
            and name.startswith(b"rx")
        ):
            # else it was only asked in advance what would be allowed
            peer, what = self._denied.pop(thread)
            self._audit("refused", peer, "not allowed", detail=what)


def _plain(text: bytes) -> str:
    return text.decode(errors="replace").strip()[:200]
