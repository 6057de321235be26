"""Everything that Amity raises on purpose.

    AmityError
    ├── Misuse              the request is wrong: exit 2, nothing was changed
    │   ├── ConfigError     a key, a value or a combination of them
    │   ├── DataError       a dataset, a file of it, or a partition that it does not allow
    │   │   └── MissingData its files are not here
    │   ├── TopologyError   a graph or an availability trace
    │   ├── IdentityError   a key, a certificate or a roster
    │   └── RunDirError     a run directory that is missing, foreign or not finished
    └── Failure             the request was right, carrying it out failed: exit 1, and what was
        │                   done is kept
        ├── StrategyError   a strategy raised, or broke the rules of its plan
        ├── RowError        a strategy returned a row that breaks the rules
        ├── StorageError    a file could not be written or read back
        └── NetworkError    the network could not be opened (yet)

Each message says what was wrong, where, and what would be right, in one line.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


class AmityError(Exception):
    """The root of the tree; the command line shows its message and no traceback."""

    exit_code = 1


class Misuse(AmityError):
    """The request is wrong."""

    exit_code = 2


class ConfigError(Misuse):
    """A key, a value or a combination of them."""


class DataError(Misuse):
    """A dataset, a file of it, or a partition that it does not allow."""


class MissingData(DataError):
    """The files of a dataset are not here."""


class TopologyError(Misuse):
    """A graph or an availability trace."""


class IdentityError(Misuse):
    """A key, a certificate or a roster."""


class RunDirError(Misuse):
    """A run directory that is missing, foreign or not finished."""


class Failure(AmityError):
    """The request was right, carrying it out failed."""


class StrategyError(Failure):
    """A strategy raised, or broke the rules of its plan."""


class RowError(Failure):
    """A strategy returned a row that breaks the rules."""


class StorageError(Failure):
    """A file could not be written or read back."""


class NetworkError(Failure):
    """The network could not be opened: an address that is not there yet, a port that is taken."""


def brief(error: BaseException) -> str:
    """An error from code that is not ours, in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def line_of(error: BaseException) -> str:
    """One line about an error. Our own errors are shown as they are."""
    return str(error) if isinstance(error, AmityError) else brief(error)


def place_of(error: BaseException) -> str:
    """Where in a user's own file it happened: ` (mine.py, line 41)`; empty if in none."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [
        f
        for f in frames
        if Path(__file__).parent not in Path(f.filename).parents and "-packages" not in f.filename
    ]
    return f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """One line for a name that does not exist, with the nearest name that does.

    >>> unknown("strategy", "afnd", ["afind", "gossip"])
    "unknown strategy 'afnd'; did you mean 'afind'?"
    """
    known = sorted(known)
    close = near(name, known)
    remedy = f"did you mean {close!r}?" if close else f"known: {', '.join(known) or 'none'}"
    return f"unknown {kind} {name!r}; {remedy}"


def near(name: str, known: Iterable[str], least: float = 0.65) -> str:
    """The name that is most like another; empty if none is so like it (by `least`) that it may have
    been meant."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=least)
    longer = [one for one in known if len(name) > 2 and one.startswith(name)]
    return next(iter([*close, *longer]), "")


@contextmanager
def needs(extra: str, *packages: str) -> Iterator[None]:
    """Inside this block, an import of these packages that fails says in one line which extra to
    install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise ConfigError(f"this needs pip install 'amity[{extra}]'") from None


def needs_peers() -> AbstractContextManager[None]:
    """The network packages."""
    return needs("peers", "cryptography", "zenoh", "prometheus_client")
