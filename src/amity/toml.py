"""Reading TOML, and the one thing that we read and TOML does not: a name beside its options.

    data = "table.csv"
    data.label = "diagnosis"

is how the command line says it. TOML refuses `data` as a text and as a table at once, so we take
the text for `data.name`; the same where a section `[run.data]` follows.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from amity.errors import ConfigError, brief

HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?")
SINGLE = re.compile(r"(\s*)([A-Za-z0-9_-]+)\s*=\s*(.*)")
PART = re.compile(r"\s*([A-Za-z0-9_-]+)\s*\..*=.*")


def read_toml(file: str | Path) -> dict[str, Any]:
    try:
        text = Path(file).read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigError(f"{file}: is not valid TOML ({brief(error)})") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            return tomllib.loads(_with_names(text))
        except (ValueError, RecursionError):
            raise ConfigError(f"{file}: is not valid TOML ({brief(error)})") from None


def _with_names(text: str) -> str:
    """`data = "a"` beside `data.x = 1` or `[data]` as `data.name = "a"`, or as `name` of it."""
    lines, table = text.splitlines(), ""
    singles: dict[str, int] = {}
    parts: set[str] = set()
    headers: dict[str, int] = {}
    for at, line in enumerate(lines):
        if header := HEADER.fullmatch(line):
            table = header[1]
            headers[table] = at
        elif part := PART.fullmatch(line):
            parts.add(_full(table, part[1]))
        elif single := SINGLE.fullmatch(line):
            singles[_full(table, single[2])] = at
    for key in singles.keys() & (parts | headers.keys()):
        indent, name, value = SINGLE.fullmatch(lines[singles[key]]).groups()  # type: ignore[union-attr]
        if key in headers:
            lines[singles[key]] = ""
            lines[headers[key]] += f"\nname = {value}"
        else:
            lines[singles[key]] = f"{indent}{name}.name = {value}"
    return "\n".join(lines)


def _full(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key
