"""Code of one's own that lies in a file: `package.module:Class` and `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

USER_MODULE = "amity_user_"
"""What the names of modules begin with that were loaded from a user's file."""
_IMPORTED: dict[str, str] = {}


def address_of(thing: Any) -> str:
    """From where another process could load a class or a function; empty if from nowhere."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    name, file = getattr(thing, "__qualname__", ""), getattr(module, "__file__", None)
    if module is None or not name or getattr(module, name, None) is not thing:
        return ""
    if not file or not Path(file).is_file():  # a notebook, or `python -` whose file is "<stdin>"
        return ""
    by_file = module.__name__ == "__main__" or module.__name__.startswith(USER_MODULE)
    return f"{file if by_file else module.__name__}:{name}"


def code_of(name: str) -> str:
    """The SHA-256 of the file that a class of one's own was loaded from; empty for what is
    registered or has no file. An installed module is imported once: its file is read when it is
    first asked for."""
    source = name.rpartition(":")[0]
    file = source if source.endswith(".py") else getattr(sys.modules.get(source), "__file__", None)
    if not source or not file or not Path(file).is_file():
        return ""
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return digest if source.endswith(".py") else _IMPORTED.setdefault(source, digest)


def importable(source: str) -> bool:
    """Whether there is a module of this name, or could be one."""
    try:
        return source in sys.modules or importlib.util.find_spec(source) is not None
    except (ImportError, ValueError):
        return False


def module_of(source: str) -> ModuleType:
    """A module by its name, or from a file of one's own."""
    if not source.endswith(".py"):
        return importlib.import_module(source)
    path = Path(source).resolve()
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if main is not None and file and Path(str(file)).resolve() == path:
        return main
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes())
    name = USER_MODULE + digest.hexdigest()[:16]  # a file that has changed is another module
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{source} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
