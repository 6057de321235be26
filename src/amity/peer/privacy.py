r"""Differential privacy: what is clipped and noised, what that costs, and what may be called a
guarantee.

| `privacy=` | what gets noise | what ε means |
|---|---|---|
| `none` | nothing | - |
| `proxy` | φ on the card: clip to C, add N(0, (σC/L)²) | none: models leave as they are |
| `gradients` | every training step: DP-SGD | one example, against all that leaves its peer |
| `upload` | a published update: clip to C, add N(0, (σC)²) | all data of a peer |

`proxy` is the paper's Table 4; ε of `upload` is about a peer's data as a whole, present or absent.

A guarantee covers what leaves a peer by way of the mechanism. Facts that look at raw data past it
(`Fact.raw`: gradients on cards, losses, whatever a row is weighed by) are not covered: where a run
asked for one, its ε is for the training alone, and every report says so and names them. Cards made
from trained models only (proxies that need no examples) are covered.

Taken as public: how many examples a peer has, and whether it takes part.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from amity.core import Share
from amity.errors import ConfigError
from amity.lazy import torch
from amity.peer.proxies import Proxy, proxies
from amity.registry import Registry

Accountant = Literal["rdp", "prv"]
Sigma = Annotated[float, Field(ge=0, le=1e6)]
Clip = Annotated[float, Field(ge=0, le=1e6)]
Delta = Annotated[float, Field(gt=0, le=0.1)]
EpsilonBudget = Annotated[float, Field(ge=0, le=1e6)]


def clipped(vector: torch.Tensor, clip: float) -> torch.Tensor:
    """v · min(1, C/‖v‖); a clip of 0 bounds nothing."""
    norm = float(vector.double().norm())
    return vector * (clip / norm) if clip and norm > clip else vector


def noised(vector: torch.Tensor, std: float, draw: np.random.Generator) -> torch.Tensor:
    """v + N(0, std²), for every coordinate."""
    if std == 0:
        return vector
    noise = torch.from_numpy(draw.standard_normal(len(vector), dtype=np.float32))
    return vector + std * noise.to(vector.device)


class Mechanism:
    """Base of all: nothing is clipped, nothing noised, nothing counted."""

    trains: ClassVar[bool] = False
    """Whether training itself is private (DP-SGD)."""
    uploads: ClassVar[bool] = False
    """Whether the published model differs from the trained one."""
    about: ClassVar[str] = ""
    """Whose absence ε hides."""
    sigma: float = 0.0
    clip: float = 0.0
    delta: float = 1e-5
    budget: float = 0.0
    accountant: Accountant = "rdp"

    def card(
        self,
        phi: torch.Tensor,
        sketch: Callable[[torch.Tensor], torch.Tensor],
        lot: int,
        draw: np.random.Generator,
    ) -> torch.Tensor:
        """What goes onto the card."""
        return sketch(phi)

    def upload(self, share: Share, base: torch.Tensor, draw: np.random.Generator) -> Share:
        """What is published, given the model before training."""
        return share

    def rate(self, examples: int, batch: int) -> float | None:
        """q: the chance of an example to be in a step; None where there is no guarantee to account
        for."""
        return None

    def _check(self) -> None:
        if self.sigma and not self.clip:
            raise ValueError("noise needs a bound to be measured by: set clip > 0, or sigma=0")
        if 0 < self.sigma < 0.01:
            raise ValueError(f"sigma should be 0 or at least 0.01, got {self.sigma}")
        if self.budget and not self.sigma:
            raise ValueError(
                "a budget needs noise that it could be spent on: set sigma > 0, or budget=0"
            )


privacies: Registry[Mechanism] = Registry("privacy", "card", "upload", "rate")


@privacies.register("none")
@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Nothing is noised."""


@privacies.register("proxy")
@dataclass(frozen=True)
class ProxyNoise(Mechanism):
    r"""Noise on the card only: what the paper's Table 4 can mean (its rows tend to Gossip's as σ
    grows).

        φ' = φ · min(1, C/‖φ‖) + N(0, (σC/L)² I)

    σ `sigma`, C `clip` (0: none), L `lot` (0: the batch size). `of` says what φ is: the sketch as
    it is sent, or the whole proxy before it is sketched (with more noise in every number of the
    card). No ε: the proxy is clipped as a whole and not example by example, and models leave as
    they are.
    """

    sigma: Sigma = 2.0
    """σ, standard deviation of the noise in units of clip / lot."""
    clip: Clip = 1.0
    """C, the largest norm of what is shown; 0: any."""
    lot: Annotated[int, Field(ge=0)] = 0
    """L, by which the noise is divided; 0: train.batch."""
    of: Literal["sketch", "phi"] = "sketch"
    """What is noised: the sketch as it is sent, or the whole proxy before it is sketched."""

    def __post_init__(self) -> None:
        self._check()

    def card(
        self,
        phi: torch.Tensor,
        sketch: Callable[[torch.Tensor], torch.Tensor],
        lot: int,
        draw: np.random.Generator,
    ) -> torch.Tensor:
        std = self.sigma * self.clip / (self.lot or lot)
        if self.of == "phi":
            return sketch(noised(clipped(phi, self.clip), std, draw))
        return noised(clipped(sketch(phi), self.clip), std, draw)


