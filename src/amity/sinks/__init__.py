"""Where the events of a run go."""

from amity.sinks.registry import Opens, sinks

__all__ = ["Opens", "sinks"]
