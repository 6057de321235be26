"""From a config to peers: the module, the values that this machine has to choose, the groups, and
the shard."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from amity.config import SECTIONS, Config
from amity.core import Context, Fit, Fitted, PeerId, State
from amity.data import Dataset, deal
from amity.data.inputs import Shapes, blank, described, kind_of
from amity.data.samples import PeerData
from amity.data.target import Target
from amity.errors import ConfigError, StrategyError, brief
from amity.learn.feeding import fed
from amity.learn.freezing import freeze
from amity.learn.layout import layout_of
from amity.learn.learner import Learner, Precision, Recipe, native_bf16
from amity.learn.models import build_module
from amity.learn.stacked import Stack
from amity.learn.stepping import kept_of
from amity.learn.tensors import TYPES
from amity.learn.weights import load_weights
from amity.learn.work import multiplications
from amity.peer.attacks import NoAttack, attackers
from amity.peer.peer import Peer, World
from amity.peer.privacy import NoPrivacy, needs_opacus
from amity.peer.proxy import Sketcher
from amity.rng import rng
from amity.round.frozen import about_statistics, check_parts, make_room, spare
from amity.round.matrices import Matrices
from amity.round.shard import Shard
from amity.tasks import Task

TINY = 20_000
"""Parameters up to which stacking pays on a CPU: beyond, memory sets the pace and workers do
better."""
HEAVY = 50_000_000
"""Multiplications of a training step's forward pass from which bf16 pays: below, its casts cost
more than faster products bring."""
LARGEST_GROUP = 64


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside this block torch uses one thread. So the bits do not depend on the number of cores,
    and each process uses one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=4)
def _load_data(name: str, options: str, files: str, source: Any, task: Task) -> Dataset:
    dataset = task.load(source)
    for note in dataset.notes:
        logging.getLogger("amity").info("data: %s", note)
    return dataset


def load_data(config: Config) -> Dataset:
    """The dataset of a config, as its task wants it. It is kept in memory, so all runs of a process
    share it, until its files change."""
    options = config.data.options
    files = repr([_stamp(options.get(key)) for key in ("path", "schema")])
    said, task = repr(sorted(options.items())), config.task.instance
    return _load_data(config.data.name, said, files, config.data.instance, task)


def _stamp(path: Any) -> tuple[str, int, int] | None:
    """A file as it lies there now; None: there is none."""
    try:
        found = Path(path).stat()
    except (OSError, TypeError, ValueError):
        return None
    return str(Path(path).absolute()), found.st_mtime_ns, found.st_size


def deal_out(config: Config, dataset: Dataset, names: tuple[PeerId, ...]) -> dict[PeerId, PeerData]:
    """Every peer's examples in the world of a config, the same to the bit wherever it is dealt."""
    with one_thread():
        return deal(
            dataset,
            config.partition.instance,
            config.shift.instance,
            config.shift.common,
            names,
            config.seed,
        )


