"""Everything that is wrong with a table, told at once: by kind, with columns, counts and the first
line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 4
"""So many columns of a kind are named in an error; `amity data check` names them all."""


@dataclass(frozen=True)
class Trouble:
    """A kind of problem: what is said after the names of columns, and what would be right."""

    says: str
    remedy: str
    """`{names}` stands for the columns, `{file}` for the schema file, `{roles}` for what a column
    may be."""


TROUBLES = {
    "absent": Trouble(
        "{is_} not in the file",
        "add what is missing (empty, where its rule in {file} is not `refuse`), or take it out of"
        " {file} at all members",
    ),
    "no label": Trouble(
        "is not in the file",
        "say which column holds the classes with data.label=COLUMN; there are {roles}",
    ),
    "twice": Trouble("{is_} named twice", "give every column a name of its own"),
    "empty": Trouble("{has} no value at all", "leave it out with data.drop={names}"),
    "missing": Trouble(
        "{has} no value in some rows",
        "say data.missing=median (fills them) or data.missing=indicator (also adds an input that"
        " says so), or leave it out with data.drop={names}",
    ),
    "holes": Trouble(
        "{has} no value in some rows",
        'let `missing = "median"` ("zeros" for a category) fill them in {file}, which need not be'
        " done at all members",
    ),
    "words": Trouble(
        "{has} other things than numbers",
        "correct it, or name what stands for a missing value with data.na=WORD,WORD",
    ),
    "infinite": Trouble("{has} numbers that are not finite", "correct it"),
    "commas": Trouble("{has} decimal commas", "write a point"),
    "dates": Trouble(
        "{has} dates",
        "data.dates=days makes days since 1970 of them, data.drop={names} leaves them out",
    ),
    "odd dates": Trouble(
        "{has} dates that can be read in two ways", "write YYYY-MM-DD, or use data.drop={names}"
    ),
    "role": Trouble(
        "{is_} no number",
        "say what it names ({roles}), make it a category with data.categories={names}, or leave it"
        " out with data.drop={names}",
    ),
    "text": Trouble(
        "{is_} text with too many values for a category",
        "leave it out with data.drop={names}, or make it a category all the same with"
        " data.categories={names}",
    ),
    "objects": Trouble("{is_} neither numbers nor text", "leave it out with data.drop={names}"),
    "unknown": Trouble(
        "{has} values that {file} does not name",
        'add them to its `values` at all members, or let `missing = "zeros"` take them as missing,'
        " which need not be done at all members",
    ),
    "label": Trouble("cannot be the label", "correct it, or say data.label=COLUMN"),
    "no target": Trouble(
        "is not in the file",
        "say which column holds the answers with data.target=COLUMN; there are {roles}",
    ),
    "target": Trouble(
        "{is_} no number in some rows",
        "correct it or leave these rows out, or say data.target=COLUMN, or use task=classify"
        " data.label=COLUMN for classes",
    ),
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one column."""

    kind: str
    column: str
    detail: str = ""
    """Counts, examples, the first row."""
    roles: str = ""
    """For a column that may name something: the options that would say so."""

    def __str__(self) -> str:
        return f"{self.column!r} ({self.detail})" if self.detail else repr(self.column)


def told(problems: Sequence[Problem], file: str = "", shown: int = SHOWN) -> list[str]:
    """A line for each kind of problem, with all of its columns and the remedy."""
    groups = {kind: [p for p in problems if p.kind == kind] for kind in TROUBLES}
    return [_line(group, file, shown) for group in groups.values() if group]


def in_one_line(problems: Sequence[Problem], file: str = "") -> str:
    """The same for an error."""
    count = f"{len(problems)} problems: " if len(problems) > 1 else ""
    return count + "; ".join(told(problems, file))


def _line(group: Sequence[Problem], file: str, shown: int) -> str:
    trouble, one = TROUBLES[group[0].kind], len(group) == 1
    words = {
        "names": ",".join(p.column for p in group),
        "file": file or "the schema",
        "roles": group[0].roles,
        "has": "has" if one else "have",
        "is_": "is" if one else "are",
    }
    says, remedy = (text.format(**words) for text in (trouble.says, trouble.remedy))
    if one:
        detail = f" ({group[0].detail})" if group[0].detail else ""
        return f"column {group[0].column!r} {says}{detail}: {remedy}"
    more = f" and {len(group) - shown} more" if len(group) > shown else ""
    return f"columns {', '.join(map(str, group[:shown]))}{more} {says}: {remedy}"
