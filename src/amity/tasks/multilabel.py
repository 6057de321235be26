"""Several labels at once, each of which is true or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from amity.data.base import Dataset
from amity.data.target import Target
from amity.errors import DataError
from amity.lazy import nn, torch
from amity.tasks.metrics import AUROC, F1, PRECISION, Metric, measured, of_labels
from amity.tasks.registry import Rightness, Task, answering, as_rows, names_of, tasks
from amity.tasks.saying import Array, Json, shares_schema, some

LEADS = {metric.name: metric for metric in (F1, AUROC, PRECISION, Metric("accuracy"))}


@tasks.register("multilabel")
@dataclass(frozen=True)
class MultiLabel(Task):
    r"""Several labels at once, each true or not, by binary cross-entropy.

        f(z, y) = −1/K Σ_k [ v_k y_k log σ(z_k) + (1 − y_k) log(1 − σ(z_k)) ]

    v_k is 1, or with `weights=balanced` what makes both answers to a label count alike over the
    training part, (N − N_k) / N_k and at most 100. Measured are F1 over all labels together
    (micro, at a probability of 1/2), AUROC and average precision (means over the labels of which
    there are both kinds), and the share of labels that are right.
    """

    lead: Literal["f1", "auroc", "average_precision", "accuracy"] = "f1"
    """The metric that tables, gains and verdicts follow."""
    weights: Literal["none", "balanced"] = "none"
    """Whether rare labels count more where they are true: `balanced`."""

    rightly: ClassVar[str] = (
        "how much smaller the squared errors of probabilities are than those of how often each"
        " label is true"
    )

    @property
    def metric(self) -> Metric:
        return LEADS[self.lead]

    def prepare(self, dataset: Dataset) -> Dataset:
        y = as_rows(dataset)
        odd = (y != 0) & (y != 1)
        if bool(odd.any()):
            value = float(y[odd][0])
            raise DataError(
                f"task=multilabel: an answer is {value:g}, and each label is 0 or 1; use"
                " task=classify for one class of several, or task=regress for numbers"
            )
        if dataset.names and any(name not in ("0", "1") for name in dataset.names):
            raise DataError(
                "task=multilabel: the answers are the names of classes; give a column of 0 and 1"
                " for each label, or use task=classify"
            )
        weights: tuple[float, ...] = ()
        if self.weights == "balanced":
            true = y[dataset.train].double().mean(0)
            weights = tuple(((1 - true) / true.clamp_min(0.01)).clamp(0.01, 100).tolist())
        goal = Target(y.shape[1], names_of(dataset, y.shape[1]), weights=weights)
        return answering(dataset, y.float(), goal)

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        weight = z.new_tensor(target.weights) if target.weights else None
        each = nn.functional.binary_cross_entropy_with_logits(
            z, y, pos_weight=weight, reduction="none"
        )
        return each.mean(1)

    def answers(self, z: torch.Tensor, target: Target) -> torch.Tensor:
        """The probability of each label."""
        return torch.sigmoid(z)

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> Mapping[str, float]:
        names = tuple(LEADS) if whole else (self.lead,)
        return measured(of_labels, names, y.long(), self.answers(z, target))

    def right(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        r"""By squared errors of probabilities (Brier), against how often each label is true here:

        right = 1 − Σ (p − y)² / Σ (P − y)²        and not less than 0."""
        return _explained(self.answers(z, target).double(), y.double())

    def fair(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        r"""The same, of probabilities that have forgotten how often each label is expected:

        p' ∝ p · P / p̄,    1 − p' ∝ (1 − p) · (1 − P) / (1 − p̄)"""
        p, here = self.answers(z, target).double(), y.double().mean(0)
        usual = p.mean(0)
        yes = p * here / usual.clamp_min(1e-6)
        no = (1 - p) * (1 - here) / (1 - usual).clamp_min(1e-6)
        return _explained(yes / (yes + no).clamp_min(1e-12), y.double())

    # -- in words ----------------------------------------------------------------------------------

    def header(self, names: Sequence[str]) -> list[str]:
        return [*names, *(f"p_{name}" for name in names)]

    def cells(self, answer: Array, names: Sequence[str]) -> list[str]:
        return [*(str(int(p > 0.5)) for p in answer), *(f"{p:.6f}" for p in answer)]

    def spoken(self, answer: Array, names: Sequence[str]) -> Json:
        shares = answer.astype(float).round(6).tolist()
        said = dict(zip(names, shares, strict=True))
        return {"labels": [name for name, p in said.items() if p > 0.5], "probabilities": said}

    def schema(self, names: Sequence[str]) -> Json:
        label = {"type": "string", "enum": list(names)}
        labels = {"type": "array", "items": label}
        return {"labels": labels, "probabilities": shares_schema(names)}

    def described(self, names: Sequence[str], unit: str) -> str:
        return f"The probability of each of {len(names)} labels: {some(names)}."

    def judged(self, answers: Array, truth: Array | None) -> float | None:
        if truth is None:
            return None
        found = measured(of_labels, (self.lead,), *_tensors(truth, answers))
        return found[self.lead]

    def wrong(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """Yes becomes no."""
        return 1 - y


def _tensors(truth: Array, answers: Array) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(truth).long(), torch.from_numpy(answers)


def _explained(p: torch.Tensor, y: torch.Tensor) -> Rightness:
    mine = float((p - y).square().sum())
    least = float((y.mean(0) - y).square().sum())
    right = 1 - mine / least if least > 1e-12 else float(mine < 0.25 * y.numel())
    return Rightness(len(y) * max(0.0, right) if np.isfinite(right) else 0.0, len(y), 0.0)
