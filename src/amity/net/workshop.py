"""What a peer computes with: the same as a simulated peer has, and a learner more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from amity.config import Config
from amity.core import PeerId, Strategy
from amity.data import Dataset
from amity.net.setup import Setup, data_of
from amity.net.wire import Schema, digest_of
from amity.peer.peer import Peer, World
from amity.peer.proxy import CardSpec
from amity.round.build import load_data, make_learner, make_shard, settled
from amity.round.shard import Shard
from amity.round.spending import Budget
from amity.store import RunDir
from amity.topology import Network


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """One peer's config, data and models."""

    me: PeerId
    config: Config
    shard: Shard
    hosting: World
    """With a learner of its own: a guest's model is computed on while mine trains."""
    schema: Schema
    budget: Budget

    @classmethod
    def of(cls, setup: Setup, dataset: Dataset | None = None) -> Workshop:
        """As peer.toml says; what its state directory has settled stays as it is."""
        me = setup.who.name
        dataset, data = data_of(setup, dataset or load_data(setup.config))
        dataset = replace(dataset, pixels=dataset.pixels.to(setup.config.device))
        config = settled(RunDir.check(setup.state, setup.config), dataset)
        shard = make_shard(config, dataset, (me,), {me: data}, secret=True)
        learner = make_learner(config, dataset.shape, dataset.classes)
        return cls(
            me=me,
            config=config,
            shard=shard,
            hosting=replace(shard.world, learner=learner),
            schema=_schema(config, shard, dataset, setup.net.max_norm),
            budget=Budget.of(config, len(data.train)),
        )

    @cached_property
    def decider(self) -> Strategy:
        return self.config.decider

    @property
    def spec(self) -> CardSpec | None:
        """What goes onto cards; None: nothing."""
        return self.decider.card

    @property
    def peer(self) -> Peer:
        return self.shard.peers[self.me]

    @property
    def examples(self) -> int:
        return len(self.peer.data.train)

    def network(self, names: tuple[PeerId, ...]) -> Network:
        """Who neighbours whom, among the members of a roster."""
        topology = self.config.topology
        return Network(topology.instance, names, self.config.seed, topology.common.redraw)


def _schema(config: Config, shard: Shard, dataset: Dataset, max_norm: float) -> Schema:
    """What bodies must look like, found on this peer's own."""
    world, layout, spec = shard.world, shard.world.learner.layout, config.decider.card
    (peer,) = shard.peers.values()
    peer.trained.copy_(peer.start)
    masked = peer.rows.mask is not None
    common = {
        "classes": dataset.names or dataset.classes,
        "card": [spec.proxy, spec.sketch, *([spec.bits] if spec.bits < 32 else [])]
        if spec
        else None,
        "masked": masked,
        "seed": config.seed,
        **({"stepping": config.stepping} if config.stepping else {}),
    }
    return Schema(
        size=layout.size,
        masked=masked,
        sketch=peer.card_length(spec) if spec else 0,
        probe=len(world.sketcher(world.initial[layout.proxy], spec.sketch if spec else 0)),
        bits=spec.bits if spec else 32,
        digest=digest_of({slot.name: slot.shape for slot in layout.slots}, common),
        max_norm=max_norm,
    )
