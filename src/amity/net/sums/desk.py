"""A desk on which no neighbour's model is ever laid alone: only the sum of those chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from amity.core import START, Answers, Ask, Decision, PeerId, Share, spread, taken_from
from amity.errors import StrategyError
from amity.facts import Fact, Offer
from amity.net.desk import RemoteDesk
from amity.net.link.base import counted
from amity.net.options import Net
from amity.net.sealed import Keys
from amity.net.sums.masks import MOST, Summed
from amity.peer.fixed import Words, read, term
from amity.peer.mixing import check_decision

LONGEST_BAR = 64
"""Rounds for which somebody is left out, at most."""


@dataclass
class Barred:
    """Who broke a sum, and until which round it is left out: twice as long each time."""

    strikes: dict[PeerId, int] = field(default_factory=dict)
    until: dict[PeerId, int] = field(default_factory=dict)

    def broke(self, j: PeerId, round: int) -> None:
        self.strikes[j] = self.strikes.get(j, 0) + 1
        self.until[j] = round + min(LONGEST_BAR, 2 ** self.strikes[j])

    def gave(self, j: PeerId) -> None:
        self.strikes.pop(j, None)

    def free(self, j: PeerId, round: int) -> bool:
        return self.until.get(j, -1) < round


class MaskedDesk(RemoteDesk):
    """One round's asks. Whoever is chosen counts as arrived: its model comes in the sum alone."""

    def __init__(self, *, net: Net, keys: Keys, barred: Barred, **more: Any) -> None:
        super().__init__(**more)
        self._net, self._keys, self._barred = net, keys, barred
        self._sum: Words | None = None

    def answer(self, ask: Ask) -> Answers:
        fact = ask.fact
        if isinstance(fact, Fact) and fact.single and not {*ask.peers} <= {self._me, START}:
            raise StrategyError(alone(type(fact).__name__))
        return super().answer(ask)

    def _take_belated(self, peers: Any, fact: Fact) -> None:
        if "model" not in fact.moves:
            super()._take_belated(peers, fact)

    def _is_here(self, j: PeerId, fact: Fact) -> bool:
        return "model" in fact.moves or super()._is_here(j, fact)

    def _offer(self, j: PeerId, fact: Fact) -> Offer:
        if "model" not in fact.moves:
            return super()._offer(j, fact)
        self.arrived.add(j)
        said = self._present[j].data
        return Offer(said.examples, degree=said.degree)

    # -- the sum -----------------------------------------------------------------------------------

    def settled(self, decision: Decision) -> Decision:
        """The decision with the row that came of it: those of the crowd whose sum came, or me."""
        check_decision(decision, self._me, self.arrived, ())
        if decision.head is not None:
            raise StrategyError("net.masked: a head with a row of its own needs single models")
        row = self._crowded(decision.row)
        weights = taken_from(row, self._me)
        if weights:
            self._sum = self._add(weights)
        if self._sum is None:
            row = {j: w for j, w in decision.row.items() if j in (self._me, START)}
            row = spread(row) if row else {self._me: 1.0}
        return replace(decision, row=row)

    def _crowded(self, row: Mapping[PeerId, float]) -> Mapping[PeerId, float]:
        """The row without those who are left out, and at most so many; the same where nobody is."""
        taken = taken_from(row, self._me)
        free = [j for j in taken if self._barred.free(j, self._round)]
        most = sorted(free, key=lambda j: (-taken[j], j))[:MOST]
        if len(most) < self._net.crowd:
            self._audit("alone", "", "too few for a masked sum", round=self._round, crowd=len(most))
            return {j: w for j, w in row.items() if j in (self._me, START)}
        if len(most) == len(taken):
            return row
        return spread({j: w for j, w in row.items() if j in most or j in (self._me, START)})

    def _add(self, weights: Mapping[PeerId, float]) -> Words | None:
        """The sum of a crowd; None if anybody of it failed: the others' masks hide theirs."""
        names = self._all(sorted(weights), lambda j: self._keys.name_of(j, 3.0), "Keys")
        rounds = {j: self._present[j].round for j in names}
        crowd = Summed.of(self._keys.network, self._me, names, rounds)
        terms: dict[PeerId, Words] = {}
        if len(names) == len(weights):
            terms = self._all(sorted(weights), lambda j: self._term(j, crowd, weights[j]), "Sum")
        for j in terms:
            self._barred.gave(j)
        for j in self._to_blame(weights):
            self._barred.broke(j, self._round)
        if len(terms) < len(weights):
            lacking = sorted(set(weights) - terms.keys())
            self._audit("alone", "", "a masked sum broke", round=self._round, of=lacking)
            return None
        total: Words = np.add.reduce([terms[j] for j in sorted(terms)], dtype=np.uint32)
        return total if self._is_bounded(total, sum(weights.values())) else None

    def _is_bounded(self, total: Words, weight: float) -> bool:
        """Whether the mean of the crowd is no monster beside mine. Nobody can say whose fault it
        is."""
        norm = float(torch.linalg.vector_norm(read(total).double())) / weight
        if norm <= self._courier.largest:
            return True
        self._audit.refuse("", "norm", f"a masked sum of norm {norm:.3g}", round=self._round)
        return False

    def _to_blame(self, crowd: Mapping[PeerId, float]) -> list[PeerId]:
        """Who broke a sum: who failed while others were there, if anybody was not. Where all have
        given theirs already, I was started again."""
        failed = {j: counted(self.missing[j]) for j in crowd if j in self.missing}
        if len(failed) == len(crowd) and {*failed.values()} == {"one sum"}:
            return []
        return [j for j, why in failed.items() if why != "not here"] or list(failed)

    def _term(self, j: PeerId, crowd: Summed, weight: float) -> Words:
        return self._courier.term(j, self._present[j].round, crowd.number, crowd.text, weight)

    def mixed(self, decision: Decision) -> Share:
        """The sum with my own part, in fixed point."""
        peer = self._shard.peers[self._me]
        peer.round = self._round
        own = {self._me: peer.mine, START: peer.share_start}
        total = np.zeros(peer.mine.theta.numel(), np.uint32) if self._sum is None else self._sum
        for j in own.keys() & decision.row.keys():
            total = total + term(decision.row[j], own[j].theta)
        return Share(read(total).to(peer.mine.theta.device))


def alone(fact: str) -> str:
    """What is said of a strategy or stage that needs single models."""
    return (
        f"net.masked: {fact}() looks at single models, which masked sums never show; choose a"
        " strategy and stages that decide by cards alone (gossip, epidemic, metropolis, afind, or"
        " afind+ with ablation=i+ii), or say net.masked=false"
    )
