"""One class of several: the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from amity.data.base import Dataset
from amity.data.target import Target
from amity.errors import DataError
from amity.lazy import nn, torch
from amity.registry import QUIET
from amity.tasks.metrics import (
    ACCURACY,
    AUROC,
    BALANCED,
    F1,
    PRECISION,
    Metric,
    measured,
    of_classes,
)
from amity.tasks.registry import Rightness, Score, Task, tasks
from amity.tasks.saying import Array, Json, shares_schema, some

LEADS = {metric.name: metric for metric in (ACCURACY, BALANCED, F1, AUROC, PRECISION)}
FURTHER = ("f1", "auroc", "average_precision")
"""Metrics that are measured where somebody asks for them."""


def _weights(given: object) -> str:
    """`balanced`, or numbers with commas between, or a list of them, as one text."""
    if isinstance(given, str) and given.strip() in ("", "balanced"):
        return given.strip()
    listed = given if isinstance(given, list | tuple) else str(given).split(",")
    try:
        numbers = [float(part) for part in listed]
    except (TypeError, ValueError):
        numbers = []
    if not numbers or not all(0 < number < 1e9 for number in numbers):
        raise ValueError(
            "weights: expected `balanced`, or a number above 0 for each class with commas between,"
            f" got {given!r}"
        )
    return ",".join(f"{number:g}" for number in numbers)


@tasks.register("classify")
@dataclass(frozen=True)
class Classify(Task):
    r"""One class of several, by cross-entropy.

        f(z, y) = −v_y Σ_c q_c log softmax(z)_c,     q_c = (1 − s) [c = y] + s / K

    s is `smoothing`, v_c are `weights`: with `balanced` N / (K N_c) over the training part, so that
    all classes count alike. Each example's loss is weighed by itself: the weights of a batch are
    not made to sum to 1. Measured are accuracy and its mean over classes (balanced), and with
    `further` macro F1, AUROC and average precision of one class against the rest.
    """

    weights: Annotated[str, BeforeValidator(_weights)] = field(default="", metadata=QUIET)
    """How much examples of each class count: `balanced`, or a number for each class, as 1,5,2.
    Empty: all alike."""
    smoothing: Annotated[float, Field(ge=0, lt=1)] = field(default=0.0, metadata=QUIET)
    """Share of a label that is spread over all classes."""
    lead: Literal["accuracy", "balanced", "f1", "auroc", "average_precision"] = field(
        default="accuracy", metadata=QUIET
    )
    """The metric that tables, gains and verdicts follow."""
    further: bool = field(default=False, metadata=QUIET)
    """Whether F1, AUROC and average precision are measured, too. They take their time."""

    classes: ClassVar[bool] = True
    rightly: ClassVar[str] = "the share of examples whose most probable class is theirs"

    @property
    def metric(self) -> Metric:
        return LEADS[self.lead]

    def prepare(self, dataset: Dataset) -> Dataset:
        if dataset.strata is not None:
            raise DataError(f"task=classify: {_no_classes(dataset)}")
        if not self.weights:
            return dataset
        weights = self._of_classes(dataset)
        return replace(dataset, goal=replace(dataset.target, weights=weights))

    def _of_classes(self, dataset: Dataset) -> tuple[float, ...]:
        count = dataset.classes
        if self.weights == "balanced":
            found = torch.bincount(dataset.pixels.y[dataset.train], minlength=count).double()
            return tuple((found.sum() / (count * found.clamp_min(1))).tolist())
        weights = tuple(map(float, self.weights.split(",")))
        if len(weights) != count:
            raise DataError(
                f"task.weights: {len(weights)} numbers for {count} classes; give one for each, or"
                " task.weights=balanced"
            )
        return weights

    # -- training ----------------------------------------------------------------------------------

    def _how(self, z: torch.Tensor, target: Target) -> dict[str, Any]:
        """Options of torch's cross-entropy; empty where all is as usual."""
        if not self.weights and not self.smoothing:
            return {}
        return {"label_smoothing": self.smoothing}

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        each = nn.functional.cross_entropy(z, y, reduction="none", **self._how(z, target))
        return each * z.new_tensor(target.weights)[y] if target.weights else each

    def loss(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        if target.weights:
            return self.losses(z, y, target).mean()
        return nn.functional.cross_entropy(z, y, **self._how(z, target))

    def total(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        if target.weights:
            return self.losses(z, y, target).sum()
        return nn.functional.cross_entropy(z, y, reduction="sum", **self._how(z, target))

    def slopes(
        self, z: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, target: Target
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Written out where all is as usual: ∂f/∂z = softmax(z) − onehot(y)."""
        if target.weights or self.smoothing:
            return super().slopes(z, y, weight, target)
        log_p, label = z.log_softmax(2), y.view(weight.shape)[:, :, None]
        each = -(log_p.gather(2, label)[:, :, 0] * weight).sum(1)
        delta = (
            log_p.exp_()
            .scatter_add_(2, label, torch.full_like(label, -1, dtype=log_p.dtype))
            .mul_(weight[:, :, None])
        )
        return each, delta

    # -- answers -----------------------------------------------------------------------------------

    def answers(self, z: torch.Tensor, target: Target) -> torch.Tensor:
        """The probability of each class."""
        return torch.softmax(z, 1)

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> Mapping[str, float]:
        return self.score(z, y, target, whole).metrics

    def score(self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool = True) -> Score:
        hit, loss = z.argmax(1) == y, self.loss(z, y, target)
        count = torch.bincount(y)
        right = torch.bincount(y[hit], minlength=len(count))
        recall = right[count > 0] / count[count > 0]
        pairs = zip(right.tolist(), count.tolist(), strict=True)
        by_class = {label: pair for label, pair in enumerate(pairs) if pair[1]}
        metrics = {"accuracy": float(hit.float().mean()), "balanced": float(recall.mean())}
        more = tuple(n for n in FURTHER if n == self.lead or (whole and self.further))
        if more:
            metrics |= measured(of_classes, more, y, self.answers(z, target))
        return Score(float(loss), metrics[self.lead], metrics, by_class)

    def value(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> float:
        if self.lead != "accuracy":
            return super().value(z, y, target)
        return float((z.argmax(1) == y).float().mean())

    def right(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        """The share of examples whose most probable class is theirs."""
        hit = self.answers(z, target).argmax(1) == y
        return Rightness(float(hit.sum()), len(y), float(shares(y, z).max()))

    def fair(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        r"""The same, of the classes that are most probable if it is known how often each occurs.

            argmax_c  p(c | x) · P(c) / p̄(c),     p̄ = mean of p(· | x) over the examples

        A model that is no numbers is never right."""
        said = self.answers(z, target).double()
        here = shares(y, z)
        fair = said * (here / said.mean(0).clamp_min(1e-6))
        right = float((fair.argmax(1) == y).sum())
        sound = bool(torch.isfinite(said).all())
        return Rightness(right if sound else 0.0, len(y), float(here.max()))

    # -- in words ----------------------------------------------------------------------------------

    def header(self, names: Sequence[str]) -> list[str]:
        return ["label", *(f"p_{name}" for name in names)]

    def cells(self, answer: Array, names: Sequence[str]) -> list[str]:
        return [names[int(answer.argmax())], *(f"{p:.6f}" for p in answer)]

    def spoken(self, answer: Array, names: Sequence[str]) -> Json:
        shares = answer.astype(float).round(6).tolist()
        label = names[int(answer.argmax())]
        return {"label": label, "probabilities": dict(zip(names, shares, strict=True))}

    def schema(self, names: Sequence[str]) -> Json:
        label = {"type": "string", "enum": list(names)}
        return {"label": label, "probabilities": shares_schema(names)}

    def described(self, names: Sequence[str], unit: str) -> str:
        return f"One probability for each of {len(names)} classes: {some(names)}."

    def wrong(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """Class c becomes K − 1 − c."""
        return target.size - 1 - y


def shares(y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """How often each class occurs."""
    return torch.bincount(y, minlength=z.shape[1]).double() / len(y)


def _no_classes(dataset: Dataset) -> str:
    """Why answers are no classes, and which task they may belong to."""
    y = dataset.pixels.y
    if y.dim() > 1 and y.shape[1] > 1 and bool(((y == 0) | (y == 1)).all()):
        return f"each answer is {y.shape[1]} labels, and a class is one number; use task=multilabel"
    if not y.is_floating_point() and y.dim() > 1 and y.shape[1] > 1:
        return f"each answer is {y.shape[1]} whole numbers, and a class is one; use task=tokens"
    shown = ", ".join(f"{value:g}" for value in y.flatten()[:3].tolist())
    return f"the answers are numbers ({shown}, ...), and classes are wanted; use task=regress"
