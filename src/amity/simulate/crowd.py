"""Friends of friends for very many peers at once: `round/discovery.py` as products of matrices,
with nothing but cards. Its results are those of the simple form, peer for peer
(`tests/test_discovery.py`).

Peers are numbers 0 .. m−1, and −1 stands for nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from amity.topology import Discover

ROWS = 2048
"""Peers whose candidates are gathered at a time: what is gathered then stays in the cache."""
NEVER = -9.0
"""Less similar than anybody."""
Ids = torch.Tensor
Draws = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Coalition:
    """Peers that want to be in everybody's circle. They know all cards, hand out each other alone,
    and ask somebody of their victims' group in every round."""

    are: torch.Tensor
    """Of each peer, whether it lies."""
    group: torch.Tensor
    """Of each peer, where it belongs; of a liar, whose cards it copied."""
    perfect: bool = False
    """Whether a liar's card is more similar to everybody's than any honest one: as if it could show
    each victim another."""


class Multitude:
    """Cards and circles of all peers."""

    def __init__(
        self,
        rule: Discover,
        cards_MD: torch.Tensor,
        salts_MR: Draws,
        liars: Coalition | None = None,
    ) -> None:
        """`cards_MD` of int8; `salts_MR` of uint64: each peer's secret, by place."""
        self.rule, self.salts, self.liars = rule, salts_MR, liars
        self.peers = len(cards_MD)
        self._cards = cards_MD
        self._norms = cards_MD.float().norm(dim=1).double()
        self._me = torch.arange(self.peers)
        self._by_group = _members(liars) if liars is not None else []

    def begin(self, known_MK: Ids) -> None:
        """Whom everyone knows at first."""
        self.view = known_MK[:, : self.rule.view].clone()
        self.random = torch.full((self.peers, self.rule.random), -1)
        self._draw_random(known_MK)

    def similar(self, mine: Ids, others_NK: Ids) -> torch.Tensor:
        """cos of the cards of `mine` and of each of its row. Products of int8 are exact in float32,
        so the cosine is the same however many are computed together."""
        out = torch.empty(others_NK.shape, dtype=torch.float64)
        for at in range(0, len(mine), ROWS):
            me, them = mine[at : at + ROWS], others_NK[at : at + ROWS].clamp_min(0)
            cards = self._cards[them].float()
            dots = torch.bmm(cards, self._cards[me].float()[:, :, None])[:, :, 0]
            out[at : at + ROWS] = dots.double() / (self._norms[me][:, None] * self._norms[them])
        if self.liars is not None and self.liars.perfect:
            out[self.liars.are[others_NK.clamp_min(0)]] = 1.0
        return out

    # -- one round ---------------------------------------------------------------------------------

    def exchange(self, draws_M4: Draws) -> int:
        """One round; `draws_M4` in [0, 1): with whom, in which turn, what each side passes on.
        Returns how many cards were handed over."""
        asks, places, partners = self._meet(draws_M4)
        width = self.rule.cards - self.rule.passed
        best = torch.full((self.peers, 1 + self.rule.answers, width), -1)
        passed = torch.full((self.peers, 1 + self.rule.answers, self.rule.passed + 1), -1)
        moved = 0
        for givers, takers, slot, draw in (
            (partners, asks, torch.zeros_like(asks), 2),
            (asks, partners, 1 + places, 3),
        ):
            top, some = self._hand_out(givers, takers, draws_M4[asks.numpy(), draw])
            best[takers, slot] = top
            passed[takers, slot] = torch.cat([some, givers[:, None]], 1)
            moved += int((top >= 0).sum() + (some >= 0).sum())
        self._take_in(best.flatten(1), passed)
        return moved

    def _meet(self, draws_M4: Draws) -> tuple[Ids, Ids, Ids]:
        """Who asks and is answered, in which place, and by whom."""
        known = torch.cat([self.view, self.random], 1)
        at = torch.from_numpy((draws_M4[:, 0] * known.shape[1]).astype(np.int64))
        other = known[self._me, at]
        if self.liars is not None:
            other = self._attacked(other, draws_M4[:, 0])
        order = np.lexsort((self._me.numpy(), draws_M4[:, 1], other.numpy()))
        asked = other.numpy()[order]
        first = np.r_[True, asked[1:] != asked[:-1]]
        start = np.maximum.accumulate(np.where(first, np.arange(self.peers), 0))
        place = np.empty(self.peers, dtype=np.int64)
        place[order] = np.arange(self.peers) - start
        asks = torch.from_numpy(np.flatnonzero((place < self.rule.answers) & (other.numpy() >= 0)))
        return asks, torch.from_numpy(place)[asks], other[asks]

    def _hand_out(self, givers: Ids, takers: Ids, draws: Draws) -> tuple[Ids, Ids]:
        pool = torch.cat([self.view[givers], self.random[givers], givers[:, None]], 1)
        best = self._best(takers, pool, self.rule.cards - self.rule.passed)
        places = self.rule.random
        start = torch.from_numpy((draws * places).astype(np.int64))
        turn = (start[:, None] + torch.arange(self.rule.passed)) % max(places, 1)
        some = self.random[givers[:, None], turn]
        some = some.masked_fill((some == takers[:, None]) | _again(some), -1)
        return (best, some) if self.liars is None else self._lied(givers, takers, best, some, draws)

    def _best(self, mine: Ids, others: Ids, count: int) -> Ids:
        """The most similar to each of `mine`: each once, never itself, and in order of numbers
        where two are equal."""
        others = others.sort(dim=1).values
        alike = self.similar(mine, others)
        twice = torch.zeros_like(others, dtype=torch.bool)
        twice[:, 1:] = others[:, 1:] == others[:, :-1]
        alike[twice | (others == mine[:, None]) | (others < 0)] = NEVER
        ranked = alike.sort(dim=1, descending=True, stable=True)
        top = others.gather(1, ranked.indices[:, :count])
        return top.masked_fill(ranked.values[:, :count] == NEVER, -1)

    def _take_in(self, best_MK: Ids, passed_MSP: Ids) -> None:
        told = torch.cat([self.view, best_MK, passed_MSP[:, :, :-1].flatten(1)], 1)
        filled = (told >= 0).sum(1)
        wide = filled > self.rule.view + self.rule.cards * 2
        told = told.sort(dim=1, descending=True).values  # nobody is at the end
        narrow = told[~wide][:, : self.rule.view + self.rule.cards * 2]
        view = torch.empty_like(self.view)
        view[~wide] = self._best(self._me[~wide], narrow, self.rule.view)
        view[wide] = self._best(self._me[wide], told[wide], self.rule.view)
        self.view = view
        self._draw_random(passed_MSP.flatten(1))

    def _draw_random(self, told_MK: Ids) -> None:
        """Of each place, whoever has the smallest lot so far."""
        found = torch.cat([self.random, told_MK], 1)
        nobody = ((found < 0) | (found == self._me[:, None])).numpy()
        names = found.numpy().astype(np.uint64)
        for place in range(self.rule.random):
            lots = lots_of(names, self.salts[:, place : place + 1])
            lots[nobody] = np.iinfo(np.uint64).max
            kept = np.where(nobody[:, place], np.iinfo(np.uint64).max, lots[:, place])
            lots[:, : self.rule.random] = np.iinfo(np.uint64).max
            lots[:, place] = kept
            chosen = torch.from_numpy(lots.argmin(1))
            self.random[:, place] = found[self._me, chosen]

    # -- liars -------------------------------------------------------------------------------------

    def _attacked(self, other: Ids, draw: Draws) -> Ids:
        """Coalition ask one of those whom they copied, at random."""
        other = other.clone()
        for honest, lying in self._by_group:
            if len(honest):
                at = (draw[lying.numpy()] * len(honest)).astype(np.int64)
                other[lying] = honest[torch.from_numpy(at)]
        return other

    def _lied(
        self, givers: Ids, takers: Ids, best: Ids, some: Ids, draws: Draws
    ) -> tuple[Ids, Ids]:
        """Coalition hand out liars who look like the taker's group."""
        if self.liars is None:
            return best, some
        lying = self.liars.are[givers]
        for group, (_honest, liars) in enumerate(self._by_group):
            rows = torch.nonzero(lying & (self.liars.group[takers] == group))[:, 0]
            if not len(rows) or not len(liars):
                continue
            width = best.shape[1] + some.shape[1]
            start = torch.from_numpy((draws[rows.numpy()] * len(liars)).astype(np.int64))
            named = liars[(start[:, None] + torch.arange(width)) % len(liars)]
            best[rows], some[rows] = named[:, : best.shape[1]], named[:, best.shape[1] :]
        return best, some


def lots_of(names: Draws, salts: Draws) -> Draws:
    """A lot of 64 bits for each name (splitmix64): nobody can guess it who does not know the
    salt."""
    x: Draws = (names + np.uint64(0x9E3779B97F4A7C15)) ^ salts
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    lots: Draws = x ^ (x >> np.uint64(31))
    return lots


def _again(ids: Ids) -> torch.Tensor:
    """What has been there before in its row."""
    same = ids[:, :, None] == ids[:, None, :]
    return same.tril(-1).any(2)


def _members(liars: Coalition) -> list[tuple[Ids, Ids]]:
    """By group, who is honest and who lies."""
    groups = range(int(liars.group.max()) + 1)
    of = [liars.group == group for group in groups]
    return [
        (torch.nonzero(mine & ~liars.are)[:, 0], torch.nonzero(mine & liars.are)[:, 0])
        for mine in of
    ]
