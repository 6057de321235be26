"""Sessions of Zenoh: how they are opened and watched, and the relay, which is nothing more."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import zenoh

from amity.errors import NetworkError
from amity.net.link.zenoh_settings import dialling, settings
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster

GROWING = 32
"""Threads of a kind where members are still to be found."""
MOST = 64
"""Threads of a kind, at most."""
FEW = 16
"""The same where only chosen members are linked, however many there are."""
SESSIONS: list[int] = []
"""Processes that have opened a session: Zenoh's threads do not survive a fork, so they must not
fork peers."""


def opened_here() -> bool:
    return os.getpid() in SESSIONS


class ZenohRelay:
    """A Zenoh router for peers that nobody can dial. It sees what passes and can drop it, never
    alter it unseen. It does not pass on between two that both listen: those dial each other."""

    def __init__(
        self,
        *,
        identity: Identity,
        roster: Roster,
        listen: str,
        lease: float,
        on_stranger: Callable[[str], None],
    ) -> None:
        config = settings(identity, roster, listen, lease)
        config |= {"mode": "router", "connect": dialling([])}
        try:
            self._session = opened(config, roster)
        except zenoh.ZError as error:
            raise NetworkError(
                f"{identity.name}: the relay could not listen on {listen} ({short(error)})"
            ) from None
        self._closing = threading.Event()
        watch_links(self._session, roster, on_stranger, self._closing)

    def close(self) -> None:
        self._closing.set()
        self._session.close()  # type: ignore[no-untyped-call]


def watch_links(
    session: zenoh.Session,
    roster: Roster,
    on_stranger: Callable[[str], None],
    closing: threading.Event,
) -> None:
    """A certificate of our authority opens a link even if its name is on no roster; it gets
    nothing, and is reported."""
    allowed = {member.name for member in roster.everyone}

    def watch() -> None:
        while not closing.wait(0.5):
            try:
                names = {str(link.auth_identifier) for link in session.info.links()}
            except zenoh.ZError:
                return
            for name in names - allowed:
                on_stranger(name)

    threading.Thread(target=watch, name="links", daemon=True).start()


def opened(config: dict[str, Any], roster: Roster, most: int = MOST) -> zenoh.Session:
    """Zenoh closes a link whose data cannot be delivered by blocking one of its threads for ten
    seconds (SO_LINGER). With one thread of a kind, as it has by default, all other links stand
    still meanwhile: give it enough of them, and `most` of a kind."""
    if not SESSIONS:
        threads = min(most, max(GROWING if roster.any_signed else 8, len(roster.everyone)))
        kinds = ", ".join(
            f"{kind}: (worker_threads: {threads})" for kind in ("acc", "app", "net", "tx", "rx")
        )
        os.environ.setdefault("ZENOH_RUNTIME", f"({kinds})")
    SESSIONS.append(os.getpid())
    return zenoh.open(zenoh.Config.from_json5(json.dumps(config)))


def short(error: Exception) -> str:
    return str(error).partition(" at /")[0].splitlines()[0][:160]
