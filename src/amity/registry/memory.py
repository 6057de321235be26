"""Objects that lie in no file: a class, a module or arrays of a notebook.

In a config such an object goes by a name like `<notebook 1f3c9a0b42d7>:Nearest`, with a part of its
fingerprint. The process that was given the object finds it by that name. In any other process the
name stands for something `Absent`: what was recorded of a run can be read, and whoever wants to use
the object itself is told what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from amity.errors import ConfigError

PREFIX = "<notebook "


def memory_name(digest: str, label: str) -> str:
    """The name of an object with this fingerprint."""
    return f"{PREFIX}{digest[:12]}>:{label}"


def in_memory(name: str) -> bool:
    """Whether a name is that of an object that lies in no file."""
    return name.startswith(PREFIX)


class NotHere(ConfigError, AttributeError):
    """An object of another process was used. As an AttributeError it lets whoever asks for
    something optional have the default."""


@dataclass(frozen=True)
class Absent:
    """Stands for an object of another process, with the options that were recorded."""

    kind: str
    name: str
    options: Mapping[str, Any] = field(hash=False)

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):  # Python itself looks for these
            raise AttributeError(attribute)
        if not in_memory(self.name):
            raise NotHere(
                f"{self.kind} {self.name!r} is code that somebody else's file names, and was not"
                " loaded"
            )
        raise NotHere(
            f"{self.kind} {self.name!r} was passed as an object to another process; pass it again"
            " with the same out=, or put it into a file that a config can name"
        )
