"""The frozen part of a model in a run: what it must leave to train, what is said of it, and what of
it is computed once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from amity.config import Config
from amity.data import Dataset
from amity.data.samples import Samples
from amity.errors import ConfigError
from amity.learn.layout import Layout
from amity.learn.learner import Learner
from amity.learn.prefix import TRIED
from amity.round.shard import Shard

MB = 1_000_000


def check_parts(config: Config, layout: Layout) -> None:
    """Refuse a model of which nothing is trained that the method, the cards or privacy need."""
    method, split = config.method, getattr(config.method.instance, "splits", False)
    if split and layout.head.start == layout.head.stop:
        raise ConfigError(
            f"method {method.label}: keeps the head, and all of it ({layout.head_name}) is frozen;"
            " leave it out of model.freeze, name another by model.head=LAYER, or use"
            " method=finetune"
        )
    if split and layout.body.start == layout.body.stop:
        raise ConfigError(
            f"method {method.label}: shares the body, of which nothing is trained, so peers would"
            " exchange nothing; use method=finetune, or freeze less"
        )
    card = config.decider.card
    if card is not None and card.kind.of_head and layout.head.start == layout.head.stop:
        raise ConfigError(
            f"proxy {card.proxy}: shows the head, and all of it ({layout.head_name}) is frozen, so"
            " cards would be empty; leave it out of model.freeze, name another by model.head=LAYER,"
            " or use a proxy of the whole model (update, model_drift)"
        )
    privacy = config.privacy.instance
    if layout.statistics and (privacy.trains or privacy.uploads):
        raise ConfigError(
            f"privacy {config.privacy.label}: BatchNorm's statistics ({layout.statistics[0].name})"
            " look at examples that no noise protects; use GroupNorm, or freeze these layers"
        )


def about_statistics(layout: Layout) -> str:
    """BatchNorm's trap in a line; empty where there is none."""
    if not layout.statistics:
        return ""
    count = len({slot.name.rpartition(".")[0] for slot in layout.statistics})
    return (
        f"model: {count} normalisation layer{'s gather' if count > 1 else ' gathers'} running"
        " statistics (BatchNorm); they travel and are averaged with the weights, which fits no peer"
        " whose inputs differ from the others': GroupNorm has no such trap (docs/MODELS.md)"
    )


def spare(learner: Learner, config: Config, dataset: Dataset) -> None:
    """What lies below the first layer that is trained is computed once, where that is exact."""
    limit = config.engine.common.cache * MB
    if not learner.layout.frozen or not limit:
        return
    index = torch.arange(TRIED) % max(1, len(dataset.pixels.y))
    learner.spare(dataset.pixels.batch(index.to(learner.device))[0], limit)


def make_room(shard: Shard, megabytes: int) -> None:
    """Room for what the frozen part makes of every peer's examples, and a line if that does not
    suffice."""
    learner, memory = shard.world.learner, shard.world.learner.memory
    if memory is None:
        return
    each = memory.prefix.nbytes
    large = [n for n, peer in shard.peers.items() if not memory.fits(len(peer.data.train))]
    without = memory.keep(_examples(shard))
    needed = math.ceil(sum(len(data) for data in _examples(shard)) * each / MB)
    if large:
        learner.notes.append(
            f"engine.cache: the frozen part's outputs for {large[0]}'s examples do not fit into"
            f" {megabytes} MB ({len(large)} such peers, {each:,} bytes an example), so it computes"
            f" them in every epoch; engine.cache={needed} would keep all"
        )
    elif without:
        learner.notes.append(
            f"engine.cache: {megabytes} MB do not hold what the frozen part makes of all examples;"
            f" some is computed in every round, not in every epoch; engine.cache={needed} would"
            " keep all"
        )


def _examples(shard: Shard) -> Iterator[Samples]:
    """What peers train and measure on: first what they train on, for all."""
    peers = shard.peers.values()
    yield from (peer.data.train for peer in peers)
    yield from (peer.data.test for peer in peers)
    yield from (peer.data.validation for peer in peers)
    for peer in peers:
        yield peer.probe_data
        yield peer.examples("validation")
