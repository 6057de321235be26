"""What privacy has cost a peer, and what it may still spend: counted in the same way in every
runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from amity.config import Config
from amity.peer.privacy import Account, account_of


class Spent(TypedDict, total=False):
    """Fields of a `PeerRecord`. Empty if nothing is private."""

    private_steps: int
    epsilon: float


@dataclass(frozen=True)
class Budget:
    """One peer's account; None if nothing is private."""

    account: Account | None = None

    @classmethod
    def of(cls, config: Config, examples: int) -> Budget:
        """For a peer with this many training examples."""
        return cls(account_of(config.privacy.instance, examples, config.train.batch))

    @property
    def rate(self) -> float:
        """The chance that an example is in a private step."""
        return 1.0 if self.account is None else self.account.rate

    def allowed(self, steps: int) -> int | None:
        """How many more private steps the budget allows after this many; None if there is no
        limit."""
        limit = None if self.account is None else self.account.limit
        return None if limit is None else max(0, limit - steps)

    def spent(self, steps: int) -> Spent:
        """For the record. Without noise there is no ε (it would be infinite)."""
        if self.account is None:
            return {}
        noised = bool(self.account.mechanism.sigma)
        epsilon: Spent = {"epsilon": self.account.epsilon(steps)} if noised else {}
        return {"private_steps": steps, **epsilon}
