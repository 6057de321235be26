"""A shard: some peers, and everything that is computed on their data. An engine has one shard, or
one on each machine.

Every method may be called twice with the same result. It reads what the phase before left, and
writes rows that nothing in its own phase reads. So work that was interrupted is simply done again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from amity.core import START, Context, Fit, Fitted, PeerId, Row, Share, Training, TrainingRequest
from amity.data.samples import Samples
from amity.facts import Fact, Ledger, Loss, Losses, ModelFact, Offer
from amity.learn.learner import Bounds
from amity.learn.stacked import FitJob, Stack
from amity.peer.mixing import mix_parts, standing_on
from amity.peer.peer import Peer, World
from amity.peer.proxy import CardSpec
from amity.records import Scores
from amity.round.matrices import Matrices
from amity.tasks import Score

NAMED = ("accuracy", "balanced")
"""Metrics that have a field of their own in a record."""


class Trained(NamedTuple):
    """What the engine keeps from one peer's training."""

    loss: float
    forward: int
    backward: int
    share_bytes: int
    start_bytes: int
    steps: int
    """Gradient steps, of the whole group: told by its first."""
    private: int
    """Steps of DP-SGD, or private uploads."""
    sketch: np.ndarray[Any, Any] | None
    sketching: tuple[int, int] = (0, 0)
    """The forward and backward passes among them that the sketch took."""
    diverged: bool = False
    """Whether it trained and its loss is no number."""


class Answered(NamedTuple):
    """Answers, and the forward and backward passes that they took."""

    values: list[Any]
    forward: int
    backward: int


class Hosted(NamedTuple):
    """What a neighbour hands back to a guest, and the passes that it took."""

    offer: Offer
    forward: int
    backward: int
    private: int


