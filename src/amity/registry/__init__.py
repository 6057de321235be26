"""Named things with typed options: strategies, methods, datasets, partitions, topologies, models.

An entry is a frozen dataclass; its fields are its options. `build` checks names, types and ranges
and answers a mistake with one line. A name of the form `package.module:Class` or
`path/to/file.py:Class` is loaded from there, so your own class takes part without touching the
package. A class or an object of a notebook, which has no file, takes part as well: see `memory`.
"""

from amity.registry.entries import AbsentEntry, Entry
from amity.registry.explained import Option, meanings, options_of
from amity.registry.files import USER_MODULE, code_of, importable
from amity.registry.fingerprint import fingerprint
from amity.registry.memory import Absent, in_memory
from amity.registry.options import QUIET, checked, explain, fields_of, written_of
from amity.registry.table import Registry
from amity.registry.yours import admit, reading, take_over, yours

__all__ = [
    "QUIET",
    "USER_MODULE",
    "Absent",
    "AbsentEntry",
    "Entry",
    "Option",
    "Registry",
    "admit",
    "checked",
    "code_of",
    "explain",
    "fields_of",
    "fingerprint",
    "importable",
    "in_memory",
    "meanings",
    "options_of",
    "reading",
    "take_over",
    "written_of",
    "yours",
]
