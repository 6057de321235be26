"""Metrics, by scikit-learn's functions: what each is called, which way is better, its unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from amity.lazy import torch
from amity.metric import ACCURACY as ACCURACY
from amity.metric import Metric as Metric

Array = np.ndarray[Any, Any]


BALANCED = Metric("balanced", "balanced accuracy")
F1 = Metric("f1", "F1")
AUROC = Metric("auroc", "AUROC")
PRECISION = Metric("average_precision", "average precision")
R2 = Metric("r2", "R²", unit="")
PERPLEXITY = Metric("perplexity", more=False, unit="")


def mae(unit: str) -> Metric:
    return Metric("mae", "MAE", more=False, unit=unit)


def rmse(unit: str) -> Metric:
    return Metric("rmse", "RMSE", more=False, unit=unit)


@contextmanager
def _quick() -> Iterator[None]:
    """scikit-learn without the checks that take most of its time; ours are done before."""
    import sklearn

    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        yield


def of_numbers(truth: Array, said: Array) -> dict[str, Callable[[], float]]:
    """N x K each, in their own unit."""
    from sklearn import metrics

    return {
        "mae": lambda: float(metrics.mean_absolute_error(truth, said)),
        "rmse": lambda: float(metrics.root_mean_squared_error(truth, said)),
        "r2": lambda: float(metrics.r2_score(truth, said)) if len(truth) > 1 else math.nan,
    }


def of_classes(truth: Array, p: Array) -> dict[str, Callable[[], float]]:
    """Labels, and a probability for each class. F1 is the mean over the classes that occur; the
    other two are of one class against the rest, mean over those that occur (of two classes: of the
    second)."""
    from sklearn import metrics

    def hot() -> tuple[Array, Array]:
        each = np.eye(p.shape[1], dtype=np.int64)[truth]
        return (each[:, 1:], p[:, 1:]) if p.shape[1] == 2 else (each, p)

    def f1() -> float:
        there = np.unique(truth)
        said = p.argmax(1)
        return float(metrics.f1_score(truth, said, labels=there, average="macro", zero_division=0))

    return {
        "accuracy": lambda: float(metrics.accuracy_score(truth, p.argmax(1))),
        "f1": f1,
        "auroc": lambda: _mean_of(metrics.roc_auc_score, *hot()),
        "average_precision": lambda: _mean_of(metrics.average_precision_score, *hot()),
    }


def of_labels(truth: Array, p: Array) -> dict[str, Callable[[], float]]:
    """N x K: whether each label is true, and how probable it is. Accuracy is over all labels of all
    examples, F1 counts them together (micro); the other two are means over labels."""
    from sklearn import metrics

    said = (p > 0.5).astype(np.int64)
    return {
        "accuracy": lambda: float((said == truth).mean()),
        "f1": lambda: float(metrics.f1_score(truth, said, average="micro", zero_division=1)),
        "auroc": lambda: _mean_of(metrics.roc_auc_score, truth, p),
        "average_precision": lambda: _mean_of(metrics.average_precision_score, truth, p),
    }


def _mean_of(metric: Callable[[Array, Array], Any], truth: Array, p: Array) -> float:
    """Over the columns in which there is something to tell apart; NaN: there is none."""
    columns = [k for k in range(truth.shape[1]) if 0 < truth[:, k].sum() < len(truth)]
    values = [float(metric(truth[:, k], p[:, k])) for k in columns]
    return sum(values) / len(values) if values else math.nan


def measured(
    table: Callable[[Array, Array], Mapping[str, Callable[[], float]]],
    names: tuple[str, ...],
    truth: torch.Tensor,
    said: torch.Tensor,
) -> dict[str, float]:
    """These metrics of a table above; all are NaN where a model says things that are no numbers."""
    if not bool(torch.isfinite(said).all()):
        return dict.fromkeys(names, math.nan)
    with _quick():
        found = table(truth.cpu().numpy(), said.double().cpu().numpy())
        return {name: found[name]() for name in names}
