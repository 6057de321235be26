"""The simulator: all peers in one process."""

from amity.simulate.engine import Simulation

__all__ = ["Simulation"]
