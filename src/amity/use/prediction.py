"""What a model says of examples."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amity.use.classifier import Classifier, open_model
from amity.use.examples import Examples, ReadAs, read_examples

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """How probable each class is, for every example."""

    classes: tuple[str, ...]
    probabilities: Array
    """A row for every example, a column for every class."""
    examples: Examples

    @property
    def labels(self) -> tuple[str, ...]:
        """The most probable class of each."""
        return tuple(self.classes[at] for at in self.probabilities.argmax(1))

    @property
    def accuracy(self) -> float | None:
        """How often that is right, where it is known what the examples are."""
        truth = self.examples.labels
        if truth is None:
            return None
        return float(np.mean([said == is_ for said, is_ in zip(self.labels, truth, strict=True)]))

    @property
    def strange(self) -> tuple[str, ...]:
        """Labels of the examples that are none of the model's classes."""
        return tuple(sorted({*(self.examples.labels or ())} - {*self.classes}))

    def to_csv(self) -> str:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([self.examples.id_name, "label", *(f"p_{name}" for name in self.classes)])
        for name, label, row in zip(
            self.examples.ids, self.labels, self.probabilities, strict=True
        ):
            writer.writerow([name, label, *(f"{p:.6f}" for p in row)])
        return stream.getvalue()


def ask(model: Classifier, examples: Examples) -> Prediction:
    return Prediction(
        classes=model.description.classes,
        probabilities=model.probabilities(examples.x),
        examples=examples,
    )


def predict(
    model: Path | str,
    examples: Path | str,
    *,
    id: str = "",
    which: str = "",
    fill: bool = False,
    na: tuple[str, ...] = (),
) -> Prediction:
    """Classify the examples of a file or folder with an exported model. `id` names a column that is
    kept, `which` is best or last (default: the best that is there). `fill`: what is missing or
    unknown in a table is taken as it usually was in training; `na` are words for a missing
    value."""
    opened = open_model(Path(model), which)
    return ask(opened, read_examples(opened.description, Path(examples), ReadAs(id, fill, na)))
