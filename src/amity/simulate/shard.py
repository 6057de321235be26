"""Some peers, and everything that is computed on their data. An engine has one shard, or one on each machine.

Every verb may be done twice with the same result: it reads what the phase before left and writes rows that nothing of its
own phase reads. So work that was cut short is simply done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from amity.core import START, Context, Fit, Fitted, PeerId, Row, Share, Training
from amity.errors import AmityError, Failure, StrategyError, brief
from amity.facts import Fact, Ledger, Losses, Offer
from amity.learn import Samples, Score
from amity.mixing import mix
from amity.peer import Peer, World
from amity.proxy import CardSpec
from amity.simulate.matrices import Matrices
from amity.stacked import FitJob, Stack


@dataclass(frozen=True)
class Job:
    """A verb of a shard with its arguments, the peer in whose shard it is done, and whose models it reads there."""

    verb: str
    at: PeerId
    args: tuple[Any, ...]
    needs: tuple[PeerId, ...] = ()
    guests: tuple[PeerId, ...] = ()
    """Peers whose model of the round's start is read."""


class Trained(NamedTuple):
    """What the engine keeps of one peer's training."""

    loss: float
    forward: int
    backward: int
    share_bytes: int
    start_bytes: int
    steps: int
    """Gradient steps, of the whole group: told by its first."""
    sketch: np.ndarray[Any, Any] | None


class Answered(NamedTuple):
    """Numbers, and the passes that they took."""

    values: list[float]
    forward: int
    backward: int


class Hosted(NamedTuple):
    """What a neighbour hands back to a guest, and the passes that it took."""

    offer: Offer
    forward: int
    backward: int


