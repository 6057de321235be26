"""Where the events of a run go: one file per sink.

Sinks are named when a run is started, with their options, any number at once:
`amity run sinks=plain,tensorboard:dir=tb`, or `amity.run(..., sinks=["plain", MySink()])`. An entry
of the registry is a frozen dataclass whose fields are its options; `open` makes the sink, in the
process that was asked to run.
"""

from amity.sinks.registry import Opens, sinks

__all__ = ["Opens", "sinks"]
