"""Where tasks register, and what one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from amity.data.base import Dataset, Source
from amity.data.target import Target
from amity.lazy import torch
from amity.registry import Registry, reading
from amity.tasks.metrics import Metric
from amity.tasks.saying import Says


@dataclass(frozen=True)
class Score:
    """How good a model is on some examples."""

    loss: float
    """The mean loss."""
    value: float
    """The leading metric."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """All metrics that were measured, by name."""
    by_class: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Of each class that occurs: how many examples are classified right, and how many there are.
    Only where there are classes."""

    @property
    def accuracy(self) -> float:
        """Of tasks that have one."""
        return self.metrics["accuracy"]


class Rightness(NamedTuple):
    """How right a model is on some examples."""

    total: float
    """Each example counts from 0 (not at all) to 1 (entirely)."""
    examples: int
    chance: float
    """How right the best answer would be that is the same for all, as a share."""

    @property
    def right(self) -> float:
        """As a share."""
        return self.total / self.examples

    @property
    def skill(self) -> float:
        """How much better than chance: 1 is entirely right, 0 is as good as knowing nothing, and
        −1 the least that is said."""
        return max(-1.0, (self.right - self.chance) / max(1 - self.chance, 0.01))


class Task(Says):
    r"""What is learnt: the loss, what is predicted, and what is measured. A frozen dataclass: its
    fields are its options.

    z is what a model gives for N examples (N x the shape of the target), y are the answers as
    `prepare` has left them (N x anything). The loss of a batch is the mean of its examples' losses,

        F(θ) = 1/N Σ_n f(z_n, y_n)

    and that of an example depends on nothing else: so many peers can be trained in one step, and
    gradients can be clipped one by one. A task of one's own is a subclass with `losses`, `measure`
    and a `metric`; all else has a meaning without being written.
    """

    classes: ClassVar[bool] = False
    """Whether own data is read as classes, which are numbered; else as the numbers that it has."""

    shown_only: ClassVar[tuple[str, ...]] = ("lead", "further", "unit")
    """Options that change only what is shown; members may differ in them."""

    @property
    def metric(self) -> Metric:
        """The one that leads: tables, gains and verdicts follow it."""
        raise NotImplementedError

    def load(self, source: Source) -> Dataset:
        """A dataset with its answers as the loss wants them. What is no answer to this task is
        refused with a DataError, in one line that says what would be right."""
        numbers = None if self.classes else getattr(source, "numbers", None)
        return self.prepare(source.load() if numbers is None else numbers())

    def prepare(self, dataset: Dataset) -> Dataset:
        """The same with the `goal` of this task: see `load`. Without a word of the task's own,
        y stays as it is, as floats with a row for each example."""
        y = as_rows(dataset).float()
        return answering(dataset, y, Target(y.shape[1], names_of(dataset, y.shape[1])))

    # -- training ----------------------------------------------------------------------------------

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        """f, of every example: N numbers."""
        raise NotImplementedError

    def loss(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        """F: their mean."""
        return self.losses(z, y, target).mean()

    def total(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        """Their sum."""
        return self.losses(z, y, target).sum()

    def slopes(
        self, z: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, target: Target
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of G peers at once, whose examples have weights G x B: each one's weighted loss, and its
        derivative by z, G x B x the shape of the target. z itself may be overwritten."""
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            each = (self.losses(leaf.flatten(0, 1), y, target).view(weight.shape) * weight).sum(1)
            (delta,) = torch.autograd.grad(each.sum(), leaf)
        return each.detach(), delta

    # -- answers -----------------------------------------------------------------------------------

    def answers(self, z: torch.Tensor, target: Target) -> torch.Tensor:
        """What is predicted: probabilities, or numbers in their own unit."""
        return z

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> Mapping[str, float]:
        """Metrics by name: the leading one, and with `whole` all others."""
        raise NotImplementedError

    def score(self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool = True) -> Score:
        """How good a model is that gives z."""
        metrics = self.measure(z, y, target, whole)
        return Score(float(self.loss(z, y, target)), metrics[self.metric.name], metrics)

    def value(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> float:
        """The leading metric alone, as in its `score`."""
        return self.measure(z, y, target, False)[self.metric.name]

    def right(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        r"""How right answers are, as they are. Without another notion of it, by the loss:

            right = 1 − F(z) / F(c),     c = the best answer that is the same for all examples

        and not less than 0. Chance is 0."""
        if not bool(torch.isfinite(z).all()):
            return Rightness(0.0, len(y), 0.0)
        same = self.constant(y, target).expand(z.shape)
        least, mine = (float(self.loss(one, y, target)) for one in (same, z))
        right = 1 - mine / least if least > 1e-12 else float(mine <= least)
        return Rightness(max(0.0, right) * len(y), len(y), 0.0)

    def fair(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        """How right they are if the model is told how often each answer occurs here, and forgets
        how often it expects each. Without another notion of it: as they are."""
        return self.right(z, y, target)

    def constant(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """c: the z that is best if it must be the same for all examples. Without a formula it is
        looked for."""
        with torch.enable_grad():
            c = torch.zeros(1, *target.shape, device=y.device, requires_grad=True)
            search = torch.optim.LBFGS([c], max_iter=50, line_search_fn="strong_wolfe")

            def closure() -> torch.Tensor:
                search.zero_grad()
                loss = self.loss(c.expand(len(y), *target.shape), y, target)
                torch.autograd.backward(loss)
                return loss

            search.step(closure)  # type: ignore[no-untyped-call]
        return c.detach()

    def wrong(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """The opposite of right answers, as an attacker trains on them."""
        return -y


def metric_of(config: Mapping[str, Any]) -> Metric:
    """The leading metric of a run, from its keys as config.toml has them. A task that was passed as
    an object to another process is not known here, and one that a folder names is not run: what it
    measures goes without a unit."""
    given = config.get("task", {})
    options = {"name": given} if isinstance(given, str) else dict(given)
    name = str(options.pop("name", "classify"))
    with reading():
        built = tasks[name].build(options)
    return built.metric if isinstance(built, Task) else Metric("score", unit="")


def as_rows(dataset: Dataset) -> torch.Tensor:
    """The answers as N x K numbers."""
    y = dataset.pixels.y
    return y[:, None] if y.dim() == 1 else y


def names_of(dataset: Dataset, count: int) -> tuple[str, ...]:
    """What the columns of answers are called."""
    known = dataset.goal.names if dataset.goal is not None else ()
    return known if len(known) == count else tuple(f"y{k}" for k in range(count))


def answering(dataset: Dataset, y: torch.Tensor, goal: Target) -> Dataset:
    """The dataset with other answers; it is dealt out as it was."""
    pixels = replace(dataset.pixels, y=y.contiguous())
    return replace(dataset, pixels=pixels, goal=goal, strata=dataset.labels)


tasks: Registry[Task] = Registry(
    "task", "losses", "measure", "load", attributes=("metric",), home="amity.tasks"
)
