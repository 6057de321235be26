"""The simulator: train -> card and share -> decide -> mix -> evaluate, for all peers, in one process.

During *decide* everyone sees one frozen snapshot of the round, so no result depends on the order of peers. Peers stand
in sorted order of their names everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from amity.config import Config
from amity.core import START, Answers, Ask, Decision, PeerId, Reference, Row, Share, View, drive
from amity.data import Dataset, split
from amity.errors import ConfigError
from amity.facts import REPLY_BYTES, Labels, Offer, transfer
from amity.layout import layout_of
from amity.learn import Learner, Recipe
from amity.metrics import (
    choice_quality,
    consensus_distance,
    gradient_metrics,
    overlap_matrix,
    taken_from,
)
from amity.mixing import check_row, mix
from amity.peer import Peer, PeerData, World
from amity.proxy import Sketcher
from amity.rng import rng
from amity.topology import Network, peer_names


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside the block: the same bits on every machine, and one core for each process that simulates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Report:
    """What one round yields: a record a peer, the rows, and a record of the network."""

    round: int
    peers: dict[PeerId, dict[str, Any]]
    rows: dict[PeerId, Row]
    network: dict[str, Any]


def make_learner(config: Config, shape: tuple[int, ...], classes: int) -> Learner:
    """The module of the config with its initial parameters, which are the same for all peers of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(config.seed, "model").integers(2**62)))
        module = config.model.thing.build(shape, classes)
    train = config.train
    recipe = Recipe(
        train.lr,
        train.lr_head or train.lr,
        train.momentum,
        train.weight_decay,
        train.batch,
        train.clip,
        train.decay,
        train.augment == "crop_flip",
    )
    if recipe.augment and len(shape) != 3:
        raise ConfigError(f"train.augment: crop_flip needs images, got examples of shape {shape}; use train.augment=none")
    layers = config.model.extra
    return Learner(module, layout_of(module, layers.head, layers.proxy_layer), recipe, config.device)


