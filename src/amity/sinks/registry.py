"""All sinks by name."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from amity.events import Sink
from amity.registry import Registry


@runtime_checkable
class Opens(Protocol):
    """An entry: the options of a sink, and how to make it."""

    def open(self) -> Sink:
        """A sink that has taken nothing yet. A `ConfigError` stops the run before it begins; after
        any other error this sink is left out."""


sinks: Registry[Opens] = Registry("sink", "open", home="amity.sinks")
