"""Bars in a notebook: one output that is replaced as the run goes on, and stays when it is saved.

Rich knows how to show its tables in Jupyter, and Jupyter how to replace an output; no widgets are
needed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from amity.errors import ConfigError
from amity.events import Event, RunQueued, Sink
from amity.sinks.progress import Bars
from amity.sinks.registry import sinks

EVERY = 0.25
"""Seconds between two looks."""


def in_notebook() -> bool:
    """Whether this is a notebook's kernel."""
    return "IPython" in sys.modules and Console().is_jupyter


def _in_a_shell() -> bool:
    """Whether IPython runs us, in a notebook or elsewhere."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return get_ipython() is not None


class Output:
    """The bars in one output."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None
        self._bars = Bars(Console(), live=False)
        self._last = 0.0

    def take(self, event: Event) -> None:
        self._bars.take(event)
        if not isinstance(event, RunQueued) and time.monotonic() - self._last > EVERY:
            self._show()

    def _show(self) -> None:
        self._last = time.monotonic()
        table = self._bars.progress.whole()
        if self._handle is None:
            self._handle = self._display(table, display_id=True)
        else:
            self._handle.update(table)

    def close(self) -> None:
        if self._bars.progress.tasks:
            self._show()


@sinks.register("notebook")
@dataclass(frozen=True)
class NotebookBars:
    """The same bars in a Jupyter notebook."""

    def open(self) -> Sink:
        if not _in_a_shell():
            raise ConfigError("sinks=notebook: is for notebooks; on a terminal use sinks=progress")
        from IPython.display import display

        return Output(display)
