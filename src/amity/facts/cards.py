"""Facts that are read from cards alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amity.core import Answers, PeerId
from amity.facts.base import Asker, Fact, Offer
from amity.geometry import cosines, units
from amity.lazy import torch


@dataclass(frozen=True)
class Similarity(Fact):
    """Cosine of the cards' sketches; `centered` first subtracts the mean over mine and all that
    arrived."""

    centered: bool = False
    moves = frozenset({"card"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        cards = {j: offer.card.sketch for j, offer in offers.items() if offer.card is not None}
        if me.card is None or not cards:
            return {}
        names = sorted(cards)
        mine, others = me.card.sketch, torch.stack([cards[j] for j in names])
        # two vectors about their mean are opposite, whatever they are
        if self.centered and len(names) > 1:
            others, mine = others.float(), mine.float()
            centre = torch.cat([others, mine[None]]).mean(0)
            mine, others = mine - centre, others - centre
        return dict(zip(names, cosines(mine, others).tolist(), strict=True))


@dataclass(frozen=True)
class Likeness(Fact):
    r"""How alike any two of those asked are, chance set aside: 1 for peers with the same
    distribution, 0 for peers that have nothing in common. For cards with two halves (`twins`).

    With units a_i, b_i of the two halves of i's card, ρ_i = a_i·b_i tells how much of a half is
    more than chance (its reliability), and

        ℓ_ij = ¼ (a_i + b_i)·(a_j + b_j) / √(ρ_i ρ_j)

    is Spearman's correction of a cosine for attenuation. It estimates a cosine, so by chance it may
    be above 1. Who shows a card that is nearer to mine than my own halves are to each other
    (a_i·a_j or b_i·b_j above ½ (1 + ρ_i), or both a_i·b_j and b_i·a_j) has copied it, and is like
    nobody: 0. The answer for j maps k to ℓ_jk.
    """

    moves = frozenset({"card"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        cards = {j: offer.card.sketch for j, offer in offers.items() if offer.card is not None}
        names = sorted(cards)
        if not names:
            return {}
        alike = likeness(torch.stack([cards[j] for j in names]))
        if me.card is not None:
            copied = [
                at
                for at, j in enumerate(names)
                if j != me.card.peer and is_copy(cards[j], me.card.sketch)
            ]
            alike[copied], alike[:, copied] = 0.0, 0.0
        return {
            j: dict(zip(names, row, strict=True))
            for j, row in zip(names, alike.tolist(), strict=True)
        }


LEAST_RELIABLE = 0.1
"""Below this a card says nothing, and dividing by less would make a friend of chance."""


def likeness(cards_MD: torch.Tensor) -> torch.Tensor:
    """ℓ of any two cards, 1 on the diagonal."""
    a, b = (units(half) for half in cards_MD.chunk(2, dim=1))
    own = (a * b).sum(1)
    reliable = own.clamp(LEAST_RELIABLE, 1.0)
    both = (a + b) @ (a + b).T / 4
    alike = both / (reliable[:, None] * reliable[None]).sqrt()
    return alike.fill_diagonal_(1.0).float()


def is_copy(card: torch.Tensor, mine: torch.Tensor) -> bool:
    """Whether a card is nearer to mine than chance lets another peer's be."""
    (a, b), (mine_a, mine_b) = (units(one.reshape(2, -1)) for one in (card, mine))
    as_it_is = max(float(a @ mine_a), float(b @ mine_b))
    swapped = min(float(a @ mine_b), float(b @ mine_a))
    return max(as_it_is, swapped) > (1 + float(mine_a @ mine_b)) / 2