class Simulation:
    """All peers of a run. `round()` advances by one round; `state`/`restore` are what a checkpoint needs."""

    def __init__(self, config: Config, dataset: Dataset, names: tuple[PeerId, ...] | None = None) -> None:
        self.config = config
        dataset = replace(dataset, pixels=dataset.pixels.to(config.device))
        self.names = tuple(sorted(names or peer_names(config.peers)))
        self.strategy = config.strategy.thing
        availability = config.topology.extra
        self.network = Network(
            config.topology.thing,
            self.names,
            config.seed,
            availability.redraw,
            availability.online,
            availability.trace,
            availability.drop,
        )
        with one_thread():
            self.data: dict[PeerId, PeerData] = split(dataset, config.partition.thing, self.names, config.seed)
            learner = make_learner(config, dataset.shape, dataset.classes)
            self.world = World(
                config.seed,
                config.rounds,
                config.method.thing,
                learner,
                Sketcher(config.seed),
                learner.initial(),
                config.train.epochs,
                config.train.epochs_head,
                config.facts.examples,
            )
            self.peers = {name: Peer(name, self.data[name], self.world) for name in self.names}
        self.overlap = overlap_matrix({name: peer.data.labels for name, peer in self.peers.items()})
        self.next_round = 0

    # -- one round -------------------------------------------------------------------------------------------------

    def round(self) -> Report:
        """Everything of one round, measured."""
        with one_thread():
            return self._round(self.next_round)

    def _round(self, t: int) -> Report:
        ignores = isinstance(self.strategy, Reference) and self.strategy.ignores_graph
        near = self.network.neighbours(t, everyone=ignores)
        for name, peer in self.peers.items():
            peer.begin(t, len(near[name]), self.strategy.card)
            peer.train()
            peer.publish()
        decided = {name: self._decide(name, t, near[name]) for name in self.names}
        last = t + 1 == self.config.rounds
        measured = t % self.config.eval.every == 0 or last
        after_training = {n: p.world.learner.score(p.trained, p.data.test) for n, p in self.peers.items() if measured}
        for name, (decision, mixed) in decided.items():
            self.peers[name].settle(mixed, decision.memory)
        self.next_round = t + 1
        rows = {name: decision.row for name, (decision, _) in decided.items()}
        records = {}
        for name in self.names:
            records[name] = self._record(name, t, len(near[name]), decided[name][0])
            if measured:
                records[name] |= self._scores(self.peers[name], after_training[name].accuracy)
        scores = {name: decision.scores for name, (decision, _) in decided.items()}
        network = {"round": t, **choice_quality(self.names, self.overlap, self.config.eval.friend, rows, scores, near)}
        every = self.config.eval.gradients_every
        if every and (t % every == 0 or last):
            network |= self._theory(rows)
        if measured:
            network["accuracy"] = sum(r["accuracy"] for r in records.values()) / len(records)
        return Report(t, records, rows, network)

    def _decide(self, name: PeerId, t: int, near: tuple[PeerId, ...]) -> tuple[Decision, Share]:
        """Drive one peer's plan and mix what arrived; only this peer's arrivals are alive at once."""
        me, config = self.peers[name], self.config
        view = View(
            name,
            t,
            config.rounds,
            near,
            len(me.data.train),
            me.card,
            rng(config.seed, "decide", t, name),
            rng(config.seed, "common", t),
            me.memory,
        )
        desk = _Desk(self, me, near)
        decision = drive(self.strategy.decide(view, {name: 1.0}), desk.answer)
        check_row(decision.row, name, desk.arrived)
        models = desk.arrived | {name: me.share, START: me.share_start}
        return decision, mix(decision.row, models)

    # -- measuring -------------------------------------------------------------------------------------------------

    def _record(self, name: PeerId, t: int, available: int, decision: Decision) -> dict[str, Any]:
        peer = self.peers[name]
        taken = taken_from(decision.row, name)
        return {
            "round": t,
            "peer": name,
            "available": available,
            "taken": len(taken),
            "self_weight": decision.row.get(name, 0.0),
            "train_loss": peer.stats.loss,
            **decision.notes,
            **peer.ledger.as_dict(),
        }

    def _scores(self, peer: Peer, after_training: float) -> dict[str, float]:
        learner = self.world.learner
        mixed = learner.score(peer.start, peer.data.test)
        model = peer.final_model()
        final = learner.score(model, peer.data.test)
        out = {
            "accuracy": final.accuracy,
            "balanced": final.balanced,
            "test_loss": final.loss,
            "accuracy_local": after_training,
            "accuracy_mixed": mixed.accuracy,
        }
        if len(peer.data.validation):
            out["accuracy_validation"] = learner.score(model, peer.data.validation).accuracy
        return out

    def _theory(self, rows: Mapping[PeerId, Row]) -> dict[str, float]:
        learner = self.world.learner
        theta_MP = torch.stack([peer.start for peer in self.peers.values()])
        mean = theta_MP.mean(0)
        gradients_MP = torch.stack([learner.gradient(mean, peer.data.train)[0] for peer in self.peers.values()])
        return gradient_metrics(self.names, gradients_MP, rows) | {"consensus": consensus_distance(theta_MP)}

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and notebooks: with the config, all that the rest of the run depends on."""
        tensors = {f"{name}/{key}": value for name, p in self.peers.items() for key, value in p.snapshot().items()}
        return tensors, {name: peer.memory for name, peer in self.peers.items()}

    def restore(self, round: int, tensors: Mapping[str, torch.Tensor], memories: Mapping[str, Any]) -> None:
        """Go on as if the rounds before `round` had been run here."""
        for name, peer in self.peers.items():
            prefix, device = f"{name}/", self.config.device
            peer.resume(
                round,
                {k.removeprefix(prefix): v.to(device) for k, v in tensors.items() if k.startswith(prefix)},
                memories[name],
            )
        self.next_round = round


class _Desk:
    """Carries one peer's asks within a round: who answers, what moves, and what has arrived."""

    def __init__(self, simulation: Simulation, me: Peer, near: tuple[PeerId, ...]) -> None:
        self.simulation, self.me, self.near = simulation, me, frozenset(near)
        self.arrived: dict[PeerId, Share] = {}
        self._cards: set[PeerId] = set()

    def answer(self, ask: Ask) -> Answers:
        me, network = self.me, self.simulation.network
        fact = ask.fact
        if fact.reference and not isinstance(self.simulation.strategy, Reference):
            raise TypeError(f"{type(fact).__name__}() is for references only; mix amity.core.Reference into the strategy")
        offers: dict[PeerId, Offer] = {}
        for j in sorted(set(ask.peers)):
            reached = j in self.near and network.delivered(me.round, me.name, j, type(fact).__name__)
            if reached or j == me.name:
                offers[j] = self._fetch(ask, j)
        return fact.read(me, offers)

    def _fetch(self, ask: Ask, j: PeerId) -> Offer:
        """Bring what the fact moves from j to me, and book it; what is here already does not move again."""
        fact, me, other = ask.fact, self.me, self.simulation.peers[j]
        if fact.sends:
            guest = me.share_start
            offer = fact.serve(other, guest, me.name)
            if j != me.name:
                transfer("model", guest.nbytes, me.ledger, other.ledger)
        else:
            offer = Offer(
                len(other.data.train),
                other.card if "card" in fact.moves else None,
                self.arrived.get(j, other.share) if "model" in fact.moves else None,
                other.losses if "reply" in fact.moves else None,
                other.data.labels if isinstance(fact, Labels) else (),
            )
        if j != me.name:
            self._book(offer, other, fresh=fact.sends)
        return offer

    def _book(self, offer: Offer, other: Peer, fresh: bool) -> None:
        j, books = other.name, (other.ledger, self.me.ledger)
        if offer.card is not None and (fresh or j not in self._cards):
            transfer("card", offer.card.nbytes, *books)
            self._cards |= {j} if not fresh else set()
        if offer.losses is not None:
            transfer("reply", REPLY_BYTES, *books)
        if offer.share is not None and (fresh or j not in self.arrived):
            transfer("model", offer.share.nbytes, *books)
            self.arrived[j] = offer.share
