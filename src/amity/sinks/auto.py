"""Progress in the form that suits the place."""

from __future__ import annotations

from dataclasses import dataclass

from amity.console import out_console
from amity.events import Sink
from amity.sinks.notebook import NotebookBars, in_notebook
from amity.sinks.plain import Plain
from amity.sinks.progress import ProgressBars
from amity.sinks.registry import sinks


@sinks.register("auto")
@dataclass(frozen=True)
class Auto:
    """`notebook` in a notebook, `progress` on a terminal, `plain` elsewhere."""

    def open(self) -> Sink:
        if in_notebook():
            return NotebookBars().open()
        return ProgressBars().open() if out_console.is_terminal else Plain().open()
