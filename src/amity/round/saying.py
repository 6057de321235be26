"""What a strategy says publicly: a few numbers by name, which others may ask for in the next round.

It is kept in the notebook, under a name that no strategy uses, so that whatever keeps notebooks
keeps it too: the seats of the simulator, real peers, checkpoints. It travels as JSON text, and both
runtimes count the bytes of that text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from amity.core import Memory
from amity.facts import MOST_SAID

SAYS: Final = "<says>"
"""Key of a notebook: what its strategy said. The strategy itself does not see it."""
LONGEST_NAME = 63
"""Characters of a name: as many as a peer's may have."""
LARGEST_SAID = 96 * 1024
"""Bytes of it on the way. The longest numbers under the longest plain names are fewer."""


def plain_says(says: Mapping[str, float]) -> dict[str, float]:
    """What a strategy wants to say, in plain numbers; raises TypeError if that is not what it
    is."""
    found = {name: float(value) for name, value in says.items()}
    if why := _wrong(found):
        raise TypeError(f"says must be finite numbers by name: {why}")
    return {name: found[name] for name in sorted(found)}


def noted(memory: Memory, says: Mapping[str, float]) -> Memory:
    """A notebook with what was said in it."""
    return {**own_notes(memory), SAYS: dict(says)} if says else own_notes(memory)


def own_notes(memory: Memory) -> Memory:
    """A notebook as its strategy sees it."""
    return {key: value for key, value in memory.items() if key != SAYS}


def says_of(memory: Memory) -> Mapping[str, float]:
    """What was said at the end of the last round; nothing before the first."""
    says: Mapping[str, float] = memory.get(SAYS, {})
    return says


def encode_says(says: Mapping[str, float]) -> bytes:
    """As it travels: the length of this is what is counted."""
    return json.dumps(says, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def decode_says(text: bytes) -> dict[str, float]:
    """What somebody says; raises ValueError if it is anything but finite numbers by name."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a name twice")
        return dict(pairs)

    if len(text) > LARGEST_SAID:
        raise ValueError(f"{len(text)} bytes, at most {LARGEST_SAID}")
    try:
        found = json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("too deep") from None
    if why := _wrong(found):
        raise ValueError(why)
    return {name: found[name] for name in sorted(found)}


def _wrong(says: Any) -> str:
    """What is wrong with it; empty: nothing."""
    if not isinstance(says, dict):
        return "no table"
    if len(says) > MOST_SAID:
        return f"{len(says)} of them, at most {MOST_SAID}"
    for name, value in says.items():
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            return f"a name must be text of at most {LONGEST_NAME} characters"
        if type(value) is not float or not math.isfinite(value):
            return f"{name!r} is no finite number"
    size = len(encode_says(says))
    return "" if size <= LARGEST_SAID else f"{size} bytes, at most {LARGEST_SAID}"
