"""The simulator: all peers in one process."""

from amity.simulate.engine import Report, Simulation

__all__ = ["Report", "Simulation"]
