"""Groups of peers that are alike: hierarchical clustering with average linkage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amity.core import PeerId

Floats = np.ndarray[Any, np.dtype[np.float64]]
Alike = Mapping[PeerId, Mapping[PeerId, float]]
MOST = 1.5
"""A likeness above this counts as this: beyond 1 it is chance, and should not decide alone."""


LINK = 0.92
"""Two large groups are one if their mean likeness is at least this: nearly 1, what it is for the
same distribution."""
CHANCE = 0.12
"""How far chance moves the likeness of a single peer to others."""


def groups(alike: Alike) -> list[tuple[PeerId, ...]]:
    r"""Everyone is alone at first. Again and again the two groups with the largest mean likeness

        L(G, H) = 1/(|G||H|) Σ_{i∈G, j∈H} ½ (ℓ_ij + ℓ_ji)

    become one, if it is at least 0.92 − 0.12 √(1/|G| + 1/|H|). The larger two groups are, the less
    their mean likeness is moved by chance: so single peers that are a little unlike by chance still
    find together, and large groups that differ a little stay apart. Ties go to the first names.
    """
    names = sorted(alike)
    links = _links(alike, names)
    members: dict[int, list[PeerId]] = {at: [name] for at, name in enumerate(names)}
    size = np.ones(len(names))
    while len(members) > 1:
        near = np.where(links >= _least(size[:, None], size[None]), links, -np.inf)
        one, other = sorted(divmod(int(np.argmax(near)), len(names)))
        if near[one, other] == -np.inf:
            break
        a, b = size[one], size[other]
        size[one] += b
        joined = (a * links[one] + b * links[other]) / (a + b)
        links[one], links[:, one] = joined, joined
        links[one, one] = -np.inf
        links[other], links[:, other] = -np.inf, -np.inf
        members[one] += members.pop(other)
    return [tuple(sorted(group)) for group in members.values()]


def _least(a: Floats, b: Floats) -> Floats:
    """The mean likeness from which on groups of such sizes become one."""
    found: Floats = LINK - CHANCE * np.sqrt(1 / a + 1 / b)
    return found


def _links(alike: Alike, names: list[PeerId]) -> Floats:
    links = np.array([[alike[i].get(j, 0.0) for j in names] for i in names], dtype=np.float64)
    links = np.minimum(np.nan_to_num(links), MOST)
    links = (links + links.T) / 2
    np.fill_diagonal(links, -np.inf)
    return links
