"""Numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.data.base import Dataset
from amity.data.target import Target
from amity.errors import DataError
from amity.lazy import nn, torch
from amity.tasks.metrics import R2, Metric, mae, measured, of_numbers, rmse
from amity.tasks.registry import Rightness, Task, answering, as_rows, names_of, tasks
from amity.tasks.saying import Array

NAMES = ("mae", "rmse", "r2")


@tasks.register("regress")
@dataclass(frozen=True)
class Regress(Task):
    r"""Numbers: one for each example, or several.

        t = (y − μ) / σ;     f(z, t) = 1/K Σ_k l(z_k − t_k)
        l(e) = e²  (mse),    |e|  (mae),    ½ e² if |e| < δ, else δ (|e| − ½ δ)  (huber)

    μ and σ are those of the training part, or stand in the schema file that all members use. What
    is predicted, and MAE, RMSE and R² (means over columns), are in the numbers' own unit.
    """

    error: Literal["mse", "mae", "huber"] = "mse"
    """Which l: squares, absolute values, or squares up to `delta` and absolute values beyond."""
    delta: Annotated[float, Field(gt=0)] = 1.0
    """δ of huber, in standard deviations."""
    unit: str = ""
    """What the numbers are measured in, as tables show it: €, °C."""
    lead: Literal["rmse", "mae", "r2"] = "rmse"
    """The metric that tables, gains and verdicts follow. Less is better of the first two."""

    @property
    def metric(self) -> Metric:
        return {"mae": mae(self.unit), "rmse": rmse(self.unit), "r2": R2}[self.lead]

    def prepare(self, dataset: Dataset) -> Dataset:
        y = _numbers(dataset).double()
        names = names_of(dataset, y.shape[1])
        mean, std = _statistics(dataset, y)
        goal = Target(y.shape[1], names, mean=mean, std=std)
        scaled = (y - y.new_tensor(mean)) / y.new_tensor(std)
        return answering(dataset, scaled.float(), goal)

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        if self.error == "mse":
            return (z - y).square().mean(1)
        if self.error == "mae":
            return (z - y).abs().mean(1)
        return nn.functional.huber_loss(z, y, reduction="none", delta=self.delta).mean(1)

    def answers(self, z: torch.Tensor, target: Target) -> torch.Tensor:
        """In their own unit."""
        return z * z.new_tensor(target.std) + z.new_tensor(target.mean)

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> Mapping[str, float]:
        names = NAMES if whole else (self.lead,)
        truth, said = (self.answers(one.double(), target) for one in (y, z))
        return measured(of_numbers, names, truth, said)

    def constant(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """The mean of the answers, for other losses than squares their median."""
        middle = y.mean(0) if self.error == "mse" else y.median(0).values
        return middle[None]

    def fair(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        """Of answers whose mean is that of the answers here."""
        return self.right(z - z.mean(0) + y.mean(0), y, target)

    def judged(self, answers: Array, truth: Array | None) -> float | None:
        if truth is None:
            return None
        both = torch.from_numpy(truth).double(), torch.from_numpy(answers)
        return measured(of_numbers, (self.lead,), *both)[self.lead]

    def wrong(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """High becomes low."""
        return -y


def _numbers(dataset: Dataset) -> torch.Tensor:
    """The answers; names of classes are none."""
    if dataset.strata is None and dataset.names:
        try:
            values = [float(name) for name in dataset.names]
        except ValueError:
            word = next(name for name in dataset.names if not _is_number(name))
            raise DataError(
                f"task=regress: the answers are text ({word[:40]!r}), and numbers are wanted; use"
                " task=classify, or another column"
            ) from None
        return torch.tensor(values, dtype=torch.float64)[dataset.pixels.y.cpu()][:, None]
    return as_rows(dataset)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _statistics(dataset: Dataset, y: torch.Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By which answers are scaled: as all members have agreed, or as the training part says. What
    is the same everywhere is not scaled."""
    form = dataset.form
    if form is not None and form.agreed and form.targets:
        by = [(column.mean or 0.0, column.std or 1.0) for column in form.targets]
        return tuple(mean for mean, _ in by), tuple(std for _, std in by)
    part = y[torch.from_numpy(dataset.train)]
    mean, std = part.mean(0), part.std(0, unbiased=False)
    return tuple(mean.tolist()), tuple(s if s > 1e-12 else 1.0 for s in std.tolist())
