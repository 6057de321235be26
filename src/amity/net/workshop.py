"""What a peer computes with: the same as a simulated peer has, and a learner more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amity.config import Change, Config
from amity.core import PeerId, Strategy
from amity.data import Dataset
from amity.data.schema import Schema
from amity.learn.freezing import digest_of
from amity.net.setup import Setup, data_of
from amity.net.sums.fitting import check_masked
from amity.net.wire import Terms, WireSchema
from amity.peer.peer import Peer, World
from amity.peer.proxy import CardSpec
from amity.round.build import load_data, make_learner, make_shard, settled
from amity.round.frozen import spare
from amity.round.shard import Shard
from amity.round.spending import Budget
from amity.store import RunDir
from amity.topology import Discover, Network


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """One peer's config, data and models."""

    me: PeerId
    config: Config
    shard: Shard
    hosting: World
    """With a learner of its own: a guest's model is computed on while mine trains."""
    schema: WireSchema
    terms: Terms
    """What all members must have in common: `schema.digest` in words."""
    meaning: Schema | None
    """Of own data, with its statistics; None: this is a published dataset."""
    budget: Budget

    @classmethod
    def of(cls, setup: Setup, dataset: Dataset | None = None) -> Workshop:
        """As peer.toml says; what its state directory has settled stays as it is."""
        me = setup.who.name
        dataset, data = data_of(setup, dataset or load_data(setup.config))
        dataset = replace(dataset, pixels=dataset.pixels.to(setup.config.device))
        config = settled(RunDir.check(setup.state, setup.config, "peer", extend=True), dataset)
        shard = make_shard(config, dataset, (me,), {me: data}, secret=True)
        learner = make_learner(config, dataset.shape, dataset.target)
        spare(learner, config, dataset)
        terms = _terms(config, shard, dataset)
        check_masked(config, setup.net, terms.masked)
        rule = config.topology.instance
        if isinstance(rule, Discover):
            terms = replace(terms, finding=f"{rule.cards} cards, {rule.passed} at random")
        if setup.net.masked:
            terms = replace(terms, sums=f"{setup.net.crowd} or more")
        return cls(
            me=me,
            config=config,
            shard=shard,
            hosting=replace(shard.world, learner=learner),
            schema=_schema(config, shard, terms),
            terms=terms,
            meaning=dataset.schema if dataset.form is not None else None,
            budget=Budget.of(config, len(data.train)),
        )

    def decider(self, round: int) -> Strategy:
        """What decides in a round."""
        return self.config.at(round).decider

    def spec(self, round: int) -> CardSpec | None:
        """What goes onto the cards of a round; None: nothing."""
        return self.decider(round).card

    @property
    def peer(self) -> Peer:
        return self.shard.peers[self.me]

    @property
    def norm(self) -> float:
        """Of my model, before or after this round's training, whichever is larger."""
        return max(float(theta.norm()) for theta in (self.peer.start, self.peer.trained))

    @property
    def examples(self) -> int:
        return len(self.peer.data.train)

    def network(self, names: tuple[PeerId, ...]) -> Network:
        """Who neighbours whom, among the members of a roster."""
        topology = self.config.topology
        return Network(topology.instance, names, self.config.seed, topology.common.redraw)


def _terms(config: Config, shard: Shard, dataset: Dataset) -> Terms:
    """What all members must have in common, found on this peer's own."""
    (peer,) = shard.peers.values()
    learner, layout = shard.world.learner, shard.world.learner.layout
    cards = [_shown(phase.decider.card) for _, phase in config.phases]
    planned = zip(config.changes, config.phases[1:], cards[1:], strict=True)
    return Terms(
        data=dataset.schema.common,
        model=tuple((s.name, tuple(s.shape)) for s in (*layout.statistics, *layout.slots)),
        seed=config.seed,
        card=cards[0],
        masked=peer.rows.mask is not None,
        stepping=config.stepping,
        task=config.learnt,
        frozen=digest_of(learner.alike()),
        weights=config.weights_digest,
        changes=tuple((c.start, _said(c, phase), card) for c, (_, phase), card in planned),
    )


def _shown(spec: CardSpec | None) -> tuple[str | int, ...] | None:
    """What cards show, as members compare it."""
    if spec is None:
        return None
    return (spec.proxy, spec.sketch, *([spec.bits] if spec.bits < 32 else []))


def _said(change: Change, phase: Config) -> str:
    """A planned change in words. A class of one's own goes by its name and its code, wherever its
    file lies."""
    said = str(change)
    for pick in (phase.strategy, *phase.stages):
        if pick.code:
            said = said.replace(pick.name, f"{pick.label} ({pick.code[:12]})")
    return said


def _schema(config: Config, shard: Shard, terms: Terms) -> WireSchema:
    """What bodies must look like, found on this peer's own, from each planned change on."""
    (peer,) = shard.peers.values()
    peer.trained.copy_(peer.start)
    rule = config.topology.instance

    def of(start: int, spec: CardSpec | None) -> WireSchema:
        world, layout = shard.world, shard.world.learner.layout
        return WireSchema(
            size=layout.size,
            masked=peer.rows.mask is not None,
            sketch=peer.card_length(spec) if spec else 0,
            probe=len(world.sketcher(world.initial[layout.proxy], spec.sketch if spec else 0)),
            bits=spec.bits if spec else 32,
            handed=rule.cards + 1 if isinstance(rule, Discover) else 0,
            digest=terms.digest_at(start),
        )

    first, *later = ((start, of(start, phase.decider.card)) for start, phase in config.phases)
    return replace(first[1], later=tuple(later))
