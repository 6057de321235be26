"""What happens between real peers, as lines for an operator. Each thing is said once, not as often
as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from amity.events import Event, PeerEvent, RoundDone, What

AWAY = "only for a moment if somebody joins: then all members open their links anew"
GRAVE: tuple[What, ...] = ("differs", "waits", "goes on", "error")
"""What is said where many peers are shown together."""


class Happenings:
    """Remembers what was said."""

    def __init__(self, kinds: Iterable[What] = get_args(What)) -> None:
        self._kinds = frozenset(kinds) - {"missing"}
        self._here: dict[tuple[str, str], bool] = {}
        self._late: dict[tuple[str, str], int] = {}
        self._said: set[tuple[str, ...]] = set()
        self._words: dict[What, Callable[[PeerEvent], str]] = {
            "joined": self._joined,
            "left": self._left,
            "silent": self._silent,
            "late": self._is_late,
            "refused": self._refused,
            "error": self._error,
            "differs": self._differs,
            "waits": self._waits,
            "goes on": self._goes_on,
        }

    def line(self, event: Event) -> str:
        """The line that an event is worth; empty: none."""
        if isinstance(event, RoundDone):
            self._on_time(event)
        if not isinstance(event, PeerEvent) or event.what not in self._kinds:
            return ""
        said = self._words[event.what](event)
        return f"{event.peer}: {said}" if said and event.cell.group else str(said)

    def _once(self, event: PeerEvent, words: str) -> str:
        key = (event.peer, event.what, event.about, words)
        if key in self._said:
            return ""
        self._said.add(key)
        return words

    # -- coming and going --------------------------------------------------------------------------

    def _joined(self, event: PeerEvent) -> str:
        known = self._here.get((event.peer, event.about))
        self._here[event.peer, event.about] = True
        return "" if known else f"{event.about} is {'here' if known is None else 'back'}"

    def _left(self, event: PeerEvent) -> str:
        """Once it is said why that need not alarm anybody."""
        gone = self._gone(event, "is away")
        first = bool(gone) and (event.peer, "away") not in self._said
        self._said |= {(event.peer, "away")} if first else set()
        return f"{gone} ({AWAY})" if first else gone

    def _silent(self, event: PeerEvent) -> str:
        return self._gone(event, "does not answer")

    def _gone(self, event: PeerEvent, how: str) -> str:
        was = self._here.get((event.peer, event.about), True)
        self._here[event.peer, event.about] = False
        return f"{event.about} {how}" if was else ""

    def _is_late(self, event: PeerEvent) -> str:
        key = (event.peer, event.about)
        known = key in self._late or not self._here.get(key, True)
        self._late[key] = -1 if event.round is None else event.round
        return "" if known else f"{event.about} is late: {event.why}"

    def _on_time(self, event: RoundDone) -> None:
        """Who was not late in this round may be said to be late again."""
        self._late = {key: t for key, t in self._late.items() if t >= event.report.round}

    # -- what is wrong -----------------------------------------------------------------------------

    def _refused(self, event: PeerEvent) -> str:
        if event.why == "wrong schema":
            return ""  # in what they differ is another event
        detail = str(event.more.get("detail", "")).partition(": ")[2][:120]
        who = event.about or "somebody who is no member"
        return self._once(event, f"{who} is refused: {event.why}{f' ({detail})' if detail else ''}")

    def _error(self, event: PeerEvent) -> str:
        if event.more.get("ended"):
            return ""  # whoever runs it says so
        message = event.more.get("message") or event.more.get("detail") or ""
        return self._once(event, f"error: {event.why}: {message}")

    def _differs(self, event: PeerEvent) -> str:
        detail = event.more.get("detail", "")
        if event.why == "soon":
            return self._once(event, f"{event.about} will be refused later: {detail}")
        return self._once(event, f"{event.about} cannot learn with this peer: {detail}")

    # -- waiting -----------------------------------------------------------------------------------

    def _waits(self, event: PeerEvent) -> str:
        names = ", ".join(map(str, event.more.get("of", ())))
        if event.why == "to begin" and event.cell.group:
            return ""  # a swarm starts them all
        if event.why == "to begin":
            return f"waits for {names}, at most {event.more.get('seconds', 0):.0f} s"
        least = event.more.get("least", 1)
        return (
            f"waits for {names}: round {event.round} needs {least} present neighbour"
            f"{'s' * (least != 1)} (net.least={least}; 0 goes on alone)"
        )

    def _goes_on(self, event: PeerEvent) -> str:
        return f"goes on with round {event.round}"
