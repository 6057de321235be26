"""What a proxy is given, what it returns, and what the rest of the program must know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from amity.core import Share
from amity.lazy import torch

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner
    from amity.peer.solo import Solo


@dataclass(frozen=True)
class Vectors:
    """One peer's models around its local training, and the common initial model."""

    start: torch.Tensor
    trained: torch.Tensor
    initial: torch.Tensor
    shared: Share
    """The trained model as others may have it: without what the method keeps, with the noise of
    private uploads. An attacker's own is the one before it tampered with it."""
    shared_start: Share
    """The same of `start`."""
    solo: Solo | None = None
    """What the peer learns alone. None asks for the length of φ, and trains nothing."""


class Proxy:
    """Base of all proxies. One of your own is a frozen dataclass in a file, and goes by
    `strategy.proxy=my_file.py:MyProxy`::

        @dataclass(frozen=True)
        class Biases(amity.Proxy):
            needs_examples = False
            of_published = True

            def of(self, at, data, learner):
                return at.shared.theta[-10:] - at.initial[-10:]
    """

    needs_examples: ClassVar[bool] = True
    """Whether it looks at examples. If not, it follows from models alone, and private training
    covers it."""
    of_published: ClassVar[bool] = False
    """Whether it follows from `shared`, `shared_start` and `initial` alone, so that private uploads
    cover it too."""
    lasting: ClassVar[bool] = False
    """Whether it is the same in all rounds, so that it is computed and paid for once."""
    whole: ClassVar[bool] = False
    """Whether it looks at all training examples, and not only at those that answer facts."""
    parts: ClassVar[int] = 1
    """Of how many vectors of one length φ consists. Each is sketched by itself."""
    centered: ClassVar[bool] = False
    """Whether the asker subtracts the mean over the cards that it knows."""
    of_head: ClassVar[bool] = False
    """Whether it shows the head alone, so that it is empty where the head is frozen."""
    probed: ClassVar[bool] = False
    """Whether a `Probe` or a `Visit` tells the same, at a guest's model."""
    at_asker: ClassVar[bool] = False
    """Whether it is meant at the asker's model, so that only a `Probe` tells it."""

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        """φ of one peer, whole: a vector as long for all peers and in all rounds."""
        raise NotImplementedError
