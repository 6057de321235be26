"""Friends of friends for very many peers at once: `round/discovery.py` as products of matrices,
with nothing but cards. Its results are those of the simple form, peer for peer
(`tests/test_discovery.py`).

Peers are numbers 0 .. m−1, and −1 stands for nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Ranked(NamedTuple):
    """Peers by row, and how similar each is to whom the row belongs to."""

    ids: Ids
    alike: torch.Tensor


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
        self._cards = cards_MD.numpy()
        self._norms = cards_MD.float().norm(dim=1).double()
        self._me = torch.arange(self.peers)
        self._by_group = _members(liars) if liars is not None else []

    def begin(self, known_MK: Ids) -> None:
        """Whom everyone knows at first."""
        self.view = torch.full((self.peers, self.rule.view), -1)
        self.view[:, : known_MK.shape[1]] = known_MK[:, : self.rule.view]
        self._alike = self.similar(self._me, self.view)
        self.random = torch.full((self.peers, self.rule.random), -1)
        self._draw_random(known_MK)

    def similar(self, mine: Ids, others_NK: Ids) -> torch.Tensor:
        """cos of the cards of `mine` and of each of its row. Products of int8 are exact in float32,
        so the cosine is the same however many are computed together."""
        them = others_NK.clamp_min(0)
        dots = np.empty(them.shape, dtype=np.float32)
        for at in range(0, len(mine), ROWS):
            rows = slice(at, at + ROWS)
            cards = self._cards.take(them[rows].numpy(), 0).astype(np.float32)
            me = self._cards.take(mine[rows].numpy(), 0).astype(np.float32)
            np.einsum("nkd,nd->nk", cards, me, out=dots[rows])
        out: torch.Tensor = torch.from_numpy(dots).double() / (
            self._norms[mine][:, None] * self._norms[them]
        )
        if self.liars is not None and self.liars.perfect:
            out[self.liars.are[them]] = 1.0
        return out

    # -- one round ---------------------------------------------------------------------------------

    def exchange(self, draws_M4: Draws) -> int:
        """One round; `draws_M4` in [0, 1): with whom, in which turn, what each side passes on.
        Returns how many cards were handed over."""
        asks, places, partners = self._meet(draws_M4)
        shape = (self.peers, 1 + self.rule.answers)
        told = torch.full((*shape, self.rule.cards), -1)
        alike = torch.full((*shape, self.rule.cards), NEVER, dtype=torch.float64)
        giver = torch.full(shape, -1)
        for givers, takers, slot, draw in (
            (partners, asks, torch.zeros_like(asks), 2),
            (asks, partners, 1 + places, 3),
        ):
            handed = self._hand_out(givers, takers, draws_M4[asks.numpy(), draw])
            told[takers, slot], alike[takers, slot] = handed
            giver[takers, slot] = givers
        self._renew_random(told[:, :, self.rule.cards - self.rule.passed :], giver)
        self._renew_view(told.flatten(1), alike.flatten(1))
        return int((told >= 0).sum())

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

    def _hand_out(self, givers: Ids, takers: Ids, draws: Draws) -> Ranked:
        """Whose cards go to each taker: the most similar to it, then those at random."""
        pool = torch.cat([self.view[givers], self.random[givers], givers[:, None]], 1)
        alike = self.similar(takers, pool)
        best = _best(takers, pool, alike, self.rule.cards - self.rule.passed)
        places = self.rule.random
        start = torch.from_numpy((draws * places).astype(np.int64))
        turn = (start[:, None] + torch.arange(self.rule.passed)) % max(places, 1)
        some, near = (part.gather(1, self.rule.view + turn) for part in (pool, alike))
        again = (some == takers[:, None]) | _again(some)
        some, near = some.masked_fill(again, -1), near.masked_fill(again, NEVER)
        handed = Ranked(torch.cat([best.ids, some], 1), torch.cat([best.alike, near], 1))
        return (
            handed if self.liars is None else self._lied(self.liars, givers, takers, handed, draws)
        )

    def _renew_view(self, told_MK: Ids, alike_MK: torch.Tensor) -> None:
        """The most similar of the view and of those who were handed over. Cards stay as they are,
        so nothing is compared twice."""
        wide = self.rule.view + 2 * self.rule.cards  # of most peers, nobody is behind that
        order = (told_MK < 0).int().sort(dim=1, stable=True).indices
        ids = torch.cat([self.view, told_MK.gather(1, order)], 1)
        alike = torch.cat([self._alike, alike_MK.gather(1, order)], 1)
        many = (ids >= 0).sum(1) > wide
        for rows, width in ((~many, wide), (many, ids.shape[1])):
            best = _best(self._me[rows], ids[rows, :width], alike[rows, :width], self.rule.view)
            self.view[rows], self._alike[rows] = best

    def _renew_random(self, some_MSP: Ids, giver_MS: Ids) -> None:
        """Names at random are believed from those whom a peer has at random itself."""
        believed = (giver_MS[:, :, None] == self.random[:, None, :]).any(2)
        self._draw_random(some_MSP.masked_fill(~believed[:, :, None], -1).flatten(1))

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
        """Liars ask one of those whom they copied, at random."""
        other = other.clone()
        for honest, lying in self._by_group:
            if len(honest):
                at = (draw[lying.numpy()] * len(honest)).astype(np.int64)
                other[lying] = honest[torch.from_numpy(at)]
        return other

    def _lied(
        self, liars: Coalition, givers: Ids, takers: Ids, handed: Ranked, draws: Draws
    ) -> Ranked:
        """Liars hand out liars who look like the taker's group."""
        lying = liars.are[givers]
        for group, (_honest, others) in enumerate(self._by_group):
            rows = torch.nonzero(lying & (liars.group[takers] == group))[:, 0]
            if not len(rows) or not len(others):
                continue
            start = torch.from_numpy((draws[rows.numpy()] * len(others)).astype(np.int64))
            named = others[(start[:, None] + torch.arange(self.rule.cards)) % len(others)]
            handed.ids[rows], handed.alike[rows] = named, self.similar(takers[rows], named)
        return handed


def _best(mine: Ids, others: Ids, alike: torch.Tensor, count: int) -> Ranked:
    """The most similar to each of `mine`: each once, never itself, and in order of numbers where
    two are equal."""
    others, order = others.sort(dim=1)
    alike = alike.gather(1, order)
    alike[:, 1:].masked_fill_(others[:, 1:] == others[:, :-1], NEVER)
    alike.masked_fill_((others == mine[:, None]) | (others < 0), NEVER)
    alike, order = alike.sort(dim=1, descending=True, stable=True)
    alike, top = alike[:, :count], others.gather(1, order[:, :count])
    return Ranked(top.masked_fill(alike == NEVER, -1), alike)


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
