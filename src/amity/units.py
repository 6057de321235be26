"""Numbers as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """90 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    """Bytes: 3.2 MB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
