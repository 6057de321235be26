"""The network as a peer sees it: publish a card, ask a member, answer asks, know who is there.

This is all that the rest of Amity knows of a network. A transport is a file in this folder with a
frozen dataclass that opens links, and its name is what `net.link` says. Whatever carries messages,
they are signed and checked end to end (`amity.net.wire`); who may connect at all is the business of
the transport.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from amity.errors import ConfigError
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster

if TYPE_CHECKING:
    from amity.net.audit import Audit

Alive = Callable[[], bool]
"""Whether somebody who owes an answer is still there."""


class AskFailed(Exception):
    """An ask that got no answer, or only a part of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_SILENT = ("timeout", "gone", "no answer", "not connected", "closing", "slow")
_LACKING = ("not here", "unavailable", "failed", "a part is missing", "its card has no sketch")
_MUCH = ("more than was asked for", "too many asks", "too many transfers", "too many visits")
_UNFIT = ("malformed", "wrong kind", "wrong schema", "not invited", "replay", "too old", "clock")
_SEALED = ("other key", "bad seal", "not alone", "small crowd", "one sum")
_UNKNOWN = ("not on the roster", "wrong key", "bad signature", "wrong sender")
_ASTRAY = ("wrong addressee", "wrong network")
KNOWN = frozenset({*_SILENT, *_LACKING, *_MUCH, *_UNFIT, *_SEALED, *_UNKNOWN, *_ASTRAY})
"""Why an ask may fail, as we count it: what others write is theirs, and could be anything."""


def counted(reason: str) -> str:
    """A reason to count by."""
    word = reason.partition(":")[0]
    return word if word in KNOWN else "another reason"


class Request(Protocol):
    """An ask that arrived: who asks (as the network knows it), what, and how to answer."""

    asker: str
    method: str

    @property
    def payload(self) -> bytes: ...

    def reply(self, data: bytes, offset: int = 0) -> None:
        """A part of the answer."""

    def fail(self, reason: str) -> None: ...

    def done(self) -> None:
        """No more parts."""


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What a link calls, from threads of its own; all must return at once."""

    on_card: Callable[[str, bytes], None]
    """A member published a card."""
    on_ask: Callable[[Request], None]
    on_live: Callable[[str, bool], None]
    """A member came, or went."""
    on_stranger: Callable[[str], None]
    """Somebody is linked whose name is on no roster."""
    on_knock: Callable[[Request], None] | None = None
    """Somebody who may be on no roster shows who it is; None: nobody is let in but by a roster."""


class Link(Protocol):
    """An open network. Roster and certificate are read when it opens; a change of either means a
    new link."""

    def publish(self, data: bytes) -> None:
        """To all members that are there."""

    def ask(
        self,
        peer: str,
        method: str,
        payload: bytes,
        *,
        timeout: float,
        limit: int,
        alive: Alive,
        bulk: bool = False,
    ) -> Iterator[tuple[int, bytes]]:
        """Parts of the answer with their offsets, as they come, at most `limit` bytes; AskFailed
        where it breaks off. The parts of a bulky answer give way to small ones."""

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        """Show who I am to everybody whom I am linked to, on a roster or not, and what they answer,
        about `limit` bytes in all. Nothing else goes to those who are on none."""

    def choose(self, members: Collection[str]) -> None:
        """Where members are chosen (`Transport.few`): be linked to these, and end the links to all
        others that I dialled. Returns at once."""

    def visitors(self) -> Collection[str]:
        """Where members are chosen: those who dialled me, whom my cards reach."""

    def close(self) -> None: ...


class Relay(Protocol):
    """Passes on between members that cannot dial each other, until it is closed."""

    def close(self) -> None: ...


class Transport:
    """Base of what opens links: an entry of `links`."""

    def open(
        self, *, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> Link:
        """Returns when others can reach this peer; NetworkError if they cannot. `lease`: seconds of
        silence after which a member counts as gone."""
        raise NotImplementedError

    def few(
        self,
        *,
        identity: Identity,
        roster: Roster,
        listen: str,
        handlers: Handlers,
        lease: float,
        most: int,
    ) -> Link:
        """The same for one who dials nobody but those whom it chooses (`Link.choose`). A link
        belongs to the one who dialled it, and brings it the cards of the other; both may ask on it.
        `most` links are taken from others."""
        raise ConfigError(
            f"net.link: {type(self).__name__} dials everybody, and topology=discover only some; use"
            " another of both"
        )

    def relay(
        self,
        *,
        identity: Identity,
        roster: Roster,
        listen: str,
        lease: float,
        on_stranger: Callable[[str], None],
    ) -> Relay:
        raise ConfigError(f"net.link: {type(self).__name__} has no relay; use another link")

    def overhear(self, audit: Audit) -> None:
        """Log what the transport itself tells of those whom it refuses. Called once in a process,
        before anything is opened."""

    @property
    def may_fork(self) -> bool:
        """Whether this process may still fork peers: the threads of an open link may not survive
        it."""
        return True
