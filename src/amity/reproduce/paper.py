"""What the paper prints, read from `paper.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper (or of ours, where it says so) that an experiment can confirm or
    not."""

    id: str
    text: str


@dataclass(frozen=True)
class Printed:
    """What the paper has on one experiment."""

    where: str
    sizes: str
    numbers: dict[tuple[str, str], tuple[float, float]]
    """Mean and standard deviation in %, by row and column."""
    known: tuple[str, ...]
    """Known inconsistencies."""
    claims: tuple[Claim, ...]


@cache
def _all() -> dict[str, Any]:
    return tomllib.loads((files("amity.reproduce") / "paper.toml").read_text(encoding="utf-8"))


def printed(name: str) -> Printed:
    """What the paper prints on an experiment; empty where it has nothing."""
    found = _all().get(name, {})
    numbers = {
        (row, column): (mean, std)
        for row, cells in found.get("rows", {}).items()
        for column, (mean, std) in zip(found["columns"], cells, strict=True)
    }
    return Printed(
        found.get("where", ""),
        found.get("sizes", ""),
        numbers,
        tuple(note["what"] for note in found.get("known", ())),
        tuple(Claim(claim["id"], claim["text"]) for claim in found.get("claims", ())),
    )
