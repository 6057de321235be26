"""Ask the members that are running what they run: the same model, the same time of day?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from amity._version import __version__
from amity.errors import AmityError
from amity.net.link.base import AskFailed
from amity.net.node import Node
from amity.net.online import Online
from amity.net.ops.reach import Finding
from amity.net.setup import Setup
from amity.net.wire import Refused

WAIT = 3.0
"""Seconds for members to show themselves."""
SKEW = 60.0
"""Seconds by which clocks may differ before it is worth a word."""


def greetings(setup: Setup) -> Iterator[Finding]:
    """One finding for every member that answers."""
    try:
        with Node(setup).connected() as online:
            board, until = online.board, time.monotonic() + WAIT
            others = [name for name in online.membership.roster().names if name != setup.who.name]
            while time.monotonic() < until and not all(board.reachable(j) for j in others):
                time.sleep(0.1)
            here = [j for j in others if board.reachable(j)]
            if not here:
                yield Finding("greet", True, "nobody is running yet")
            for j in here:
                yield _greet(online, j)
    except AmityError as error:
        yield Finding("greet", False, str(error))


def _greet(online: Online, j: str) -> Finding:
    try:
        manifest = online.courier.hello(j)
    except (AskFailed, Refused) as error:
        return Finding(f"greet {j}", False, f"does not answer ({error})")
    apart = time.time() - manifest.at / 1000
    if abs(apart) > SKEW:
        return Finding(
            f"greet {j}", False, f"its clock and mine are {abs(apart):.0f} s apart; set them (NTP)"
        )
    round = manifest.data.get("round")
    online.accord.enter(round if isinstance(round, int) else 0)
    online.accord.meet(j)
    if differs := online.accord.difference(j) or online.accord.coming(j):
        return Finding(f"greet {j}", False, differs)
    version = str(manifest.data.get("version"))[:20]
    other = "" if version == __version__ else f", Amity {version} (mine: {__version__})"
    return Finding(f"greet {j}", True, f"same model, in round {round}{other}")
