"""Writing files so that a reader finds all of them or nothing."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amity.errors import StorageError


def write_atomically(path: Path, data: bytes | Iterable[bytes]) -> None:
    """A temporary file of our own beside it, flushed to disk, then renamed. What comes in parts is
    never whole in memory."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(scratch, "wb") as stream:
            for part in [data] if isinstance(data, bytes) else data:
                stream.write(part)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, path)
        sync_folder(path.parent)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from None


def sync_folder(path: Path) -> None:
    """Make renames in a folder last."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def plain(value: Any) -> Any:
    """JSON has no NaN: numbers that are not finite become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def json_text(value: Any, separators: tuple[str, str] | None = None) -> str:
    """As JSON, with null for numbers that are not finite. They are looked for only where there are
    any, or something that json does not know."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(plain(value), ensure_ascii=False, separators=separators)


def dump(record: Mapping[str, Any]) -> bytes:
    """A line of JSON."""
    return (json_text(record) + "\n").encode()


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one kind as CSV, with a header."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
