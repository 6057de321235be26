"""The simulator: all peers in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amity.simulate.engine import Simulation

__all__ = ["Simulation"]


def __getattr__(name: str) -> Any:
    """The simulator loads torch. Code that only looks at the engines must not wait for that."""
    if name != "Simulation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amity.simulate.engine import Simulation

    return Simulation
