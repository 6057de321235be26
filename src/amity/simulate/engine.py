"""The simulator: train -> card and share -> decide -> mix -> evaluate, for all peers, in one process.

During *decide* everyone sees one frozen snapshot of the round, so no result depends on the order of peers. Peers stand
in sorted order of their names everywhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from amity.config import Config
from amity.core import START, Decision, PeerId, Row, Share, View, drive
from amity.data import Dataset, split
from amity.errors import AmityError, ConfigError, RunDirError, StrategyError, brief
from amity.layout import layout_of
from amity.learn import Learner, Recipe
from amity.metrics import (
    choice_quality,
    gradient_metrics,
    overlap_matrix,
    taken_from,
)
from amity.mixing import check_row, mix
from amity.peer import Peer, PeerData, World
from amity.proxy import Sketcher
from amity.rng import rng
from amity.simulate.desk import Desk, is_central
from amity.topology import Network, peer_names


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside the block: the same bits however many cores there are, and one core for each process."""
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
        self.on_part: Callable[[int, float], None] | None = None
        self._told = time.monotonic()

    def _tell(self, t: int, share: float) -> None:
        """Say how far the round is, at most once a second."""
        if self.on_part is not None and time.monotonic() - self._told > 1:
            self._told = time.monotonic()
            self.on_part(t, share)

    # -- one round -------------------------------------------------------------------------------------------------

    def round(self) -> Report:
        """Everything of one round, measured."""
        with one_thread():
            return self._round(self.next_round)

    def _round(self, t: int) -> Report:
        near = self.network.neighbours(t, everyone=self._central)
        for done, (name, peer) in enumerate(self.peers.items()):
            self._tell(t, 0.4 * done / len(self.names))
            peer.begin(t, len(near[name]), self.strategy.card)
            peer.train()
            peer.publish()
        decided = {}
        for done, name in enumerate(self.names):
            self._tell(t, 0.4 + 0.3 * done / len(self.names))
            decided[name] = self._decide(name, t, near[name])
        last = t + 1 == self.config.rounds
        measured = t % self.config.eval.every == 0 or last
        after_training = {n: p.world.learner.score(p.trained, p.data.test) for n, p in self.peers.items() if measured}
        for name, (decision, mixed) in decided.items():
            self.peers[name].settle(mixed, decision.memory)
        self.next_round = t + 1
        rows = {name: decision.row for name, (decision, _) in decided.items()}
        records = {}
        for done, name in enumerate(self.names):
            self._tell(t, 0.7 + 0.3 * done / len(self.names))
            records[name] = self._record(name, t, len(near[name]), decided[name][0])
            if measured:
                records[name] |= self._scores(self.peers[name], after_training[name].accuracy)
        scores = {name: decision.scores for name, (decision, _) in decided.items()}
        network = {"round": t, **choice_quality(self.names, self.overlap, self.config.eval.friend, rows, scores, near)}
        every = self.config.eval.gradients_every
        if every and (t % every == 0 or last):
            network |= self._theory(rows, near)
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
        desk = Desk(me, near, self.peers, self.network, self.strategy)
        decision = self._driven(view, desk)
        check_row(decision.row, name, desk.arrived)
        if self._central and near:
            self._book_server(me, decision.row)
        models = desk.arrived | {name: me.share} | ({START: me.share_start} if START in decision.row else {})
        return decision, mix(decision.row, models)

    @property
    def _central(self) -> bool:
        return is_central(self.strategy)

    def _book_server(self, me: Peer, row: Row) -> None:
        """With a server, a peer receives one model, and sends one if it is in the average."""
        me.ledger.model_in += me.share.nbytes
        me.ledger.model_out += me.share.nbytes if me.name in row else 0

    def _driven(self, view: View, desk: Desk) -> Decision:
        """One decision in plain numbers; whatever a strategy does wrong is said of it, its peer and its round."""
        where = f"strategy {self.config.strategy.label}, {view.me}, round {view.round}"
        try:
            decision = drive(self.strategy.decide(view, {view.me: 1.0}), desk.answer)
            row = {str(j): float(weight) for j, weight in decision.row.items()}
            notes = {str(key): float(value) for key, value in decision.notes.items()}
            if view.round < 2 and json.loads(json.dumps(decision.memory)) != decision.memory:
                raise TypeError("memory must be plain JSON data: dicts with text keys, lists, numbers, text")
            return Decision(row, decision.memory, notes, decision.scores)
        except AmityError:
            raise
        except (Exception, SystemExit) as error:  # a strategy may be anybody's code
            raise StrategyError(f"{where}: {brief(error)}") from error

    # -- measuring -------------------------------------------------------------------------------------------------

    def _record(self, name: PeerId, t: int, available: int, decision: Decision) -> dict[str, Any]:
        peer = self.peers[name]
        taken = taken_from(decision.row, name)
        return {
            **decision.notes,
            "round": t,
            "peer": name,
            "available": available,
            "taken": len(taken),
            "self_weight": decision.row.get(name, 0.0),
            "train_loss": peer.stats.loss,
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

    def _theory(self, rows: Mapping[PeerId, Row], near: Mapping[PeerId, tuple[PeerId, ...]]) -> dict[str, float]:
        """The theorem's quantities, of the part of the model that is shared."""
        learner, peers = self.world.learner, list(self.peers.values())
        shared = peers[0].share.mask
        mean = torch.zeros_like(peers[0].start)
        for peer in peers:
            mean.add_(peer.start, alpha=1 / len(peers))
        apart = (peer.start - mean if shared is None else (peer.start - mean)[shared] for peer in peers)
        gradients_MP = torch.stack([learner.gradient(mean, peer.data.train)[0] for peer in peers])
        if shared is not None:
            gradients_MP = gradients_MP[:, shared]
        consensus = sum(float(part.square().sum()) for part in apart) / len(peers)
        return gradient_metrics(tuple(self.peers), gradients_MP, rows, near) | {"consensus": consensus}

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and notebooks: with the config, all that the rest of the run depends on."""
        tensors = {f"{name}/{key}": value for name, p in self.peers.items() for key, value in p.snapshot().items()}
        return tensors, {name: peer.memory for name, peer in self.peers.items()}

    def restore(self, round: int, tensors: Mapping[str, torch.Tensor], memories: Mapping[str, Any]) -> None:
        """Go on as if the rounds before `round` had been run here."""
        missing = [name for name in self.names if f"{name}/start" not in tensors or name not in memories]
        if missing:
            raise RunDirError(f"the checkpoint of round {round} knows nothing of {missing[0]}; it is not of this run")
        for name, peer in self.peers.items():
            prefix, device = f"{name}/", self.config.device
            peer.resume(
                round,
                {k.removeprefix(prefix): v.to(device) for k, v in tensors.items() if k.startswith(prefix)},
                memories[name],
            )
        self.next_round = round
