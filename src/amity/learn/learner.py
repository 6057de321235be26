"""Local training and evaluation: the hot path.

One module serves all peers of a process. What is trained of it are views of one flat vector, so
loading a peer is one copy and nothing is ever deep-copied; what is frozen is there once. What lies
below the first layer that is trained need not be computed again and again (`learn/outputs.py`).
Convolutions run in channels_last; in `bf16` all passes run under autocast, while parameters,
gradients of parameters and optimiser stay in fp32.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from amity.core import Fitted, Moments, in_force
from amity.data.inputs import Several, are_ids, each, pieces
from amity.data.samples import CHUNK, Samples
from amity.data.target import Target
from amity.learn.clipping import agree, by_functions, by_layers
from amity.learn.feeding import channels_last, fed
from amity.learn.freezing import counters_of, frozen_of, resting
from amity.learn.layout import Layout, Slot
from amity.learn.optimisers import Optimiser
from amity.learn.outputs import Outputs, Recalled
from amity.learn.prefix import TRIED, prefix_of
from amity.learn.schedules import Schedule
from amity.learn.schedules.constant import ConstantRate
from amity.learn.stepping import Kept, Stepper, forget_outside
from amity.tasks import Score, Task
from amity.tasks.classify import Classify

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How local training steps."""

    lr: float
    lr_head: float
    optimiser: Optimiser
    batch: int
    clip: float
    decay: float = 1.0
    schedule: Schedule = field(default_factory=ConstantRate)
    augment: bool = False
    later: tuple[tuple[int, Recipe], ...] = ()
    """From which round on which recipe holds instead. Batch and augmentation never change."""

    def at(self, round: int) -> Recipe:
        """What holds in a round."""
        return in_force(self, self.later, round)

    def scale(self, round: int, rounds: int) -> float:
        """The factor on the learning rates in a round; outside of a run (`rounds` = 0) they are
        whole."""
        decayed = self.decay**round
        return decayed * self.schedule.at(round, rounds) if rounds else decayed


@dataclass(frozen=True)
class DpSgd:
    """DP-SGD: every example's gradient is clipped to `clip` (0: not at all), the sum gets noise of
    `sigma` · `clip`."""

    sigma: float
    clip: float
    steps: int | None = None
    """At most so many steps; None: any number."""


@dataclass(frozen=True)
class Bounds:
    """What holds a fit back: it is drawn to an `anchor` by `pull`, and 0 outside of a `mask`."""

    anchor: torch.Tensor | None = None
    pull: float = 0.0
    mask: torch.Tensor | None = None


FREE = Bounds()


