"""Groups of peers that are alike: hierarchical clustering with average linkage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amity.core import PeerId

Alike = Mapping[PeerId, Mapping[PeerId, float]]
MOST = 1.5
"""A likeness above this counts as this: beyond 1 it is chance, and should not decide alone."""


def groups(alike: Alike, least: float) -> list[tuple[PeerId, ...]]:
    r"""Everyone is alone at first. Again and again the two groups with the largest mean likeness

        L(G, H) = 1/(|G||H|) Σ_{i∈G, j∈H} ½ (ℓ_ij + ℓ_ji)

    become one, as long as it is at least `least`. A mean over many pairs is hardly moved by chance,
    so peers that are a little unlike by chance still find together. Ties go to the first names.
    """
    names = sorted(alike)
    links = _links(alike, names)
    members: dict[int, list[PeerId]] = {at: [name] for at, name in enumerate(names)}
    while len(members) > 1:
        one, other = sorted(divmod(int(np.argmax(links)), len(names)))
        if not links[one, other] >= least:
            break
        a, b = len(members[one]), len(members[other])
        joined = (a * links[one] + b * links[other]) / (a + b)
        links[one], links[:, one] = joined, joined
        links[one, one] = -np.inf
        links[other], links[:, other] = -np.inf, -np.inf
        members[one] += members.pop(other)
    return [tuple(sorted(group)) for group in members.values()]


def _links(alike: Alike, names: list[PeerId]) -> np.ndarray[Any, np.dtype[np.float64]]:
    links = np.array([[alike[i].get(j, 0.0) for j in names] for i in names], dtype=np.float64)
    links = np.minimum(np.nan_to_num(links), MOST)
    links = (links + links.T) / 2
    np.fill_diagonal(links, -np.inf)
    return links