class Shard:
    """The peers in one process, with their rows in the matrices, and the one torch module that
    serves them."""

    def __init__(
        self, world: World, peers: Mapping[PeerId, Peer], matrices: Matrices, stack: Stack | None
    ) -> None:
        self.world, self.peers, self.matrices, self.stack = world, dict(peers), matrices, stack
        self.lent: dict[PeerId, Share] = {}
        """Models of peers elsewhere, for the job at hand."""
        self.lent_start: dict[PeerId, Share] = {}
        self._mixed: tuple[Any, Share] | None = None
        self.shadows: Shard | None = None
        """The same peers, had they learnt from nobody, where that is looked at."""

    def cast(self, shadows: Shard) -> None:
        """From now on there are shadows, to be trained too."""
        self.shadows = shadows
        for name, peer in self.peers.items():
            peer.shadow = shadows.peers[name]

    def _at(self, names: Sequence[PeerId], round: int) -> list[Peer]:
        """These peers in a round, with fresh books."""
        peers = [self.peers[name] for name in names]
        for peer in peers:
            peer.round, peer.ledger, peer.allowed, peer.spent = round, Ledger(), None, 0
        return peers

    def share_of(self, name: PeerId) -> Share:
        return self.peers[name].share if name in self.peers else self.lent[name]

    def _share_for(self, me: Peer, name: PeerId) -> Share:
        """A model as it is used in my row. For my own model and my start, it is the one that I
        know, not the published one."""
        if name == START:
            return me.share_start
        return me.mine if name == me.name else self.share_of(name)

    def start_shares(self, names: Sequence[PeerId], round: int) -> dict[PeerId, Share]:
        return {peer.name: peer.share_start for peer in self._at(names, round)}

    # -- verbs -------------------------------------------------------------------------------------

    def train(
        self,
        names: tuple[PeerId, ...],
        round: int,
        spec: CardSpec | None,
        allowed: tuple[int | None, ...] = (),
    ) -> list[Trained]:
        """Local training of a group, then its cards. `allowed` is the number of private steps left
        to each peer."""
        peers = self._at(names, round)
        for peer, steps in zip(peers, allowed, strict=bool(allowed)):
            peer.allowed = steps
        contexts, before = [peer.context("train") for peer in peers], self.world.learner.steps
        self._together(
            peers, [peer.training(ctx) for peer, ctx in zip(peers, contexts, strict=True)], contexts
        )
        steps = self.world.learner.steps - before
        return [self._trained(peer, spec, steps if peer is peers[0] else 0) for peer in peers]

    def work_on(self, name: PeerId) -> None:
        """A peer whose training goes on has what it began with."""
        self.peers[name].trained.copy_(self.peers[name].start)

    def _trained(self, peer: Peer, spec: CardSpec | None, steps: int) -> Trained:
        sketch, books = None, peer.ledger
        before = (books.forward, books.backward)
        if spec is not None:
            with peer.paying():
                sketch = peer.sketch(spec).cpu().numpy()
        plain = peer.rows.share is None
        sizes = (peer.share.nbytes, peer.share.nbytes if plain else peer.share_start.nbytes)
        return Trained(
            peer.stats.loss,
            peer.ledger.forward,
            peer.ledger.backward,
            *sizes,
            steps,
            peer.spent,
            sketch,
            (books.forward - before[0], books.backward - before[1]),
            diverged(peer.stats.loss, peer.trained),
        )

    def measure(
        self,
        me: PeerId,
        fact: ModelFact,
        others: tuple[PeerId, ...],
        round: int,
        brought: Mapping[PeerId, Share] | None = None,
    ) -> Answered:
        """What a fact says about other peers' models. `brought` are models that came back from
        visits."""
        (peer,) = self._at([me], round)
        here = brought or {}
        models = {j: peer.adopt(here[j] if j in here else self._share_for(peer, j)) for j in others}
        if isinstance(fact, Loss) and self.stack is not None and len(others) > 1:
            data = peer.examples(fact.split)
            values = self.stack.losses(list(models.values()), [data] * len(others))
            return Answered(values, len(data) * len(others), 0)
        with peer.paying():
            values = fact.on(peer, models)
        return Answered(values, peer.ledger.forward, peer.ledger.backward)

    def own_losses(self, me: PeerId, round: int) -> Answered:
        (peer,) = self._at([me], round)
        losses = peer.own_losses()
        return Answered([losses.before, losses.after], peer.ledger.forward, peer.ledger.backward)

    def host(
        self,
        me: PeerId,
        fact: Fact,
        visitor: PeerId,
        spec: CardSpec | None,
        degree: int,
        allowed: int | None,
        round: int,
    ) -> Hosted:
        """Answer a fact about a guest's model."""
        (peer,) = self._at([me], round)
        peer.allowed = allowed
        if visitor in self.peers:
            self.peers[visitor].round = round
        guest = (
            self.peers[visitor].share_start if visitor in self.peers else self.lent_start[visitor]
        )
        offer = fact.serve(peer, guest, visitor, spec, degree)
        return Hosted(offer, peer.ledger.forward, peer.ledger.backward, peer.spent)

    def settle(self, me: PeerId, row: Row, head: Row | None, round: int) -> None:
        """Mix by the row, and take the result over. Equal rows are summed once."""
        (peer,) = self._at([me], round)
        names = standing_on(row, head)
        own = START in names or (peer.attacking and me in names)
        rows = (tuple(sorted(row.items())), head and tuple(sorted(head.items())))
        key = None if own else (round, rows)
        if key is None or self._mixed is None or self._mixed[0] != key:
            shares = {j: self._share_for(peer, j) for j in names}
            self._mixed = (key, self.mix(row, head, shares))
        self.absorb(me, self._mixed[1], round)

    def mix(self, row: Row, head: Row | None, shares: Mapping[PeerId, Share]) -> Share:
        """The mixture of these models that a row asks for, and the row of a head."""
        return mix_parts(self.world.mixer, row, head, shares, self.world.learner.layout.head)

    def absorb(self, me: PeerId, mixed: Share, round: int) -> None:
        self._at([me], round)[0].settle(mixed)

    def evaluate(self, names: tuple[PeerId, ...], round: int) -> list[Scores]:
        """Test accuracies of a group: after training, after mixing, and of the method's own
        model."""
        peers, models = self._at(names, round), self.final_models(names, round)
        tests = [peer.data.test for peer in peers]
        others = {"local": [p.trained for p in peers], "mixed": [p.start for p in peers]}
        if round == 0:
            others["start"] = [self.world.initial] * len(peers)
        final, values = self._tested(models, others, tests)
        held_out = [at for at, peer in enumerate(peers) if len(peer.data.validation)]
        validation = self._scores(
            [models[at] for at in held_out],
            [peers[at].data.validation for at in held_out],
            whole=False,
        )
        validated = dict(zip(held_out, validation, strict=True))
        lead, out = self.world.learner.task.metric.field, []
        for at, score in enumerate(final):
            found: dict[str, Any] = {f"{lead}_{when}": one[at] for when, one in values.items()}
            if at in validated:
                found[f"{lead}_validation"] = validated[at].value
            judge = validated[at].loss if at in validated and self.world.judged else None
            own = scored(lead, score)
            out.append(Scores(**own, test_loss=score.loss, loss_validation=judge, **found))
        return out

    def _tested(
        self,
        models: Sequence[torch.Tensor],
        others: Mapping[str, Sequence[torch.Tensor]],
        tests: Sequence[Samples],
    ) -> tuple[list[Score], dict[str, list[float]]]:
        """How good the models of some peers are, and the leading metric of others that they have.
        All go through in one pass, and a model that a peer has twice only once."""
        learner, places = self.world.learner, range(len(tests))
        asked = [(model, at) for model, at in zip(models, places, strict=True)]
        known = {at: [at] for at in places}
        which: dict[str, list[int]] = {}
        for when, thetas in others.items():
            which[when] = []
            for at, theta in zip(places, thetas, strict=True):
                same = next((k for k in known[at] if torch.equal(asked[k][0], theta)), len(asked))
                if same == len(asked):
                    asked.append((theta, at))
                    known[at].append(same)
                which[when].append(same)
        outputs = self._outputs(asked, tests)
        answers = [test.answers for test in tests]
        final = [
            learner.task.score(outputs[at], answers[at], learner.target, True) for at in places
        ]
        rest = zip(outputs[len(final) :], asked[len(final) :], strict=True)
        values = [score.value for score in final]
        values += [learner.task.value(z, answers[at], learner.target) for z, (_, at) in rest]
        return final, {when: [values[k] for k in found] for when, found in which.items()}

    def _outputs(
        self, asked: Sequence[tuple[torch.Tensor, int]], tests: Sequence[Samples]
    ) -> list[torch.Tensor]:
        """What models give, each for the examples of the peer at its place."""
        thetas, datas = [theta for theta, _ in asked], [tests[at] for _, at in asked]
        if self.stack is not None and len(tests) > 1:
            return self.stack.outputs(thetas, datas)
        learner = self.world.learner
        return [learner.tested(theta, data) for theta, data in zip(thetas, datas, strict=True)]

    def train_alone(self, names: tuple[PeerId, ...], round: int) -> list[Trained]:
        """Train the shadows of a group."""
        return [] if self.shadows is None else self.shadows.train(names, round, None)

    def settle_alone(
        self, names: tuple[PeerId, ...], round: int, trained: bool, due: bool
    ) -> list[float | None]:
        """Let the shadows of a group keep what they have `trained`, and measure them if that is
        `due`: the leading metric of each."""
        shadows = self.shadows
        if shadows is None:
            return [None] * len(names)
        for name in names if trained else ():
            shadows.settle(name, {name: 1.0}, None, round)
        return [s.lead() for s in shadows.evaluate(names, round)] if due else [None] * len(names)

    def final_models(self, names: tuple[PeerId, ...], round: int) -> list[torch.Tensor]:
        """The method's own models of a group, after mixing."""
        peers = self._at(names, round)
        contexts = [peer.context("model") for peer in peers]
        return self._together(
            peers,
            [peer.finishing(ctx) for peer, ctx in zip(peers, contexts, strict=True)],
            contexts,
        )

    def measured(self, models: Sequence[torch.Tensor], test: Samples) -> list[Score]:
        """What each of these models has on the same examples."""
        return self._scores(models, [test] * len(models))

    def gradient(self, me: PeerId) -> None:
        """∇F_i at the common point. It is written into the row of `trained`, which nothing else
        needs at the end of a round."""
        peer = self.peers[me]
        peer.trained.copy_(self.world.learner.gradient(self.matrices.common, peer.data.train)[0])

    # -- helpers -----------------------------------------------------------------------------------

    def _scores(
        self, thetas: Sequence[torch.Tensor], datas: Sequence[Samples], *, whole: bool = True
    ) -> list[Score]:
        if self.stack is not None and len(thetas) > 1:
            return self.stack.scores(thetas, datas, whole)
        return [
            self.world.learner.score(theta, data, whole)
            for theta, data in zip(thetas, datas, strict=True)
        ]

    def _together(
        self, peers: Sequence[Peer], work: Sequence[Training[Any]], contexts: Sequence[Context]
    ) -> list[Any]:
        """Run generators of requests side by side. If stacking is on, fits of the same kind are
        done in one step."""
        results: list[Any] = [None] * len(work)
        asked: dict[int, TrainingRequest] = {}

        def advance(at: int, fitted: Fitted | None) -> None:
            with peers[at].paying():
                try:
                    asked[at] = next(work[at]) if fitted is None else work[at].send(fitted)
                except StopIteration as stop:
                    results[at] = stop.value

        for at in range(len(work)):
            advance(at, None)
        while asked:
            kind = min(map(_kind, asked.values()))
            alike = {
                at: asked.pop(at)
                for at in [at for at, request in asked.items() if _kind(request) == kind]
            }
            for at, fitted in self._fulfil(alike, peers, contexts).items():
                advance(at, fitted)
        return results

    def _fulfil(
        self,
        asked: Mapping[int, TrainingRequest],
        peers: Sequence[Peer],
        contexts: Sequence[Context],
    ) -> dict[int, Fitted]:
        fits = {at: request for at, request in asked.items() if isinstance(request, Fit)}
        if self.stack is None or len(fits) < 2:
            out = {}
            for at, request in asked.items():
                with peers[at].paying():
                    out[at] = peers[at].fulfil(request, contexts[at])
            return out
        first = next(iter(fits.values()))
        jobs = [
            FitJob(
                fit.theta,
                contexts[at].train,
                contexts[at].rng,
                Bounds(fit.anchor, fit.pull, fit.mask),
                fit.moments,
            )
            for at, fit in fits.items()
        ]
        now = contexts[next(iter(fits))]
        fitted = self.stack.fit(jobs, first.epochs, first.part, now.round, now.rounds)
        empty = first.part is not None and first.part.start == first.part.stop
        for at, fit in fits.items():
            examples = 0 if empty else fit.epochs * len(contexts[at].train)
            peers[at].ledger.forward += examples
            peers[at].ledger.backward += examples
        return dict(zip(fits, fitted, strict=True))


def scored(lead: str, score: Score) -> dict[str, Any]:
    """Fields of a record: the leading metric, and the others."""
    rest = {name: value for name, value in score.metrics.items() if name not in NAMED}
    by_class = {str(label): list(pair) for label, pair in score.by_class.items()}
    return {
        **{name: score.metrics.get(name) for name in NAMED},
        "by_class": by_class or None,
        "metrics": rest or None,
        lead: score.value,
    }


def diverged(loss: float, trained: torch.Tensor) -> bool:
    """Whether a training has diverged. Its loss is no number also where nothing was trained (no
    epochs, a spent budget), but then the model is in order."""
    if math.isnan(loss):
        return not bool(torch.isfinite(trained).all())
    return math.isinf(loss)


def _kind(request: TrainingRequest) -> tuple[Any, ...]:
    """The kind of a request. Requests of the same kind can be fulfilled in one step."""
    if not isinstance(request, Fit):
        return (type(request).__name__,)
    bounds = (request.pull, request.anchor is not None, request.mask is not None)
    return ("Fit", request.epochs, request.part is not None, str(request.part), *bounds)


def read_losses(answered: Answered) -> Losses:
    return Losses(*answered.values)
