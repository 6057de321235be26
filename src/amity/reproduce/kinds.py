"""Which kinds of cards are compared: proxies, sizes, signs and noise."""

from __future__ import annotations

from dataclasses import dataclass

from amity.peer.proxies import proxies
from amity.peer.proxy import Bits

PROXIES = (
    "grad",
    "grad_ref",
    "delta",
    "feature_mean",
    "weight",
    "head_drift",
    "body_drift",
    "model_drift",
    "update",
    "head_update",
    "twins",
    "twins_body",
)
NOISY = ("grad", "body_drift")
"""Those that are also shown with noise: the paper's, and one that does not show the head."""
SKETCHES = (0, 16, 64, 256, 1024)
SIGMAS = (0.0, 2.0, 5.0, 10.0, 50.0)
USUAL = 256
"""Numbers of a card where nothing else is said: AFIND+'s `tuned`."""
SIGNS = (USUAL, 4 * USUAL)
"""So many signs, in an eighth of as many bytes."""
HALF = 1024
"""Numbers of each half of a card that shows two, as the default strategy asks for it."""


@dataclass(frozen=True)
class CardKind:
    """A kind of card."""

    proxy: str
    sketch: int = USUAL
    """Numbers; 0: whole. Of a card that shows two halves, numbers of each."""
    bits: Bits = 32
    sigma: float = 0.0
    """Of `privacy=proxy`."""

    @property
    def parts(self) -> int:
        """Of how many vectors it consists."""
        return proxies.made(self.proxy).parts

    @property
    def plain(self) -> bool:
        """Whether it is as usual: neither signs nor noise, and of the usual size or of halves."""
        usual = self.sketch == USUAL or self.parts > 1
        return usual and self.bits > 1 and self.sigma == 0

    @property
    def numbers(self) -> str:
        """How many, in words."""
        each = str(self.sketch or "all")
        return each if self.parts == 1 else f"{self.parts} x {each}"


def kinds_of_cards(grouped: bool) -> list[CardKind]:
    """All that is measured: every proxy as usual and as signs, two with noise. Only in the world
    without groups the first one at every size too, with noise on the whole of it. Cards of two
    halves are not shown as signs: their likeness is not made for these."""
    first, usual = PROXIES[0], [CardKind(proxy) for proxy in PROXIES]
    signs = [CardKind(k.proxy, n, 1) for k in usual if k.parts == 1 for n in SIGNS]
    halves = [CardKind(k.proxy, HALF) for k in usual if k.parts > 1]
    noise = [CardKind(proxy, sigma=sigma) for proxy in NOISY for sigma in SIGMAS]
    whole = [CardKind(first, sketch) for sketch in SKETCHES]
    whole += [CardKind(first, 0, sigma=sigma) for sigma in SIGMAS]
    return list(dict.fromkeys([*usual, *halves, *signs, *noise, *([] if grouped else whole)]))