@dataclass(frozen=True)
class Accounted(Mechanism):
    """What mechanisms with an ε have in common."""

    sigma: Sigma = 1.0
    """σ, standard deviation of the noise in units of clip; 0: none, and no ε."""
    clip: Clip = 1.0
    """C, the largest norm of what is noised (an example's gradient, or an update); 0: any."""
    delta: Delta = 1e-5
    """δ at which ε is told."""
    budget: EpsilonBudget = 0.0
    """The ε at which a peer stops; 0: it never does."""
    accountant: Accountant = "rdp"
    """How ε is computed: `rdp`, or `prv` (tighter, and seconds a figure)."""

    def __post_init__(self) -> None:
        self._check()


@privacies.register("gradients")
@dataclass(frozen=True)
class PrivateGradients(Accounted):
    r"""DP-SGD (Abadi et al. 2016): every example's gradient is clipped, the sum noised, batches are
    drawn by chance.

        batch ∋ x with probability q = L/n,   g_b = ∇F(w; x_b),
        g = 1/L · ( Σ_b g_b · min(1, C/‖g_b‖) + N(0, (σC)² I) )

    σ `sigma`, C `clip` (0: none), L `train.batch`, n the peer's examples. ε at δ `delta` by Opacus'
    accountants (`rdp`, or `prv`: tighter, and seconds a figure), composed over all steps of all
    epochs, phases and rounds, and in AFIND+'s visits over every guest that was trained. With a
    `budget` > 0 a peer stops training before the step that (by RDP) would exceed it, and goes on
    with what others have learnt. What never leaves (a fine-tuned copy, Ditto's personal model) is
    trained as ever: accuracies and exported models are of such copies, which ε does not cover
    (method.tune_epochs=0 measures what leaves). `train.clip` has no part in it. On real peers
    batches and noise come from the operating system's randomness.
    """

    trains = True
    about = "one example"

    def rate(self, examples: int, batch: int) -> float | None:
        return min(1.0, batch / max(examples, 1))


@privacies.register("upload")
@dataclass(frozen=True)
class PrivateUpload(Accounted):
    r"""What is published is the start of the round plus a clipped and noised update.

        ŵ' = w + (ŵ − w) · min(1, C/‖ŵ − w‖) + N(0, (σC)² I)

    σ `sigma`, C `clip` (0: none). Each release is a Gaussian mechanism about the whole of a peer's
    data (present, or an update of 0), composed over rounds and visits. The peer goes on from the
    same ŵ' that others see: were it to go on from ŵ, its next w, which it publishes, would tell ŵ
    without noise. With a `budget` > 0 that is spent, w itself is published.
    """

    uploads = True
    about = "all data of a peer"

    def upload(self, share: Share, base: torch.Tensor, draw: np.random.Generator) -> Share:
        update = share.theta - base
        if share.mask is not None:
            update = torch.where(share.mask, update, 0.0)
        bounded = clipped(update, self.clip)
        if bounded is update and self.sigma == 0:
            return share
        theta = base + noised(bounded, self.sigma * self.clip, draw)
        return Share(
            theta if share.mask is None else torch.where(share.mask, theta, 0.0), share.mask
        )

    def rate(self, examples: int, batch: int) -> float | None:
        return 1.0


# -- accounting ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Account:
    """What so many steps of a mechanism cost one peer."""

    mechanism: Mechanism
    rate: float

    def epsilon(self, steps: int) -> float:
        """ε at the mechanism's δ after so many steps."""
        if steps == 0:
            return 0.0
        if self.mechanism.sigma == 0:
            return math.inf
        return _epsilon(
            self.mechanism.accountant, self.mechanism.sigma, self.rate, self.mechanism.delta, steps
        )

    @property
    def limit(self) -> int | None:
        """How many steps the budget allows; None: any number."""
        return _limit(self, self.mechanism.budget) if self.mechanism.budget else None


