r"""Attackers, for the simulator: what a peer may do to what it lets others see.

`attack=sign_flip attack.fraction=0.2` turns a fifth of the peers, drawn from the seed, into
attackers. An attacker follows the protocol and its strategy, and tampers with what leaves it: its
model (as published, and as handed back to a guest), its card, its losses. It keeps its own model as
it is. Written for a peer with start w and trained model ŵ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from amity.core import PeerId, Share
from amity.data.samples import Samples
from amity.facts import Losses
from amity.lazy import torch
from amity.registry import Registry
from amity.rng import rng

Sends = Literal["honest", "sign_flip", "noise", "scaled", "constant", "free_rider"]

Wrong = Callable[["torch.Tensor"], "torch.Tensor"]


class Attack:
    """Base of all: an attacker that does nothing. Verbs take what is true and return what is
    shown."""

    harmless: ClassVar[bool] = False
    """Whether it does nothing at all."""
    fakes_models: ClassVar[bool] = False
    """Whether `share` shows anything but the truth."""
    fakes_cards: ClassVar[bool] = False
    """Whether `sketch` does."""

    def data(self, samples: Samples, wrong: Wrong) -> Samples:
        """What the attacker trains on; `wrong` makes of right answers their opposite."""
        return samples

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        """Its model, given the one before training and the common initial one."""
        return share

    def losses(self, losses: Losses) -> Losses:
        """Its own losses, as it reports them."""
        return losses

    def sketch(self, mine: torch.Tensor, target: torch.Tensor | None) -> torch.Tensor:
        """Its card, as shown to an asker who would welcome the card `target` (None: it knows of
        none): the asker's own of the last round. Where cards are looked at once, it is the one of
        another that is most like the asker's."""
        return mine


attacks: Registry[Attack] = Registry("attack", "data", "share", "losses", "sketch")


def attackers(names: tuple[PeerId, ...], fraction: float, seed: int) -> frozenset[PeerId]:
    """⌊fraction · m⌉ peers, drawn from the seed."""
    count = round(fraction * len(names))
    return frozenset(
        names[k] for k in rng(seed, "attackers").choice(len(names), count, replace=False)
    )


def _tampered(share: Share, theta: torch.Tensor) -> Share:
    """Another model behind the same mask."""
    return Share(theta if share.mask is None else torch.where(share.mask, theta, 0.0), share.mask)


@attacks.register("none")
@dataclass(frozen=True)
class NoAttack(Attack):
    """Everyone is honest."""

    harmless: ClassVar[bool] = True


@attacks.register("label_flip")
@dataclass(frozen=True)
class LabelFlip(Attack):
    """Trains on wrong labels: class c becomes K − 1 − c. Of other tasks: yes becomes no, high
    becomes low."""

    def data(self, samples: Samples, wrong: Wrong) -> Samples:
        return Samples(replace(samples.pixels, y=wrong(samples.pixels.y)), samples.index)


@attacks.register("sign_flip")
@dataclass(frozen=True)
class SignFlip(Attack):
    """Sends its update backwards: w − `scale`·(ŵ − w)."""

    fakes_models = True
    scale: Annotated[float, Field(gt=0, le=1e6)] = 3.0
    """Factor on its update, backwards."""

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        return _tampered(share, start - self.scale * (share.theta - start))


@attacks.register("noise")
@dataclass(frozen=True)
class NoiseAttack(Attack):
    """Sends its model with Gaussian noise of standard deviation `std` on every number."""

    fakes_models = True
    std: Annotated[float, Field(gt=0, le=1e6)] = 0.1
    """Standard deviation of the noise on every number."""

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        noise = torch.from_numpy(draw.standard_normal(len(share.theta), dtype=np.float32)).to(
            start.device
        )
        return _tampered(share, share.theta + self.std * noise)


@attacks.register("scaled")
@dataclass(frozen=True)
class Scaled(Attack):
    """Sends its update many times over, so that it outweighs all others: w + `scale`·(ŵ − w)."""

    fakes_models = True
    scale: Annotated[float, Field(gt=0, le=1e6)] = 10.0
    """Factor on its update."""

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        return _tampered(share, start + self.scale * (share.theta - start))


@attacks.register("constant")
@dataclass(frozen=True)
class Constant(Attack):
    """Sends a model whose numbers are all `value`."""

    fakes_models = True
    value: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.1
    """What all its numbers are."""

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        return _tampered(share, torch.full_like(share.theta, self.value))


@attacks.register("free_rider")
@dataclass(frozen=True)
class FreeRider(Attack):
    """Contributes nothing: sends the initial model, every round."""

    fakes_models = True

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        return _tampered(share, initial)


@dataclass(frozen=True)
class _Liar(Attack):
    """Lies to be taken, and sends a model of the kind `sends`; honest: to see what weight the lie
    alone obtains."""

    fakes_models = True
    sends: Sends = "sign_flip"
    """What its models are: honest ones, or those of another attack."""

    def share(
        self, share: Share, start: torch.Tensor, initial: torch.Tensor, draw: np.random.Generator
    ) -> Share:
        if self.sends == "honest":
            return share
        return attacks[self.sends].build({}).share(share, start, initial, draw)


@attacks.register("loss_liar")
@dataclass(frozen=True)
class LossLiar(_Liar):
    """Reports a loss of 0, and sends a model of the kind `sends`. Strategies that measure for
    themselves are not misled."""

    def losses(self, losses: Losses) -> Losses:
        return Losses(0.0, 0.0)


@attacks.register("sketch_liar")
@dataclass(frozen=True)
class SketchLiar(_Liar):
    """Shows everyone their own card of the last round as its own, and sends a model of the kind
    `sends`.

    Where cards last and are looked at once (`friends`), there is no card of a last round, and a
    copy of one's own is known as such. There it waits until it has seen the cards of its honest
    neighbours, and shows everyone the one among them that is most like their own: it passes for a
    twin of the asker's best friend.

    The worst case: on a real network a card is published once for all, so that only one target
    could be copied, and only its friends be deceived.
    """

    fakes_cards: ClassVar[bool] = True

    def sketch(self, mine: torch.Tensor, target: torch.Tensor | None) -> torch.Tensor:
        return mine if target is None else target