def native_bf16(device: torch.device) -> bool:
    """Whether this device multiplies bf16 faster than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported")
    return device.type == "cpu" and any(bool(getattr(torch.cpu, check, bool)()) for check in checks)


class Learner:
    """Runs one module for every peer of this process, and counts what that costs in examples."""

    def __init__(
        self,
        module: nn.Module,
        layout: Layout,
        recipe: Recipe,
        device: str = "cpu",
        precision: Precision = "fp32",
        task: Task | None = None,
        target: Target | None = None,
    ) -> None:
        """Without a `task` it classifies."""
        self.task, self.target = task or Classify(), target or Target(0)
        self.module, self.layout, self.recipe, self.precision = (
            module.to(device),
            layout,
            recipe,
            precision,
        )
        self.device = torch.device(device)
        self.flat = torch.zeros(layout.size, device=self.device)
        self.forward_examples = 0
        self.backward_examples = 0
        self.steps = 0
        """Gradient steps so far, of all peers."""
        self.private_steps = 0
        """Those among them that looked at data by way of DP-SGD."""
        self._named = dict(self.module.named_parameters())
        self._images = [slot for slot in layout.slots if len(slot.shape) == 4]
        for slot in layout.slots:
            view = self._inside(self.flat, slot)
            view.copy_(self._named[slot.name].data)
            self._named[slot.name].data = view
        for name in layout.frozen:
            self._named[name].data = channels_last(self._named[name].data)
        self._resting = resting(module)
        self._norms = _gather_into(self.module, layout, self.flat)
        self._counters = [(count, count.clone()) for count in counters_of(self.module)]
        self.memory: Outputs | None = None
        """What is known of the frozen part's outputs; None: they are computed with the rest."""
        self.reuses = True
        """Whether a fit of the head alone computes what lies below it once, and not in every step;
        `amity bench` measures what that saves."""
        self.notes: list[str] = []
        """What users should know of this model, in lines."""
        self._features: torch.Tensor | None = None
        self._logits: torch.Tensor | None = None
        self._version = 0
        self._draws: bool | None = None
        self._by_layers: dict[frozenset[str], bool] = {}
        """Whether per-example gradients of these parameters can be had the fast way."""
        heads = [part for name in layout.heads for part in _called(module.get_submodule(name))]
        self.head, self._one_head = heads[0], len(heads) == 1
        for part in heads:
            part.register_forward_hook(self._catch)

    # -- theta in and out: outside, a convolution's weights stand as (out, in, h, w), inside as
    # (out, h, w, in) --------

    def _inside(self, flat: torch.Tensor, slot: Slot) -> torch.Tensor:
        part = flat[slot.start : slot.start + slot.numel]
        if slot in self._images:
            out, channels, height, width = slot.shape
            return part.view(out, height, width, channels).permute(0, 3, 1, 2)
        return part.view(slot.shape)

    def _load(self, theta: torch.Tensor, part: slice | None) -> None:
        """Put theta in, with gradients only for `part` (None: for nothing)."""
        self.flat.copy_(theta)
        for slot in self._images:
            self._inside(self.flat, slot).copy_(slot.of(theta))
        for slot in self.layout.slots:
            parameter = self._named[slot.name]
            parameter.requires_grad_(part is not None and part.start <= slot.start < part.stop)
            parameter.grad = None
        for count, before in self._counters:
            count.copy_(before)

    def mode(self, training: bool, still: bool = False) -> None:
        """Train, or be used. What is frozen is always used as it is; with `still`, statistics stay
        too."""
        self.module.train(training)
        for part in self._resting:
            part.eval()
        for layer in self._norms if still else ():
            layer.eval()

    def _theta(self) -> torch.Tensor:
        """What is inside, as theta."""
        theta = self.flat.clone()
        for slot in self._images:
            slot.of(theta).copy_(self._inside(self.flat, slot))
        return theta

    def complete(self, theta: torch.Tensor) -> dict[str, torch.Tensor]:
        """A whole model by name: theta, and what all peers have alike."""
        slots = (*self.layout.slots, *self.layout.statistics)
        alike = {n: t.detach().cpu().contiguous() for n, t in self.alike().items()}
        return {slot.name: slot.of(theta).clone() for slot in slots} | alike

    def alike(self) -> dict[str, torch.Tensor]:
        """What all peers have alike: what is frozen, and buffers that never move."""
        return frozen_of(self.module, self.layout)

    def initial(self) -> torch.Tensor:
        """The parameters that the module was built with (call it before anything is loaded)."""
        return self._theta()

    # -- passes ------------------------------------------------------------------------------------

    def _catch(
        self, _module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        self._features, self._logits, self._version = inputs[0], output, output._version

    def forget(self) -> None:
        """Let go of what the last pass left behind."""
        self._features = self._logits = None

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def _pass(self, x: Any) -> torch.Tensor:
        """What the module says, in its own precision."""
        if isinstance(x, Recalled) and self.memory is not None:
            with self.memory.prefix.given(x.outputs), self.autocast():
                return fed(self.module, x.x)
        x = each(x, channels_last)
        with self.autocast():
            return fed(self.module, x)

    def _forward(self, x: Any) -> torch.Tensor:
        return self._pass(x).float()

    def spare(self, x: Any, limit: int) -> None:
        """From now on leave out what the frozen part makes of examples, where it is known: at most
        `limit` bytes of that are kept. The module is tried on some examples."""
        if not self.layout.frozen or not limit or len(x) < TRIED:
            return
        before = self._theta()
        with _seeded(0):
            self._load(before, self.layout.everything)
            made = each(x, lambda part: part if are_ids(part) else part + torch.randn_like(part))
            prefix = prefix_of(self.module, made, self._forward, self.mode, self._stirred)
        self._load(before, None)
        self.forget()
        self.memory = None if prefix is None else Outputs(prefix, limit)

    @contextmanager
    def _stirred(self) -> Iterator[None]:
        """Inside, everything that is trained has other values."""
        before = self.flat.clone()
        with torch.no_grad():
            self.flat.add_(torch.rand(self.flat.shape).to(self.device))
        yield
        with torch.no_grad():
            self.flat.copy_(before)

    def chunks(self, data: Samples) -> Iterator[tuple[Any, torch.Tensor]]:
        """All examples, a few at a time, where nothing is trained."""
        return data.chunks() if self.memory is None else self.memory.chunks(data)

    def costs(self) -> tuple[int, int]:
        """Forward and backward examples so far; the difference of two calls is what lay between
        them."""
        return self.forward_examples, self.backward_examples

    def fit(
        self,
        theta: torch.Tensor,
        data: Samples,
        rng: np.random.Generator,
        epochs: int,
        part: slice | None = None,
        round: int = 0,
        bounds: Bounds = FREE,
        noise: DpSgd | None = None,
        batch: int | None = None,
        rounds: int = 0,
        moments: Moments | None = None,
    ) -> Fitted:
        """`epochs` epochs of training on `part` of theta (None: all of it), or with `noise` of
        DP-SGD. Returns the new theta and the mean loss of the last epoch. Everything outside `part`
        comes back bit-identical. The optimiser goes on from `moments`, which it writes anew in
        place; None: it begins afresh."""
        part = part or self.layout.everything
        spent = noise is not None and noise.steps == 0
        if epochs == 0 or len(data) == 0 or part.start == part.stop or spent:
            return Fitted(theta.clone(), float("nan"))
        chance = self._by_chance(data)
        self._load(theta, part)
        at_head = part.start >= self.layout.head.start
        self.mode(True, still=at_head)
        recipe, plain = self.recipe.at(round), noise is None and not self.recipe.augment
        course = _Fitting(
            data=data,
            part=part,
            rng=rng,
            noise=noise,
            cached=self._cached_features(data) if at_head and noise is None else None,
            outputs=self.memory.of(data) if self.memory is not None and plain else None,
            optimiser=self._optimiser(part, recipe, recipe.scale(round, rounds), moments),
            clip=recipe.clip,
            hold=_Hold(self, part, bounds),
            batch=batch or recipe.batch,
        )
        mean, seed = float("nan"), int(rng.integers(2**62))
        with _seeded(seed) if chance else nullcontext():
            for _ in range(epochs):
                loss = self._epoch(course)
                mean = mean if loss is None else loss
        if moments is not None:
            course.optimiser.keep()
            forget_outside(moments, bounds.mask, self.layout.span(part))
        self.steps += course.done
        self.private_steps += course.done if noise is not None else 0
        return Fitted(self._theta(), mean)

    def _epoch(self, course: _Fitting) -> float | None:
        """One epoch, or what the noise's steps have room for; its mean loss, None if there was no
        example."""
        losses, examples = [], 0
        private, count = course.noise is not None, len(course.data)
        for chosen in self._batches(count, course.rng, private=private, batch=course.batch):
            if course.spent:
                break
            losses.append(self._descend(course, chosen))
            course.hold.before_step()
            course.optimiser.step()
            course.hold.after_step()
            course.done, examples = course.done + 1, examples + len(chosen)
        self.forward_examples += examples
        self.backward_examples += examples
        return float(torch.stack(losses).sum()) / examples if examples else None

    def _descend(self, course: _Fitting, chosen: torch.Tensor) -> torch.Tensor:
        """Leave the gradient of a batch at the parameters; returns the sum of its losses."""
        if course.noise is not None:
            return self._private_gradient(
                course.data, chosen, course.part, course.rng, course.noise
            )
        loss = self._batch_loss(course, chosen)
        torch.autograd.backward(loss)
        if course.clip:
            nn.utils.clip_grad_norm_(self._trained_parameters(course.part), course.clip)
        return loss.detach() * len(chosen)

    def _batches(
        self, count: int, rng: np.random.Generator, *, private: bool, batch: int
    ) -> Iterator[torch.Tensor]:
        """An epoch: all examples in random order; or for DP-SGD as many batches, each with every
        example by chance."""
        if not private:
            yield from torch.split(torch.from_numpy(rng.permutation(count)), batch)
            return
        for _ in range(math.ceil(count / batch)):
            yield torch.from_numpy(np.flatnonzero(rng.random(count) < batch / count))

    def _private_gradient(
        self,
        data: Samples,
        chosen: torch.Tensor,
        part: slice,
        rng: np.random.Generator,
        noise: DpSgd,
    ) -> torch.Tensor:
        """Leave (Σ clipped gradients + noise) / L at the parameters; returns the sum of losses."""
        lot = min(self.recipe.batch, len(data))
        slots = self.layout.within(part)
        trained = {slot.name: self._named[slot.name] for slot in slots}
        total = {name: torch.zeros_like(parameter) for name, parameter in trained.items()}
        losses = torch.zeros(1, device=self.device)
        if len(chosen):
            x, y = data.pixels.batch(data.index[chosen], rng if self.recipe.augment else None)
            found = (
                by_layers(self.module, trained, self._forward, self._losses, x, y, noise.clip)
                if self._fast(trained, x, y)
                else None
            )
            total, losses = found or by_functions(
                self.module, trained, self._losses, x, y, noise.clip
            )
        std = noise.sigma * noise.clip
        drawn = (
            torch.from_numpy(rng.standard_normal(part.stop - part.start, dtype=np.float32))
            if std
            else None
        )
        for slot in slots:
            grad = torch.empty_like(trained[slot.name]).copy_(total[slot.name])
            if drawn is not None:
                at = slot.start - part.start
                grad.add_(drawn[at : at + slot.numel].view(slot.shape).to(self.device), alpha=std)
            trained[slot.name].grad = grad.div_(lot)
        return losses.sum()

    def _fast(self, trained: dict[str, nn.Parameter], like: Any, answers: torch.Tensor) -> bool:
        """Whether the fast way is right for this module: tried once, on three made-up examples.
        Tokens and several inputs go the plain way."""
        names = frozenset(trained)
        if isinstance(like, Several) or are_ids(like):
            return False
        if names not in self._by_layers:
            was = self.module.training
            self.mode(False)
            made = np.random.default_rng(0).standard_normal((3, *like.shape[1:]), dtype=np.float32)
            x, y = torch.from_numpy(made).to(self.device), answers[torch.arange(3) % len(answers)]
            self._by_layers[names] = agree(self.module, trained, self._forward, self._losses, x, y)
            self.mode(was)
        return self._by_layers[names]

    def slope(
        self, theta: torch.Tensor, data: Samples, rng: np.random.Generator, noise: DpSgd | None
    ) -> Fitted:
        """The gradient at theta on one random batch, and its loss; with `noise` as a step of DP-SGD
        would see it."""
        if noise is None:
            chosen = torch.from_numpy(rng.permutation(len(data))[: self.recipe.batch])
            return Fitted(*self.gradient(theta, Samples(data.pixels, data.index[chosen])))
        if noise.steps == 0 or len(data) == 0:
            return Fitted(torch.zeros_like(theta), float("nan"))
        whole = self.layout.everything
        self._load(theta, whole)
        self.mode(False)
        chosen = next(self._batches(len(data), rng, private=True, batch=self.recipe.batch))
        loss = float(self._private_gradient(data, chosen, whole, rng, noise)) / max(len(chosen), 1)
        self.private_steps += 1
        self.forward_examples += len(chosen)
        self.backward_examples += len(chosen)
        return Fitted(self._collected(1), loss)

    def _collected(self, count: int) -> torch.Tensor:
        """The parameters' gradients as one vector, divided by a number."""
        gradient = torch.zeros_like(self.flat)
        for slot in self.layout.slots:
            grad = self._named[slot.name].grad
            if grad is not None:
                torch.div(grad, count, out=slot.of(gradient))
        return gradient

    def _batch_loss(self, course: _Fitting, chosen: torch.Tensor) -> torch.Tensor:
        if course.cached is None:
            x, y = self._batch(course, chosen)
            return self.task.loss(self._forward(x), y, self.target)
        with self.autocast():
            z = self.head(course.cached[chosen])
        y = course.data.pixels.y[course.data.index[chosen]]
        return self.task.loss(z.float(), y, self.target)

    def _batch(self, course: _Fitting, chosen: torch.Tensor) -> tuple[Any, torch.Tensor]:
        data = course.data
        if course.outputs is not None and self.memory is not None:
            return self.memory.recalled(data, chosen, course.outputs)
        return data.pixels.batch(data.index[chosen], course.rng if self.recipe.augment else None)

    @torch.no_grad()
    def _cached_features(self, data: Samples) -> torch.Tensor | None:
        """What the frozen body hands to the head; None where that depends on chance or on the rest
        of the batch, or where the head is not the module's last word."""
        by_batch = any(
            isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is None
            for m in self.module.modules()
        )
        varies = self.recipe.augment or by_batch or self._by_chance(data)
        if varies or not self._one_head or not self.reuses:
            return None
        parts = []
        for x, _ in self.chunks(data):
            output = self._pass(x)
            if (
                self._features is None
                or output is not self._logits
                or self._version != output._version
            ):
                return None
            parts.append(self._features)
        return torch.cat(parts)

    @torch.no_grad()
    def _by_chance(self, data: Samples) -> bool:
        """Whether the module draws from torch's own generator while it trains (dropout). There is
        one such generator for all threads, so those that draw take turns, and those that do not
        leave it alone."""
        if self._draws is None:
            with _CHANCE:
                self.mode(True)
                before, flat = torch.get_rng_state(), self.flat.clone()
                self._pass(data.pixels.batch(data.index[:2])[0])
                self._draws = not torch.equal(before, torch.get_rng_state())
                torch.set_rng_state(before)
                self.flat.copy_(flat)  # a pass moves statistics
        return self._draws

    def _trained_parameters(self, part: slice) -> list[nn.Parameter]:
        return [self._named[slot.name] for slot in self.layout.within(part)]

    def _optimiser(
        self, part: slice, recipe: Recipe, scale: float, moments: Moments | None
    ) -> Stepper:
        """With a learning rate for the head and one for the rest."""
        border, kept = self.layout.head.start, None
        if moments is not None:
            own = zip(self._trained_parameters(part), self.layout.spread(part), strict=True)
            kept = Kept(moments, dict(own))
        if recipe.lr == recipe.lr_head:
            groups = [(self._trained_parameters(part), recipe.lr * scale)]
        else:
            body = self._trained_parameters(slice(part.start, min(part.stop, border)))
            head = self._trained_parameters(slice(max(part.start, border), part.stop))
            groups = [(body, recipe.lr * scale), (head, recipe.lr_head * scale)]
        return Stepper(recipe.optimiser, groups, kept)

    def gradient(
        self, theta: torch.Tensor, data: Samples, part: slice | None = None
    ) -> tuple[torch.Tensor, float]:
        """The gradient of the mean loss over all of `data` with respect to `part` (None: to theta),
        and that loss. Nothing is trained."""
        part = part or slice(0, self.layout.size)
        self._load(theta, part)
        self.mode(False)
        total = 0.0
        for x, y in self.chunks(data):
            loss = self.task.total(self._forward(x), y, self.target)
            torch.autograd.backward(loss)
            total += float(loss.detach())
        self.forward_examples += len(data)
        self.backward_examples += len(data)
        count = max(len(data), 1)
        return self._collected(count)[part], total / count

    @torch.no_grad()
    def loss(self, theta: torch.Tensor, data: Samples) -> float:
        """Mean loss of theta on `data`, in evaluation mode."""
        self._load(theta, None)
        self.mode(False)
        total = sum(
            float(self.task.total(self._forward(x), y, self.target)) for x, y in self.chunks(data)
        )
        self.forward_examples += len(data)
        return total / max(len(data), 1)

    @torch.no_grad()
    def mean_feature(self, theta: torch.Tensor, data: Samples) -> torch.Tensor:
        """The mean of what the body hands to the head."""
        self._load(theta, None)
        self.mode(False)
        sums: list[torch.Tensor] = []
        for x, _ in self.chunks(data):
            self._forward(x)
            if self._features is not None:
                sums.append(self._features.float().flatten(1).sum(0))
        self.forward_examples += len(data)
        return torch.stack(sums).sum(0) / max(len(data), 1)

    @torch.no_grad()
    def score(self, theta: torch.Tensor, data: Samples, whole: bool = True) -> Score:
        """Metrics and loss on `data`: measurement, so it is not counted as a cost. Not `whole`:
        the leading metric is enough."""
        return self.task.score(self.tested(theta, data), data.answers, self.target, whole)

    @torch.no_grad()
    def tested(self, theta: torch.Tensor, data: Samples) -> torch.Tensor:
        """What the model gives for `data`, as it is measured."""
        self._load(theta, None)
        self.mode(False)
        return torch.cat([self._forward(x) for x, _ in self.chunks(data)])

    @torch.no_grad()
    def outputs(self, theta: torch.Tensor, x: Any) -> torch.Tensor:
        """What the model gives for normalised inputs."""
        self._load(theta, None)
        self.mode(False)
        return torch.cat([self._forward(part) for part in pieces(x, CHUNK)])

    def answers(self, theta: torch.Tensor, x: Any) -> torch.Tensor:
        """What it predicts for them: probabilities, or numbers in their own unit."""
        return self.task.answers(self.outputs(theta, x), self.target)

    def _losses(self, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.task.losses(z, y, self.target)


@dataclass(kw_only=True)
class _Fitting:
    """One fit on its way."""

    data: Samples
    part: slice
    rng: np.random.Generator
    noise: DpSgd | None
    cached: torch.Tensor | None
    """What the body hands to the head, where only the head is trained."""
    outputs: list[torch.Tensor] | None
    """What the frozen part makes of the examples, where that is known."""
    optimiser: Stepper
    hold: _Hold
    batch: int
    clip: float
    done: int = 0
    """Steps so far."""

    @property
    def spent(self) -> bool:
        """Whether the noise has room for no further step."""
        limit = None if self.noise is None else self.noise.steps
        return limit is not None and self.done >= limit


class _Hold:
    """Bounds, as they act on the parameters of a learner."""

    def __init__(self, learner: Learner, part: slice, bounds: Bounds) -> None:
        slots = learner.layout.within(part)
        self._parameters = [learner._named[slot.name] for slot in slots]
        self._pull = bounds.pull if bounds.anchor is not None else 0.0
        self._anchors = (
            [slot.of(bounds.anchor) for slot in slots]
            if self._pull and bounds.anchor is not None
            else []
        )
        self._masks = [] if bounds.mask is None else [slot.of(bounds.mask) for slot in slots]

    @torch.no_grad()
    def before_step(self) -> None:
        for parameter, anchor in zip(self._parameters, self._anchors, strict=bool(self._anchors)):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(parameter - anchor, alpha=self._pull)

    @torch.no_grad()
    def after_step(self) -> None:
        for parameter, mask in zip(self._parameters, self._masks, strict=bool(self._masks)):
            parameter.mul_(mask)


def _called(head: nn.Module) -> list[nn.Module]:
    """The layers that are called where a head is a list or a mapping of layers."""
    if isinstance(head, nn.ModuleList | nn.ModuleDict):
        return [part for child in head.children() for part in _called(child)]
    return [head]


def _gather_into(module: nn.Module, layout: Layout, flat: torch.Tensor) -> list[nn.Module]:
    """Have statistics gathered in a flat vector. Returns the layers that do."""
    layers: dict[str, nn.Module] = {}
    for slot in layout.statistics:
        owner, _, name = slot.name.rpartition(".")
        layers[owner] = module.get_submodule(owner)
        view = slot.of(flat)
        view.copy_(getattr(layers[owner], name))
        setattr(layers[owner], name, view)
    return list(layers.values())


_CHANCE = threading.RLock()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's own generator, for layers that draw from it; the caller's is left as it was."""
    with _CHANCE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