class Shard:
    """The peers of one place, with their rows and the one module that serves them."""

    def __init__(self, world: World, peers: Mapping[PeerId, Peer], matrices: Matrices, stack: Stack | None) -> None:
        self.world, self.peers, self.matrices, self.stack = world, dict(peers), matrices, stack
        self.lent: dict[PeerId, Share] = {}
        """Models of peers elsewhere, for the job at hand."""
        self.lent_start: dict[PeerId, Share] = {}
        self._mixed: tuple[Any, Share] | None = None

    def do(self, job: Job) -> Any:
        try:
            return getattr(self, job.verb)(*job.args)
        except AmityError:
            raise
        except (Exception, SystemExit) as error:  # a method may be anybody's code
            raise Failure(f"{job.verb} of {job.at}: {brief(error)}") from error

    def _at(self, names: Sequence[PeerId], round: int) -> list[Peer]:
        """These peers in a round, with fresh books."""
        peers = [self.peers[name] for name in names]
        for peer in peers:
            peer.round, peer.ledger = round, Ledger()
        return peers

    def share_of(self, name: PeerId) -> Share:
        return self.peers[name].share if name in self.peers else self.lent[name]

    def start_shares(self, names: Sequence[PeerId], round: int) -> dict[PeerId, Share]:
        return {peer.name: peer.share_start for peer in self._at(names, round)}

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def train(self, names: tuple[PeerId, ...], round: int, spec: CardSpec | None) -> list[Trained]:
        """Local training of a group, then its cards."""
        peers = self._at(names, round)
        contexts, before = [peer.context("train") for peer in peers], self.world.learner.steps
        self._together(peers, [peer.training(ctx) for peer, ctx in zip(peers, contexts, strict=True)], contexts)
        steps = self.world.learner.steps - before
        return [self._trained(peer, spec, steps if peer is peers[0] else 0) for peer in peers]

    def _trained(self, peer: Peer, spec: CardSpec | None, steps: int) -> Trained:
        sketch = None
        if spec is not None:
            with peer.paying():
                sketch = peer.sketch(spec).cpu().numpy()
        plain = peer.rows.share is None
        sizes = (peer.share.nbytes, peer.share.nbytes if plain else peer.share_start.nbytes)
        return Trained(peer.stats.loss, peer.ledger.forward, peer.ledger.backward, *sizes, steps, sketch)

    def losses(self, me: PeerId, others: tuple[PeerId, ...], round: int) -> Answered:
        """F_i of others' models on my data."""
        (peer,) = self._at([me], round)
        data = peer.probe_data
        if self.stack is not None and len(others) > 1:
            thetas = [peer.adopt(self.share_of(j)) for j in others]
            return Answered(self.stack.losses(thetas, [data] * len(others)), len(data) * len(others), 0)
        with peer.paying():
            values = [self.world.learner.loss(peer.adopt(self.share_of(j)), data) for j in others]
        return Answered(values, peer.ledger.forward, peer.ledger.backward)

    def own_losses(self, me: PeerId, round: int) -> Answered:
        (peer,) = self._at([me], round)
        losses = peer.own_losses()
        return Answered([losses.before, losses.after], peer.ledger.forward, peer.ledger.backward)

    def host(self, me: PeerId, fact: Fact, visitor: PeerId, spec: CardSpec | None, degree: int, round: int) -> Hosted:
        """Answer a fact about a guest's model."""
        (peer,) = self._at([me], round)
        if visitor in self.peers:
            self.peers[visitor].round = round
        guest = self.peers[visitor].share_start if visitor in self.peers else self.lent_start[visitor]
        return Hosted(fact.serve(peer, guest, visitor, spec, degree), peer.ledger.forward, peer.ledger.backward)

    def settle(self, me: PeerId, row: Row, round: int) -> None:
        """Mix by the row, and take the result in. Rows that are equal are summed once."""
        key = None if START in row else (round, tuple(sorted(row.items())))
        if key is None or self._mixed is None or self._mixed[0] != key:
            shares = {j: self.share_of(j) for j in row if j != START}
            if START in row:
                shares[START] = self._at([me], round)[0].share_start
            self._mixed = (key, mix(row, shares))
        self.absorb(me, self._mixed[1], round)

    def absorb(self, me: PeerId, mixed: Share, round: int) -> None:
        self._at([me], round)[0].settle(mixed)

    def evaluate(self, names: tuple[PeerId, ...], round: int) -> list[dict[str, float]]:
        """Test accuracies of a group: after training, after mixing, and of the method's own model."""
        peers, models = self._at(names, round), self.final_models(names, round)
        tests = [peer.data.test for peer in peers]
        local = self._scores([peer.trained for peer in peers], tests)
        mixed = self._scores([peer.start for peer in peers], tests)
        final = self._scores(models, tests)
        held_out = [at for at, peer in enumerate(peers) if len(peer.data.validation)]
        validation = self._scores([models[at] for at in held_out], [peers[at].data.validation for at in held_out])
        out = [
            {
                "accuracy": f.accuracy,
                "balanced": f.balanced,
                "test_loss": f.loss,
                "accuracy_local": a.accuracy,
                "accuracy_mixed": b.accuracy,
            }
            for a, b, f in zip(local, mixed, final, strict=True)
        ]
        for at, score in zip(held_out, validation, strict=True):
            out[at]["accuracy_validation"] = score.accuracy
        return out

    def final_models(self, names: tuple[PeerId, ...], round: int) -> list[torch.Tensor]:
        """The method's own models of a group, after mixing."""
        peers = self._at(names, round)
        contexts = [peer.context("model") for peer in peers]
        return self._together(peers, [peer.finishing(ctx) for peer, ctx in zip(peers, contexts, strict=True)], contexts)

    def gradient(self, me: PeerId) -> None:
        """∇F_i at the common point, left in the row of `trained`: by the end of a round nothing else needs that."""
        peer = self.peers[me]
        peer.trained.copy_(self.world.learner.gradient(self.matrices.common, peer.data.train)[0])

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _scores(self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples]) -> list[Score]:
        if self.stack is not None and len(thetas) > 1:
            return self.stack.scores(thetas, datas)
        return [self.world.learner.score(theta, data) for theta, data in zip(thetas, datas, strict=True)]

    def _together(self, peers: Sequence[Peer], work: Sequence[Training[Any]], contexts: Sequence[Context]) -> list[Any]:
        """Run generators of fits side by side: fits of one kind are done in one stacked step, where that is on."""
        results: list[Any] = [None] * len(work)
        fits: dict[int, Fit] = {}

        def advance(at: int, fitted: Fitted | None) -> None:
            with peers[at].paying():
                try:
                    fits[at] = next(work[at]) if fitted is None else work[at].send(fitted)
                except StopIteration as stop:
                    results[at] = stop.value
                    return
            if not isinstance(fits[at], Fit):
                raise StrategyError(f"a method must yield Fit(theta, epochs), got {type(fits[at]).__name__}")

        for at in range(len(work)):
            advance(at, None)
        while fits:
            kind = min((fit.epochs, fit.part is not None, str(fit.part)) for fit in fits.values())
            alike = [at for at, f in fits.items() if (f.epochs, f.part is not None, str(f.part)) == kind]
            asked = {at: fits.pop(at) for at in alike}
            for at, fitted in self._fit(asked, contexts).items():
                part = asked[at].part
                examples = 0 if part is not None and part.start == part.stop else asked[at].epochs * len(contexts[at].train)
                peers[at].ledger.forward += examples
                peers[at].ledger.backward += examples
                advance(at, fitted)
        return results

    def _fit(self, fits: Mapping[int, Fit], contexts: Sequence[Context]) -> dict[int, Fitted]:
        learner = self.world.learner
        if self.stack is None or len(fits) == 1:
            return {
                at: learner.fit(fit.theta, contexts[at].train, contexts[at].rng, fit.epochs, fit.part, contexts[at].round)
                for at, fit in fits.items()
            }
        first = next(iter(fits))
        jobs = [FitJob(fit.theta, contexts[at].train, contexts[at].rng) for at, fit in fits.items()]
        fitted = self.stack.fit(jobs, fits[first].epochs, fits[first].part, contexts[first].round)
        return dict(zip(fits, fitted, strict=True))


def read_losses(answered: Answered) -> Losses:
    return Losses(*answered.values)
