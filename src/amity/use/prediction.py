"""What a model says of examples."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from amity.tasks import ACCURACY, Task
from amity.tasks.classify import Classify
from amity.use.classifier import Classifier, open_model
from amity.use.examples import Examples, ReadAs, read_examples

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """How probable each class is, for every example; of other tasks its labels or numbers, and of
    tokens what `NextToken.kept` has kept of them."""

    classes: tuple[str, ...]
    """What the columns are called."""
    probabilities: Array
    """A row for every example, a column for every class, label or number."""
    examples: Examples
    task: Task = field(default_factory=Classify)

    @property
    def labels(self) -> tuple[str, ...]:
        """The most probable class of each."""
        return tuple(self.classes[at] for at in self.probabilities.argmax(1))

    @property
    def accuracy(self) -> float | None:
        """How often that is right, where it is known what the examples are."""
        truth = self.examples.labels
        if truth is None or not self.task.classes:
            return None
        return float(np.mean([said == is_ for said, is_ in zip(self.labels, truth, strict=True)]))

    @property
    def verdict(self) -> str:
        """How good the answers are, where it is known what is true: `accuracy 81.2 %`; else
        empty."""
        metric, value = self.task.metric, self.accuracy
        if value is not None:
            return f"{ACCURACY.called} {ACCURACY.text(value)}"
        value = self.task.judged(self.probabilities, self.examples.numbers)
        return "" if value is None else f"{metric.called} {metric.text(value)}"

    @property
    def strange(self) -> tuple[str, ...]:
        """Labels of the examples that are none of the model's classes."""
        if not self.task.classes:
            return ()
        return tuple(sorted({*(self.examples.labels or ())} - {*self.classes}))

    def to_csv(self) -> str:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([self.examples.id_name, *self.task.header(self.classes)])
        for name, row in zip(self.examples.ids, self.probabilities, strict=True):
            writer.writerow([name, *self.task.cells(row, self.classes)])
        return stream.getvalue()


def ask(model: Classifier, examples: Examples) -> Prediction:
    task, truth, kept = model.description.does, examples.numbers, list[Array]()
    for x, answers in model.pieces(examples.x):
        at = sum(map(len, kept))
        y = None if truth is None else truth[at : at + len(answers)]
        kept.append(task.kept(answers, x, y))
    return Prediction(
        classes=model.description.names,
        probabilities=np.concatenate(kept),
        examples=examples,
        task=task,
    )


def predict(
    model: Path | str,
    examples: Path | str,
    *,
    id: str = "",
    which: str = "",
    fill: bool = False,
    na: tuple[str, ...] = (),
    network: str = "",
) -> Prediction:
    """Ask an exported model about the examples of a file or folder. `id` names a column that is
    kept, `which` is best or last (default: the best that is there). `fill`: what is missing or
    unknown in a table is taken as it usually was in training; `na` are words for a missing
    value. `network`: a network of your own, as `file.py:Net`, where it is not known to be yours."""
    opened = open_model(Path(model), which, network)
    return ask(opened, read_examples(opened.description, Path(examples), ReadAs(id, fill, na)))
