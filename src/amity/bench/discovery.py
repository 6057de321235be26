"""How fast friends are found in a very large network, what it costs, and how much of it liars get:
cards of known groups, and nothing else. Nobody is told the groups; they are for measuring."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import Field

from amity.rng import rng
from amity.round.build import one_thread
from amity.round.discovery import HEAD_BYTES
from amity.show.figures import COLOURS
from amity.simulate.crowd import Coalition, Multitude
from amity.topology import Discover

SAMPLE = 512
"""Peers for whom the most similar of all are looked up, to know the best possible view."""


@dataclass(frozen=True)
class Search:
    """A network in which friends are looked for."""

    peers: Annotated[int, Field(ge=100)] = 100_000
    """How many."""
    groups: Annotated[int, Field(ge=1)] = 50
    """Groups of peers with similar cards."""
    numbers: Annotated[int, Field(ge=2, le=1024)] = 64
    """Numbers on a card, of one byte each."""
    noise: Annotated[float, Field(ge=0, le=10)] = 0.7
    """Length of what sets a peer's card apart from its group's, which has length 1."""
    rounds: Annotated[int, Field(ge=1, le=1000)] = 15
    """Rounds of exchange."""
    liars: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    """Share of peers that lie, in the second and third table; 0: none."""
    seed: int = 1
    """Of all that is drawn."""
    rule: Discover = field(default_factory=Discover)
    """How they are looked for: the options of topology=discover."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What honest peers have after a round; round 0: before the first exchange."""

    kind: str
    round: int
    friends: float
    """Share of a view that is of one's own group."""
    similarity: float
    """Mean similarity of a view, over that of the best view there could be."""
    kilobytes: float
    """Sent and received by a peer in this round, in the mean."""
    links: int
    """In how many circles the most popular peer is."""
    liars_in_view: float = 0.0
    liars_at_random: float = 0.0
    """Share of liars among random members."""
    eclipsed: float = 0.0
    """Share of honest peers that know liars alone."""
    seconds: float = 0.0
    """Since the first round began, measuring left out."""


Tell = Callable[[str], None]


def search(wanted: Search, tell: Tell) -> list[Searched]:
    """Without liars, with liars that copy cards, and with liars whose cards fit everybody's."""
    kinds: list[tuple[str, bool | None]] = [("honest", None)]
    if wanted.liars:
        kinds += [("copied cards", False), ("perfect cards", True)]
    with one_thread():
        return [row for kind, perfect in kinds for row in _play(wanted, kind, perfect, tell)]


def _play(wanted: Search, kind: str, perfect: bool | None, tell: Tell) -> list[Searched]:
    """All rounds. `perfect` says what liars show; None: there are none."""
    cards, group = _world(wanted)
    liars, lying = None, torch.zeros(wanted.peers, dtype=torch.bool)
    if perfect is not None:
        cards, liars = _with_liars(wanted, cards, group, perfect)
        lying, group = liars.are, liars.group
    draw = rng(wanted.seed, "circles", kind)
    salts = draw.integers(2**64, size=(wanted.peers, wanted.rule.random), dtype=np.uint64)
    crowd = Multitude(wanted.rule, cards, salts, liars)
    crowd.begin(_strangers(wanted, draw))
    measure = _Measure(wanted, kind, crowd, group, lying, cards)
    rows, spent, moved = [measure.of(0, 0, 0.0)], 0.0, 0
    for t in range(1, wanted.rounds + 1):
        draws, began = rng(wanted.seed, "exchange", t).random((wanted.peers, 4)), time.monotonic()
        moved = crowd.exchange(draws)
        spent += time.monotonic() - began
        rows.append(measure.of(t, moved, spent))
        tell(f"{kind}: {t} of {wanted.rounds} rounds, {100 * rows[-1].friends:.1f} % friends")
    return rows


def _world(wanted: Search) -> tuple[torch.Tensor, torch.Tensor]:
    """Cards of one byte a number, and whose group is which."""
    draw, size = rng(wanted.seed, "cards"), (wanted.peers, wanted.numbers)
    centres = _units(draw.normal(size=(wanted.groups, wanted.numbers)))
    group = draw.permutation(np.arange(wanted.peers) % wanted.groups)
    cards = _units(centres[group] + wanted.noise * _units(draw.normal(size=size)))
    scale = 127 / np.abs(cards).max()
    return torch.from_numpy(np.round(cards * scale).astype(np.int8)), torch.from_numpy(group)


