"""The stream: every event to every sink, in order.

A sink that fails, at any time, is reported in one line and left out from then on; the run goes on.
If the request itself is wrong (a name, an option, a missing package), it is an error before
anything begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from amity.config import read_spec, split_list
from amity.console import ReaderLeft
from amity.errors import ConfigError, Misuse, line_of
from amity.events import Diverged, Event, Sink
from amity.registry import admit, reading
from amity.sinks.notebook import in_notebook
from amity.sinks.registry import Opens, sinks

One: TypeAlias = str | Opens | Sink
Wanted: TypeAlias = One | Sequence[One] | None
"""What `sinks=` takes: names with options, as text with commas or as a list; entries; objects.
None: in a notebook its progress, elsewhere nothing."""


@dataclass(frozen=True)
class Chosen:
    """A sink that was asked for."""

    name: str
    open: Callable[[], Sink]


def choose(wanted: Wanted) -> list[Chosen]:
    """The sinks that were asked for, with names and options checked."""
    if wanted is None:
        wanted = ["notebook"] if in_notebook() else []
    if isinstance(wanted, str):
        wanted = split_list(wanted)
    if isinstance(wanted, Opens | Sink):
        wanted = [wanted]
    if not isinstance(wanted, list | tuple):
        raise ConfigError(f"sinks: expected names such as 'plain,jsonl', got {wanted!r}")
    for one in wanted:
        if isinstance(one, str) and wanted.count(one) > 1:
            raise ConfigError(f"sinks: {one!r} is named twice")
    return [_choice(one) for one in wanted]


def admit_sinks(where: str | Path, wanted: Wanted, trust: bool = False) -> None:
    """Let sinks of one's own run that a file names, if they are yours already, or if you trust
    it."""
    names = split_list(wanted) if isinstance(wanted, str) else wanted or []
    with reading() as named:
        for one in names if isinstance(names, list | tuple) else ():
            if isinstance(one, str):
                sinks[str(read_spec(one, sinks, "sinks")["name"])]
    admit(where, named, trust)


def _choice(one: One) -> Chosen:
    if isinstance(one, str):
        options = read_spec(one, sinks, "sinks")
        name = str(options.pop("name"))
        return Chosen(name, sinks[name].build(options).open)
    if isinstance(one, type):
        raise ConfigError(f"sinks: {one.__name__} is a class; give an instance of it")
    name = type(one).__name__
    if isinstance(one, Sink):
        return Chosen(name, partial(_itself, one))
    if isinstance(one, Opens):
        return Chosen(name, one.open)
    raise ConfigError(f"sinks: {one!r} is neither a name nor a sink (with `take` and `close`)")


def _itself(sink: Sink) -> Sink:
    return sink


class Stream:
    """All sinks of a run, as one. Use it in a `with` block: it opens and closes each of them
    once."""

    def __init__(self, wanted: Wanted = None) -> None:
        self._choices = choose(wanted)
        self._sinks: list[tuple[str, Sink]] = []
        self._warned: set[str] = set()
        """Of which runs it was said that they have diverged: once for all seeds."""

    def __enter__(self) -> Stream:
        self.open()
        return self

    def open(self) -> None:
        for choice in self._choices:
            try:
                self._sinks.append((choice.name, choice.open()))
            except (Misuse, ReaderLeft):
                self.close()
                raise
            except (Exception, SystemExit) as error:  # anybody's code
                _report(choice.name, error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, event: Event) -> None:
        """Hand on an event. What nobody may miss is said here, whatever the sinks are."""
        if isinstance(event, Diverged) and event.cell.label not in self._warned:
            self._warned.add(event.cell.label)
            one_of_many = event.cell.group and event.cell.label != event.peer
            seed = f" seed {event.cell.seed}" if one_of_many else ""
            logging.getLogger(__name__).warning("%s", f"{event.cell.label}{seed}: {event}")
        for one in list(self._sinks):
            name, sink = one
            try:
                sink.take(event)
            except ReaderLeft:
                raise
            except (Exception, SystemExit) as error:
                _report(name, error)
                self._sinks.remove(one)
                with suppress(Exception, SystemExit):  # it has been reported
                    sink.close()

    def close(self) -> None:
        while self._sinks:
            name, sink = self._sinks.pop(0)
            try:
                sink.close()
            except ReaderLeft:
                raise
            except (Exception, SystemExit) as error:
                _report(name, error)


def _report(name: str, error: BaseException) -> None:
    line = f"sink {name!r} failed: {line_of(error)}; the run goes on without it"
    logging.getLogger(__name__).warning("%s", line)
