"""Whether reading a directory would run code that it names.

A config may name a class of one's own, `mine.py:Net` or `package.module:Net`, and whoever resolves
such a config imports it. A directory from somebody else must not choose what runs here. So its
files are looked through as plain text before anything in them is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amity.errors import RunDirError
from amity.registry import in_memory
from amity.store.reading import EXTENDED, read_lines
from amity.toml import read_toml

TABLES = ("config.toml", "peers/*/peer.toml", "peers/*/state/config.toml")
LINES = (EXTENDED, f"peers/*/state/{EXTENDED}")
ADDRESS = re.compile(r":\s*[^\W\d]")
"""What the name of a class has behind its file or module. A port or a time has a number there."""


def code_named(path: Path) -> list[str]:
    """The code that the files of a directory name, `mine.py:Net`, each once. Nothing is
    imported."""
    tables = [read_toml(file) for name in TABLES for file in sorted(path.glob(name))]
    lines = [read_lines(file) for name in LINES for file in sorted(path.glob(name))]
    named = [text for text in _texts([tables, lines]) if ADDRESS.search(text)]
    return list(dict.fromkeys(text for text in named if not in_memory(text)))


def refuse_code(path: Path, trust: bool) -> None:
    """Refuse a directory that names code of its own, unless whoever asks trusts it."""
    named = [] if trust else code_named(path)
    if named:
        raise RunDirError(
            f"{path}: would run {', '.join(named)}, which its config names; look at it first, then"
            " say --trust (in Python: trust=True)"
        )


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