def _strangers(wanted: Search, draw: np.random.Generator) -> torch.Tensor:
    """Whom everyone knows at first: others at random, each once."""
    count = min(wanted.rule.view, wanted.peers - 1)
    lots = draw.integers(wanted.peers - count, size=(wanted.peers, count))
    others = np.sort(lots, axis=1) + np.arange(count)
    return torch.from_numpy(others + (others >= np.arange(wanted.peers)[:, None]))


def _units(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    units: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def _with_liars(
    wanted: Search, cards: torch.Tensor, group: torch.Tensor, perfect: bool
) -> tuple[torch.Tensor, Coalition]:
    """Each liar shows the card of an honest peer, its victim, and counts as one of its group."""
    draw = rng(wanted.seed, "liars")
    order = torch.from_numpy(draw.permutation(wanted.peers))
    count = round(wanted.liars * wanted.peers)
    lying, honest = order[:count], order[count:]
    victims = honest[torch.from_numpy(draw.integers(len(honest), size=count))]
    cards, group, are = cards.clone(), group.clone(), torch.zeros(wanted.peers, dtype=torch.bool)
    cards[lying], group[lying], are[lying] = cards[victims], group[victims], True
    return cards, Coalition(are, group, perfect)


class _Measure:
    """What honest peers have found."""

    def __init__(
        self,
        wanted: Search,
        kind: str,
        crowd: Multitude,
        group: torch.Tensor,
        lying: torch.Tensor,
        cards: torch.Tensor,
    ) -> None:
        self._wanted, self._kind, self._crowd = wanted, kind, crowd
        self._group, self._lying = group, lying
        self._honest = torch.nonzero(~lying)[:, 0]
        self._cards, self._truth = cards, Multitude(wanted.rule, cards, crowd.salts)
        self._best = self._optimum()

    def _optimum(self) -> float:
        """Mean similarity of the best views there could be, on a sample."""
        draw = rng(self._wanted.seed, "sample")
        few = self._honest[torch.from_numpy(draw.permutation(len(self._honest))[:SAMPLE])]
        units = self._cards.float() / self._cards.float().norm(dim=1, keepdim=True)
        alike = units[few] @ units.T
        alike[:, self._lying] = -1
        alike[torch.arange(len(few)), few] = -1
        return float(alike.topk(self._wanted.rule.view).values.double().mean())

    def of(self, t: int, moved: int, seconds: float) -> Searched:
        crowd, mine = self._crowd, self._honest
        view, random = crowd.view[mine], crowd.random[mine]
        friends = (self._group[view] == self._group[mine][:, None]) & ~self._lying[view]
        circle = torch.cat([view, random], 1)
        known = torch.bincount(circle.flatten(), minlength=self._wanted.peers)
        size = self._wanted.numbers + HEAD_BYTES
        return Searched(
            kind=self._kind,
            round=t,
            friends=float(friends.double().mean()),
            similarity=float(self._truth.similar(mine, view).mean()) / self._best,
            kilobytes=2 * moved * size / self._wanted.peers / 1000,
            links=int(known.max()),
            liars_in_view=float(self._lying[view].double().mean()),
            liars_at_random=float(self._lying[random].double().mean()),
            eclipsed=float(self._lying[circle].all(1).double().mean()),
            seconds=seconds,
        )


def search_figure(rows: Sequence[Searched]) -> Figure:
    """Friends, similarity and liars by round."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    figure = Figure(figsize=(11, 3.2))
    friends, alike, liars = figure.subplots(1, 3)
    for at, kind in enumerate(kinds):
        mine = [row for row in rows if row.kind == kind]
        rounds = [row.round for row in mine]
        colour = COLOURS[at]
        friends.plot(rounds, [100 * r.friends for r in mine], "o-", color=colour, label=kind)
        alike.plot(rounds, [r.similarity for r in mine], "o-", color=colour)
        if any(row.liars_in_view for row in mine):
            liars.plot(rounds, [100 * r.liars_in_view for r in mine], "o-", color=colour)
            liars.plot(rounds, [100 * r.liars_at_random for r in mine], "s--", color=colour)
    friends.set(xlabel="round", ylabel="friends in a view (%)", ylim=(0, 102))
    friends.legend(frameon=False)
    alike.set(xlabel="round", ylabel="similarity, best = 1", ylim=(0, None))
    liars.set(xlabel="round", ylabel="liars (%): view (line), random (dashes)", ylim=(0, 102))
    figure.tight_layout()
    return figure
