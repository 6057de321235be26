"""Whose code it is. What you type or pass is yours. What a file or a folder names may be anybody's:
it is run only if it is yours already, or if you say that you trust it.

Yours is a class that you have run before: the same name in the same file, with the same content.
`code.jsonl` in the folder of your state (`$XDG_STATE_HOME/amity`, or `~/.local/state/amity`)
remembers them. What only reads a folder (`reading()`) runs nothing but what this process has run
already.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from amity.errors import ConfigError
from amity.registry.files import code_of

_named: ContextVar[list[str] | None] = ContextVar("named", default=None)
"""While somebody else's words are read: the code that they name."""


class Code(NamedTuple):
    """A class of one's own, as it is now."""

    name: str
    """Its file with the whole path, or its module; and the class."""
    digest: str

    @classmethod
    def of(cls, name: str) -> Code:
        source, _, attribute = name.rpartition(":")
        place = str(Path(source).resolve()) if source.endswith(".py") else source
        return cls(f"{place}:{attribute}", code_of(name))


_here: set[Code] = set()
"""What this process has run, or may run."""
_foreign: set[str] = set()
"""What others' words have named in this process, and nobody has admitted."""


@contextmanager
def reading() -> Iterator[list[str]]:
    """In here nothing is loaded that this process has not run already: it stands as a name with its
    options (`Absent`), here and later. The list has the names."""
    named: list[str] = []
    token = _named.set(named)
    try:
        yield named
    finally:
        _named.reset(token)


def withheld(name: str) -> bool:
    """Whether code of this name must not be loaded now."""
    code, named = Code.of(name), _named.get()
    if code in _here:
        return False
    if named is not None:
        named.append(name)
        _foreign.add(code.name)
    return code.name in _foreign


def ran(name: str) -> None:
    """Code was run that nobody withheld: from now on it is yours."""
    code = Code.of(name)
    if code not in _here:
        _here.add(code)
        _remember(code)


def yours(name: str) -> bool:
    """Whether you have run this before, as it is now."""
    code = Code.of(name)
    return code in _here or code in _remembered()


def admit(where: str | Path, names: Sequence[str], trust: bool = False) -> None:
    """Let code run that a file or a folder names, if it is yours or you trust it. Raises else, and
    says which file it is. While somebody only reads, nothing is admitted, and nothing refused."""
    if _named.get() is not None:
        return
    for name in dict.fromkeys(names):
        if not trust and not yours(name):
            code = Code.of(name)
            file = code.name.rpartition(":")[0]
            digest = f" (SHA-256 {code.digest[:16]}...)" if code.digest else ""
            raise ConfigError(
                f"{where}: would run {file}{digest}, for {name!r}, which you have not run before as"
                " it is now; read it, and say --trust (in Python trust=True) to run it"
            )
        take_over(name)


def take_over(name: str) -> None:
    """Somebody typed this name, or trusts it: it may run."""
    code = Code.of(name)
    _foreign.discard(code.name)
    _here.add(code)
    _remember(code)


# -- the memory ------------------------------------------------------------------------------------


def memory() -> Path:
    """Where it is written down what you have run."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "amity" / "code.jsonl"


def _remembered() -> set[Code]:
    found = set()
    try:
        lines = memory().read_bytes().split(b"\n")
    except (OSError, RuntimeError):  # none yet, or a user without a home
        return set()
    for line in lines:
        try:
            known = json.loads(line)
            found.add(Code(str(known["name"]), str(known["sha256"])))
        except (ValueError, KeyError, TypeError):
            continue  # torn: it will be asked for again
    return found


def _remember(code: Code) -> None:
    """One whole line, for ever. Who cannot write it is asked again next time."""
    if not code.digest or code in _remembered():
        return
    line = json.dumps({"name": code.name, "sha256": code.digest}) + "\n"
    try:
        memory().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(memory(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
            file.write(line.encode())
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        logging.getLogger(__name__).warning(
            "%s", f"{code.name}: that it is yours cannot be remembered ({why})"
        )