def make_learner(config: Config, shape: Shapes, target: Target) -> Learner:
    """The module of the config with its initial parameters, which are the same for all peers of a
    seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(config.seed, "model").integers(2**62)))
        model, layers = config.model, config.model.common
        module = build_module(model.label, model.instance, shape, target, own=bool(model.code))
    said = load_weights(module, layers.weights, partial=layers.weights_partial)
    freeze(module, layers.freeze)
    train, (now, *later) = config.train, ((at, _recipe(c)) for at, c in config.phases)
    recipe = replace(now[1], later=tuple(later))
    if recipe.augment and kind_of(shape) != "image":
        raise ConfigError(
            f"train.augment: crop_flip needs images, got {described(shape)}; use train.augment=none"
        )
    precision: Precision = "bf16" if train.precision == "bf16" else "fp32"
    layout, task = layout_of(module, layers.head, layers.proxy_layer), config.task.instance
    check_parts(config, layout)
    learner = Learner(module, layout, recipe, config.device, precision, task, target)
    learner.notes += [line for line in (said, about_statistics(layout)) if line]
    return learner


def _recipe(config: Config) -> Recipe:
    train = config.train
    return Recipe(
        lr=train.lr,
        lr_head=train.lr_head or train.lr,
        optimiser=config.optimiser.instance,
        batch=train.batch,
        clip=train.clip,
        decay=train.decay,
        schedule=config.schedule.instance,
        augment=train.augment == "crop_flip",
    )


def settled(config: Config, dataset: Dataset) -> Config:
    """The config with nothing left open. What was `auto` is chosen by rules that look at model,
    data and machine, never at the number of workers.

    - `engine.vectorise`: on for models of up to 20,000 parameters on a CPU and for all on an
      accelerator, where the model can be stacked (no dropout, no augmentation, no DP-SGD,
      operations that torch can batch).
    - `engine.group`: half of the peers, at most 64.
    - `train.precision`: bf16 where the device multiplies it natively and a training step is heavy
      (50 million multiplications forward), else fp32.
    """
    own, train = config.engine.common, config.train
    if own.vectorise == "off" and own.group and train.precision != "auto":
        return config
    learner = make_learner(config, dataset.shape, dataset.target)
    example = blank(dataset.shape, 1, learner.device)
    stacks = _stacks(config, learner, example)
    group = own.group or (min(LARGEST_GROUP, math.ceil(config.peers / 2)) if stacks else 1)
    precision = train.precision if train.precision != "auto" else _precision(learner, example)
    return config.replace(
        **{
            "engine.vectorise": "on" if stacks else "off",
            "engine.group": group,
            "train.precision": precision,
        }
    )


def _precision(learner: Learner, example: Any) -> Precision:
    """What is faster for this model, here."""
    if not native_bf16(learner.device):
        return "fp32"
    learner.mode(False)
    try:
        work = multiplications(learner.module, lambda: fed(learner.module, example))
    except Exception:  # anybody's module: what is wrong with it is said where it trains
        return "fp32"
    return "bf16" if work * learner.recipe.batch >= HEAVY else "fp32"


def _stacks(config: Config, learner: Learner, example: Any) -> bool:
    """Whether peers are trained in one stacked step."""
    asked = config.engine.common.vectorise
    pays = learner.layout.size <= TINY or learner.device.type != "cpu" or asked == "on"
    can = not config.privacy.instance.trains and asked != "off" and pays
    if can and Stack.suits(learner, example):
        return True
    if asked == "on":
        raise ConfigError(
            "engine.vectorise: this model cannot be stacked (dropout, augmentation,"
            " privacy=gradients, or operations that torch cannot batch); use engine.vectorise=off"
        )
    return False


def in_one_process(config: Config, *, vectorise: str, group: int) -> Config:
    """The same run, computed by this process alone."""
    here = {"name": SECTIONS["engine"].default, "workers": 1}
    return config.replace(engine={**here, "vectorise": vectorise, "group": group})


def units_of(config: Config, data: Mapping[PeerId, PeerData]) -> list[tuple[PeerId, ...]]:
    """Peers that train in one step: each alone, or groups of peers with about the same number of
    examples."""
    if config.engine.common.vectorise != "on":
        return [(name,) for name in data]
    ranked = sorted(data, key=lambda name: (-len(data[name].train), name))
    size = config.engine.common.group
    return [tuple(ranked[at : at + size]) for at in range(0, len(ranked), size)]


def bad_peers(config: Config, names: tuple[PeerId, ...]) -> frozenset[PeerId]:
    """Who attacks, among all peers of a run."""
    if config.attack.instance.harmless:
        return frozenset()
    bad = attackers(names, config.attack.common.fraction, config.seed)
    if len(bad) == len(names):
        raise ConfigError(
            f"attack.fraction: {config.attack.common.fraction:g} leaves no honest peer; use less"
        )
    return bad


def make_shard(
    config: Config,
    dataset: Dataset,
    names: tuple[PeerId, ...],
    data: Mapping[PeerId, PeerData],
    shared: bool = False,
    *,
    everyone: tuple[PeerId, ...] = (),
    secret: bool = False,
) -> Shard:
    """These peers (of `everyone`) before their first round."""
    needs_opacus(config.privacy.instance)
    learner = make_learner(config, dataset.shape, dataset.target)
    spare(learner, config, dataset)
    wrong = partial(learner.task.wrong, target=learner.target)
    bad, attack = bad_peers(config, everyone or names), config.attack.instance
    data = {
        name: replace(mine, train=attack.data(mine.train, wrong)) if name in bad else mine
        for name, mine in data.items()
    }
    world = World(
        seed=config.seed,
        rounds=config.rounds,
        method=config.method.instance,
        learner=learner,
        sketcher=Sketcher(config.seed),
        initial=learner.initial(),
        epochs=config.train.epochs,
        epochs_head=config.train.epochs_head,
        later=tuple((at, (c.train.epochs, c.train.epochs_head)) for at, c in config.phases[1:]),
        extended=config.extended,
        fact_examples=config.facts.examples,
        privacy=config.privacy.instance,
        mixer=config.mixer.instance,
        attack=attack,
        attackers=bad,
        judged=config.stop.patience > 0,
        secret=secret,
    )
    stack = Stack(learner) if config.engine.common.vectorise == "on" else None
    keep = config.train.keep
    shard = _shard_of(world, names, data, stack, shared=shared, keep=keep)
    if config.eval.shadow:
        alone = replace(world, privacy=NoPrivacy(), attack=NoAttack(), attackers=frozenset())
        shard.cast(_shard_of(alone, names, data, stack, shared=shared, keep=keep))
    for peer in shard.peers.values():
        peer.reset()
    make_room(shard, config.engine.common.cache)
    for note in learner.notes:
        logging.getLogger("amity").warning("%s", note)
    return shard


def _shard_of(
    world: World,
    names: tuple[PeerId, ...],
    data: Mapping[PeerId, PeerData],
    stack: Stack | None,
    *,
    shared: bool,
    keep: bool,
) -> Shard:
    """These peers, with rows for their vectors, and for what optimisers `keep`."""
    ctx = _before(world, names[0], data[names[0]])
    state, share, mask = _slots(world, ctx)
    matrices = Matrices(
        names,
        world.learner.layout.size,
        state,
        share,
        mask,
        device=world.learner.device,
        shared=shared,
        moments=_moments(world, state, ctx) if keep else {},
    )
    peers = {name: Peer(name, data[name], world, matrices.rows(name)) for name in names}
    return Shard(world, peers, matrices, stack)


def _before(world: World, name: PeerId, data: PeerData) -> Context:
    """A peer before its first round."""
    return Context(
        learner=world.learner,
        train=data.train,
        rng=rng(world.seed, "init", 0, name),
        epochs=world.epochs,
        epochs_head=world.epochs_head,
        round=0,
        rounds=world.horizon(0),
        seed=world.seed,
        purpose="init",
    )


def _moments(world: World, state: State, ctx: Context) -> dict[str, int]:
    """What the optimiser keeps of each fit that a round's training asks for, and how long it is.
    The method is run with fits that train nothing."""
    learner, theta, parts = world.learner, world.initial, list[slice]()
    try:
        training = world.method.train(state, theta, ctx)
        request = next(training)
        while True:
            if isinstance(request, Fit):
                parts.append(request.part or learner.layout.everything)
            request = training.send(Fitted(request.theta.clone(), 0.0))
    except StopIteration:
        kept = [kept_of(learner.recipe.optimiser, learner.layout, part) for part in parts]
    except Exception as error:  # anybody's method
        raise StrategyError(
            f"method {type(world.method).__name__}: its training cannot be tried out, as train.keep"
            f" needs it ({brief(error)}); use train.keep=false"
        ) from error
    return {f"{at}.{name}": length for at, one in enumerate(kept) for name, length in one.items()}


def _slots(
    world: World, ctx: Context
) -> tuple[Mapping[str, torch.Tensor], torch.Tensor | None, torch.Tensor | None]:
    """What a method keeps and offers, read from its first state and share."""
    theta, method = world.initial, world.method
    state = method.init(theta, ctx)
    for key, value in state.items():
        if value.shape != theta.shape or value.dtype not in TYPES or "/" in key:
            raise StrategyError(
                f"method {type(method).__name__}: state {key!r} must be a vector of {len(theta)}"
                f" numbers ({', '.join(map(str, TYPES))}) and its name have no '/', got"
                f" {tuple(value.shape)} of {value.dtype}"
            )
    share = method.share(state, theta, ctx)
    plain = share.mask is None and share.theta.data_ptr() == theta.data_ptr()
    plain = (
        plain and not world.privacy.uploads and not (world.attackers and world.attack.fakes_models)
    )
    return state, None if plain else share.theta, share.mask
