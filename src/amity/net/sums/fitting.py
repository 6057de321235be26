"""Whether a config can learn by masked sums alone: found out before a peer starts.

A strategy says what it needs by asking. So a few plans are driven for some rounds with cards drawn
at random; every fact says for itself whether it looks at single models (`Fact.single`). What a plan
asks only later is refused when it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from amity.config import Config
from amity.core import START, Answers, Ask, Card, Decision, Memory, PeerId, advance
from amity.errors import ConfigError
from amity.facts import Fact, Losses, ModelFact, Offer
from amity.net.options import Net
from amity.net.sums.desk import alone
from amity.peer.mixing import Fixed, Mean
from amity.rng import rng
from amity.round.deciding import plain, view_of
from amity.round.saying import says_of

ROUNDS, NEIGHBOURS, NUMBERS = 12, 8, 64
LINEAR = (Mean, Fixed)
"""What a sum is enough for."""


def check_masked(config: Config, net: Net, in_part: bool) -> None:
    """Raise if what is planned needs more than sums. `in_part`: models leave numbers out."""
    if not net.masked:
        return
    if net.transfer != "fp32":
        raise ConfigError(
            f"net.masked: masks hide whole numbers, not {net.transfer}; say net.transfer=fp32"
        )
    if net.sync != "round":
        raise ConfigError(
            "net.masked: a model is in one sum alone, so all go in step; say net.sync=round"
        )
    if in_part:
        raise ConfigError(
            "net.masked: this method shares models in part, and who offers what would tell; choose"
            " another method, or say net.masked=false"
        )
    for _, phase in config.phases:
        mixer = phase.mixer
        if not isinstance(mixer.instance, LINEAR):
            raise ConfigError(
                f"net.masked: mixer={mixer.name} ranks single models; say mixer=mean or fixed, or"
                " net.masked=false"
            )
        if fact := single_fact(phase):
            raise ConfigError(alone(type(fact).__name__))


def single_fact(config: Config) -> Fact | None:
    """The first fact about others' single models that a config's plan asks for; None: none."""
    names = tuple(f"peer-{k:02}" for k in range(NEIGHBOURS + 1))
    memories: dict[PeerId, Memory] = {name: {} for name in names}
    for round in range(min(ROUNDS, config.rounds)):
        offers = {name: _offer(name, round, says_of(memories[name])) for name in names}
        for name in names:
            try:
                found = _Seat(name, offers).play(config, round, memories[name])
            except (
                Exception
            ):  # drawn cards are no real ones: what it asks then is seen when it runs
                return None
            if isinstance(found, Fact):
                return found
            memories[name] = found
    return None


@dataclass(frozen=True)
class _Seat:
    """One peer in a round in which nobody trains."""

    me: PeerId
    offers: Mapping[PeerId, Offer]

    @property
    def card(self) -> Card | None:
        return self.offers[self.me].card

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        return dict.fromkeys(peers, 1.0)

    def play(self, config: Config, round: int, memory: Memory) -> Fact | Memory:
        """The fact that is asked of single models, or the notebook after the round."""
        view = view_of(
            config,
            me=self.me,
            round=round,
            neighbours=tuple(name for name in self.offers if name != self.me),
            examples=100,
            card=self.card,
            memory=memory,
        )
        plan = config.decider.decide(view, {self.me: 1.0})
        step = advance(plan)
        while not isinstance(step, Decision):
            if step.fact.single and not {*step.peers} <= {self.me, START}:
                return step.fact
            step = advance(plan, self._answers(step))
        return plain(step).memory

    def _answers(self, ask: Ask) -> Answers:
        return ask.fact.read(self, {j: self.offers[j] for j in ask.peers if j in self.offers})


def _offer(name: PeerId, round: int, says: Mapping[str, float]) -> Offer:
    draw = rng(1, "masked", round, name)
    sketch = torch.from_numpy(draw.standard_normal(NUMBERS).astype(np.float32))
    card = Card(name, round, 100, NEIGHBOURS, sketch)
    return Offer(100, card, None, Losses(1.0, 0.5), (), NEIGHBOURS, says)