def account_of(mechanism: Mechanism, examples: int, batch: int) -> Account | None:
    """The account of a peer with so many examples; a budget that has no room for anything is a
    mistake."""
    rate = mechanism.rate(examples, batch)
    if rate is None:
        return None
    account = Account(mechanism, rate)
    if mechanism.budget and account.limit == 0:
        one = Account(Accounted(mechanism.sigma, mechanism.clip, mechanism.delta), rate).epsilon(1)
        raise ConfigError(
            f"privacy.budget: a single step costs a peer with {examples} examples ε = {one:.3g}"
            f" already, more than the budget of {mechanism.budget:g}; raise the budget or"
            " privacy.sigma"
        )
    return account


MOST = 10_000_000


@lru_cache(maxsize=4096)
def _limit(account: Account, budget: float) -> int:
    """The largest number of steps within the budget: ε grows with every step. By RDP, whose figures
    are never too small, and cost microseconds."""
    account = Account(
        Accounted(account.mechanism.sigma, account.mechanism.clip, account.mechanism.delta),
        account.rate,
    )
    low, high = 0, 1
    while high < MOST and account.epsilon(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if account.epsilon(middle) <= budget else (low, middle)
    return low


@lru_cache(maxsize=65536)
def _epsilon(kind: Accountant, sigma: float, rate: float, delta: float, steps: int) -> float:
    opacus = _opacus()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "rdp":
            orders, one = _rdp_of_a_step(sigma, rate)
            epsilon, _ = opacus.analysis.rdp.get_privacy_spent(
                orders=orders, rdp=one * steps, delta=delta
            )
        else:
            accountant = opacus.PRVAccountant()
            accountant.history = [(sigma, rate, steps)]
            epsilon = accountant.get_epsilon(delta=delta)
    return max(0.0, float(epsilon))


@lru_cache(maxsize=1024)
def _rdp_of_a_step(sigma: float, rate: float) -> tuple[Sequence[float], Any]:
    """Rényi divergences add up over steps, so those of one are computed once."""
    opacus = _opacus()
    orders = opacus.RDPAccountant.DEFAULT_ALPHAS
    return orders, opacus.analysis.rdp.compute_rdp(
        q=rate, noise_multiplier=sigma, steps=1, orders=orders
    )


def _opacus() -> Any:
    try:
        from opacus import accountants
    except ImportError:
        raise ConfigError(NO_OPACUS) from None
    return accountants


NO_OPACUS = "privacy: ε is computed by Opacus, which is not installed; pip install 'amity[privacy]'"


def needs_opacus(mechanism: Mechanism) -> None:
    """Say at the start, not after the first round, that something is missing."""
    if mechanism.rate(1, 1) is not None and mechanism.sigma and not _installed("opacus"):
        raise ConfigError(NO_OPACUS)


def _installed(package: str) -> bool:
    """Without importing it: that takes seconds."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        return False


# -- what may be said ------------------------------------------------------------------------------


CARDS = "Similarity of "
"""How the fact that cards tell is named, before the name of their proxy."""


def uncovered(mechanism: Mechanism, method: object, asked: Iterable[str]) -> list[str]:
    """What looked at raw data past a mechanism: of the raw facts that were asked, those that it
    does not cover, and masks that a method makes from data (with DP-SGD they follow from private
    steps). Proxies that follow from models alone tell nothing that private training does not; those
    that follow from what is published tell nothing that private uploads do not."""
    asked = set(asked)

    def covers(proxy: Proxy) -> bool:
        from_models = mechanism.trains and not proxy.needs_examples
        return from_models or (mechanism.uploads and proxy.of_published)

    cards = {fact: fact.removeprefix(CARDS) for fact in asked if fact.startswith(CARDS)}
    covered = {fact for fact, name in cards.items() if covers(proxies.made(name))}
    masks = {"masks"} if mechanism.uploads and getattr(method, "data_masks", False) else set()
    return sorted(asked - covered | masks)


def statement(mechanism: Mechanism, epsilon: float, excluded: Iterable[str]) -> str:
    """ε with what it covers, in one line."""
    if not mechanism.about:
        return ""
    excluded = sorted(excluded)
    value = f"ε = {epsilon:.3g} at δ = {mechanism.delta:g} for {mechanism.about}"
    if math.isnan(epsilon):
        return f"unknown: nothing is recorded of what was spent for {mechanism.about}"
    if not math.isfinite(epsilon):
        return f"no privacy: ε is infinite for {mechanism.about}, as there is too little noise"
    if excluded:
        return f"{value}, training only, excludes {', '.join(excluded)}"
    return f"{value}, guaranteed"
