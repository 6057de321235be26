"""The numbers and texts in a .npy file of Python objects, without unpickling it.

To unpickle is to let a file say which functions are called. Here its instructions are only read
(`pickletools.genops`): a call becomes an `Inert` note of what was to be called, and nothing is
imported or run. Out of such notes come arrays of plain numbers, lists and texts, and nothing else.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from amity.errors import DataError

ARRAY, TYPE, BYTES = "numpy.core.multiarray _reconstruct", "numpy dtype", "_codecs encode"
NUMBERS = ("f4", "f8", "i4", "i8", "u1")
MARK = object()


@dataclass
class Inert:
    """What was to be called, with what, and the state that the result was to have."""

    function: Any
    given: Any
    state: Any = None


def read_inert(where: str, data: bytes) -> Any:
    """What a .npy file of one Python object holds: dicts, lists and tuples of texts, numbers and
    `Inert`."""
    stream = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version")
        np.lib.format.read_array_header_1_0(stream)
        whole = _Reader().read(stream.read())
        return whole.state[4][0]  # an array of one object: its last part is the list of them
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where}: cannot be read as plain data ({error})") from None


def array_of(where: str, note: Any) -> np.ndarray[Any, Any]:
    """The array that a note describes."""
    try:
        _version, shape, kind, by_column, content = note.state
        name, order = kind.given[0], kind.state[1]
        text, code = content.given
        known = (note.function, kind.function, content.function) == (ARRAY, TYPE, BYTES)
        if not known or code != "latin1" or name not in NUMBERS:
            raise ValueError("not plain numbers")
        flat = np.frombuffer(text.encode("latin1"), dtype=order.replace("|", "") + name)
        return flat.reshape(shape, order="F" if by_column else "C")
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{where}: holds no array of numbers there ({error})") from None


class _Reader:
    """A stack of plain values, and the few instructions that such a file has."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self, data: bytes) -> Any:
        for code, given, _at in pickletools.genops(data):
            if code.name == "STOP":
                return self.stack.pop()
            if code.name in VALUES:
                self.stack.append(VALUES[code.name](given))
            elif code.name in VERBS:
                VERBS[code.name](self, given)
            else:
                raise ValueError(f"unexpected {code.name}")
        raise ValueError("it ends too early")

    def last(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("it takes more than there is")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def since_mark(self) -> list[Any]:
        at = max(at for at, value in enumerate(self.stack) if value is MARK)
        return self.last(len(self.stack) - at)[1:]

    def keep(self, at: int) -> None:
        self.memo[at] = self.stack[-1]

    def call(self) -> None:
        self.stack.append(Inert(*self.last(2)))

    def build(self) -> None:
        (state,) = self.last(1)
        self.stack[-1].state = state

    def fill(self) -> None:
        items = self.since_mark()
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))


VALUES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "BINUNICODE", "GLOBAL"), lambda given: given),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "MARK": lambda _: MARK,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
    "EMPTY_TUPLE": lambda _: (),
}
VERBS: Mapping[str, Callable[[_Reader, Any], None]] = {
    "PROTO": lambda reader, given: None,
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda reader, at: reader.keep(at)),
    **dict.fromkeys(
        ("BINGET", "LONG_BINGET"), lambda reader, at: reader.stack.append(reader.memo[at])
    ),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader.since_mark())),
    "TUPLE1": lambda reader, _: reader.stack.append(tuple(reader.last(1))),
    "TUPLE2": lambda reader, _: reader.stack.append(tuple(reader.last(2))),
    "TUPLE3": lambda reader, _: reader.stack.append(tuple(reader.last(3))),
    "REDUCE": lambda reader, _: reader.call(),
    "BUILD": lambda reader, _: reader.build(),
    "APPEND": lambda reader, _: _extend(reader, reader.last(1)),
    "APPENDS": lambda reader, _: _extend(reader, reader.since_mark()),
    "SETITEMS": lambda reader, _: reader.fill(),
}


def _extend(reader: _Reader, values: list[Any]) -> None:
    reader.stack[-1].extend(values)
