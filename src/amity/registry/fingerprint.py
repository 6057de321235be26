"""A digest of any object: of its code, and of all values that it stands on.

Functions and classes count by their code and by the globals and closures that it uses, arrays and
tensors by their numbers, everything else by what its own `__reduce_ex__` says it is made of. What
comes with Python or from an installed package counts by its name. Comments, line numbers and the
order of a notebook's cells do not count. The digest is the same in every process, but for things
that cannot say what they are made of (a lock, an open file): those are themselves in this process
and something else in any other.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
PROCESS = secrets.token_bytes(16)
"""What makes an object that cannot be read differ from those of other processes."""
GENERATED = re.compile(
    r"__(module|qualname|doc|dict|weakref|slotnames|annotations|annotate_func|annotations_cache"
    r"|firstlineno|static_attributes|dataclass_fields|dataclass_params|match_args|parameters"
    r"|orig_bases|abstractmethods)__|_abc_impl"
)
"""Attributes of a class that Python adds, or that say nothing of what it does."""


def fingerprint(thing: Any) -> str:
    """The SHA-256 of an object."""
    return _Walk().of(thing).hex()


def _hash(kind: str, *parts: Any) -> bytes:
    """Of a kind and its parts; parts have a length each, so that no two lists look the same."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        digest.update(f"\0{memoryview(part).nbytes}\0".encode())
        digest.update(part)
    return digest.digest()


def _installed(module: str) -> bool:
    """Whether a module comes with Python, with Amity or from an installed package."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names or root in ("builtins", "amity"):
        return True
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    return bool({"site-packages", "dist-packages"} & set(file.parts))


class _Walk:
    """Digests of objects from those of their parts, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}
        """By id, with the object itself, so that no other gets its id."""

    def of(self, thing: Any) -> bytes:
        if isinstance(thing, PLAIN):
            return _hash(type(thing).__name__, repr(thing).encode())
        if id(thing) not in self._known:
            self._known[id(thing)] = (thing, b"itself")  # what it is to its own parts
            self._known[id(thing)] = (thing, self._look(thing))
        return self._known[id(thing)][1]

    def _all(self, things: Any) -> Iterator[bytes]:
        return (self.of(thing) for thing in things)

    def _look(self, thing: Any) -> bytes:
        for kind, look in self._ways():
            if isinstance(thing, kind):
                return look(thing)
        return self._made_of(thing)

    def _ways(self) -> Iterator[tuple[Any, Callable[[Any], bytes]]]:
        yield (tuple, list), lambda x: _hash(type(x).__name__, *self._all(x))
        yield dict, lambda x: _hash("dict", *self._all(x), *self._all(x.values()))
        yield (set, frozenset), lambda x: _hash("set", *sorted(self._all(x)))
        yield ModuleType, lambda x: _hash("module", x.__name__.encode())
        yield CodeType, self._code
        yield FunctionType, self._function
        yield CellType, self._cell
        yield type, self._class
        yield (staticmethod, classmethod), lambda x: _hash("method", self.of(x.__func__))
        yield property, lambda x: _hash("property", *self._all((x.fget, x.fset, x.fdel)))
        yield functools.cached_property, lambda x: _hash("cached", self.of(x.func))
        yield np.ndarray, self._array
        if "torch" in sys.modules:
            yield sys.modules["torch"].Tensor, self._tensor

    def _named(self, thing: Any) -> bytes:
        module, name = thing.__module__ or "", thing.__qualname__
        return _hash("name", module.encode(), name.encode())

    def _code(self, code: CodeType) -> bytes:
        names = (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return _hash("code", code.co_code, *self._all((*names, *shape, *code.co_consts)))

    def _function(self, function: FunctionType) -> bytes:
        if _installed(function.__module__ or ""):
            return self._named(function)
        used = sorted(n for n in _globals_in(function.__code__) if n in function.__globals__)
        values = [function.__globals__[name] for name in used]
        rest = (function.__defaults__, function.__kwdefaults__, function.__closure__)
        own = vars(function)
        return _hash("function", *self._all((function.__code__, *rest, own, *used, *values)))

    def _cell(self, cell: CellType) -> bytes:
        try:
            return _hash("cell", self.of(cell.cell_contents))
        except ValueError:  # nothing is in it yet
            return _hash("cell")

    def _class(self, cls: type) -> bytes:
        if _installed(cls.__module__):
            return self._named(cls)
        own = {key: vars(cls)[key] for key in sorted(vars(cls)) if not GENERATED.fullmatch(key)}
        return _hash("class", *self._all((cls.__name__, cls.__bases__, own)))

    def _array(self, array: np.ndarray[Any, Any]) -> bytes:
        if array.dtype.hasobject:
            return _hash("objects", *self._all((array.shape, array.tolist())))
        numbers = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return _hash("array", *self._all((array.dtype.str, array.shape)), numbers)

    def _tensor(self, tensor: Any) -> bytes:
        whole = tensor.detach().cpu().contiguous().reshape(-1)
        numbers = whole.view(sys.modules["torch"].uint8).numpy()
        return _hash("tensor", *self._all((str(tensor.dtype), tuple(tensor.shape))), numbers)

    def _made_of(self, thing: Any) -> bytes:
        """An instance of any other class, by the parts that it could be built from."""
        try:
            made = thing.__reduce_ex__(4)
        except Exception:  # anybody's class may refuse, in any way
            return _hash("opaque", PROCESS, str(id(thing)).encode())
        if isinstance(made, str):  # it goes by its name; what it wraps does not
            module = str(getattr(thing, "__module__", ""))
            inside = getattr(thing, "__wrapped__", None)
            return _hash("global", module.encode(), made.encode(), self.of(inside))
        parts = [list(part) if isinstance(part, Iterator) else part for part in made]
        return _hash("object", *self._all(parts))


def _globals_in(code: CodeType) -> set[str]:
    """The global names that code looks up, and those of the functions within it."""
    names = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return names.union(*map(_globals_in, inner))
