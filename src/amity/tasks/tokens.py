"""The next token of a sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from amity.data.base import Dataset
from amity.data.inputs import PAD, Tokens
from amity.data.target import Target
from amity.errors import DataError
from amity.lazy import nn, torch
from amity.tasks.classify import Classify
from amity.tasks.metrics import PERPLEXITY, Metric
from amity.tasks.registry import Rightness, Task, answering, tasks
from amity.tasks.saying import SHARE, Array, Json

LEADS = {"perplexity": PERPLEXITY, "accuracy": Metric("accuracy")}


@tasks.register("tokens")
@dataclass(frozen=True)
class NextToken(Task):
    r"""The next token: at every position of a sequence, or after it.

        f(z, y) = −1/|R| Σ_{t ∈ R} log softmax(z_t)_{y_t},     R = { t : y_t is no padding }
        perplexity = exp( Σ_n Σ_{t ∈ R_n} −log softmax(z_nt)_{y_nt} / Σ_n |R_n| )

    y_t is the id that follows, and 0 is padding, which counts nowhere. A sequence's loss is the
    mean over its own tokens, so that it depends on no other sequence; the perplexity counts all
    tokens alike. Answers with one id for each example are the token after the sequence.
    """

    lead: Literal["perplexity", "accuracy"] = "perplexity"
    """The metric that tables, gains and verdicts follow. Less is better of the first."""

    rightly: ClassVar[str] = "the share of tokens that are the most probable ones"

    @property
    def metric(self) -> Metric:
        return LEADS[self.lead]

    def prepare(self, dataset: Dataset) -> Dataset:
        y = dataset.pixels.y
        if y.dim() == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.is_floating_point() or bool((y < 0).any()):
            raise DataError(
                "task=tokens: the answers must be ids of tokens, whole numbers from 0 (padding) on,"
                f" got {y.flatten()[0]:g}; use task=regress for numbers"
            )
        if not dataset.vocabulary:
            raise DataError(
                "task=tokens: the inputs are no sequences of tokens; say data.kind=tokens if they"
                " are ids, or use task=classify for classes"
            )
        size, most = max(dataset.vocabulary.values()), int(y.max())
        if most >= size:
            raise DataError(
                f"task=tokens: an answer is the id {most}, and the last of the vocabulary is"
                f" {size - 1}; give a larger vocabulary"
            )
        _refuse_unanswered(y)
        _refuse_other_lengths(y, dataset)
        places = None if y.dim() == 1 else y.shape[1]
        noted = replace(dataset, notes=(*dataset.notes, *_gaps(y)))
        return answering(noted, y, Target(size, places=places))

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        each = self._by_token(z, y)
        if target.places is None:
            return each
        return each.sum(1) / (y != PAD).sum(1).clamp_min(1)

    def _by_token(self, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """−log p of every token; 0 for padding."""
        flat = nn.functional.cross_entropy(
            z.reshape(-1, z.shape[-1]), y.reshape(-1), ignore_index=PAD, reduction="none"
        )
        return flat.view(y.shape)

    def answers(self, z: torch.Tensor, target: Target) -> torch.Tensor:
        """The probability of each token, at the last axis."""
        return torch.softmax(z, -1)

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> Mapping[str, float]:
        real = y != PAD
        count = int(real.sum())
        if not count or not bool(torch.isfinite(z).all()):
            return dict.fromkeys(LEADS, math.nan)
        mean = float(self._by_token(z, y).double().sum()) / count
        hit = (z.argmax(-1) == y) & real
        return {
            "perplexity": math.exp(min(mean, 700.0)),
            "accuracy": float(hit.sum()) / count,
        }

    def right(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        """The share of tokens that are the most probable ones."""
        return _by_example(Classify().right(*_flat(z, y), target), y)

    def fair(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> Rightness:
        """The same, if it is known how often each token occurs here."""
        return _by_example(Classify().fair(*_flat(z, y), target), y)

    # -- in words ----------------------------------------------------------------------------------

    def kept(self, answers: Array, x: Any, y: Array | None) -> Array:
        """The most probable token after each sequence and its probability; and of the tokens whose
        answer is known Σ −log p, how many are the most probable ones, and how many there are.
        Without a `y`, what follows each token of a sequence is known but for the last."""
        at = np.arange(len(answers))
        if answers.ndim == 2:
            after = answers
        else:
            ids = _sequences(x, answers.shape[1])
            after = answers[at, (ids != PAD).sum(1) - 1]
            y = np.pad(ids[:, 1:], ((0, 0), (0, 1))) if y is None else y
        best = after.argmax(1)
        rows = [best, after[at, best], *_known(answers, y)]
        return np.stack([np.asarray(row, np.float64) for row in rows], 1)

    def header(self, names: Sequence[str]) -> list[str]:
        return ["next", "p_next", "perplexity"]

    def cells(self, answer: Array, names: Sequence[str]) -> list[str]:
        said = self.spoken(answer, names)
        perplexity = "" if said["perplexity"] is None else f"{said['perplexity']:.6g}"
        return [str(said["next"]), f"{said['probability']:.6f}", perplexity]

    def spoken(self, answer: Array, names: Sequence[str]) -> Json:
        token, p, nats, _, count = answer.tolist()
        return {
            "next": names[int(token) - 1] if names and token else int(token),
            "probability": round(p, 6),
            "perplexity": math.exp(min(nats / count, 700.0)) if count else None,
        }

    def schema(self, names: Sequence[str]) -> Json:
        token: Json = {"type": "string", "enum": list(names)} if names else {"type": "integer"}
        number: Json = {"type": ["number", "null"], "minimum": 1}
        return {"next": token, "probability": SHARE, "perplexity": number}

    def described(self, names: Sequence[str], unit: str) -> str:
        what = f"one of {len(names)} characters" if names else "an id"
        return f"The most probable next token ({what}), and the perplexity of what is given."

    def judged(self, answers: Array, truth: Array | None) -> float | None:
        """Over all tokens whose answer is known."""
        nats, hits, count = map(float, answers[:, 2:].sum(0))
        if not count:
            return None
        found = {"perplexity": math.exp(min(nats / count, 700.0)), "accuracy": hits / count}
        return found[self.lead]

    def wrong(self, y: torch.Tensor, target: Target) -> torch.Tensor:
        """The id v becomes V − v; padding stays."""
        return torch.where(y == PAD, y, target.size - y)


def _refuse_unanswered(y: torch.Tensor) -> None:
    """Every example must have an answer that is no padding."""
    empty = (y == PAD).view(len(y), -1).all(1)
    if not bool(empty.any()):
        return
    only = "0" if y.dim() == 1 else "nothing but 0"
    raise DataError(
        f"task=tokens: the answer to example {int(empty.int().argmax())} is {only}, which is"
        f" padding ({int(empty.sum())} such examples); use task=classify for classes, number tokens"
        " from 1 on, or leave these examples out"
    )


def _refuse_other_lengths(y: torch.Tensor, dataset: Dataset) -> None:
    """Answers at every place belong to sequences that are as long."""
    shapes = dataset.shape.values() if isinstance(dataset.shape, Mapping) else [dataset.shape]
    lengths = [shape[0] for shape in shapes if isinstance(shape, Tokens)]
    if y.dim() == 2 and y.shape[1] not in lengths:
        raise DataError(
            f"task=tokens: {y.shape[1]} answers for sequences of {lengths[0]} tokens; give one for"
            " each token (the id that follows, and 0 where nothing does), or leave y out"
        )


def _gaps(y: torch.Tensor) -> Iterator[str]:
    """Padding before the end of the answers: left out on purpose, or a class by mistake."""
    if y.dim() == 1:
        return
    real = y != PAD
    follows = real.flip(1).cummax(1).values.flip(1)
    inside = int((follows & ~real).sum())
    if inside:
        yield (
            f"{inside:,} answers inside of sequences are 0, which is padding and counts nowhere; if"
            " 0 is a token or a class, add 1 to all answers"
        )


def _flat(z: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Real tokens, one after the other."""
    real = (y != PAD).reshape(-1)
    return z.reshape(-1, z.shape[-1])[real], y.reshape(-1)[real]


def _sequences(x: Any, places: int) -> Array:
    """The ids that a model has answered to, at every place; of several inputs those that have as
    many places."""
    parts = list(x.values()) if isinstance(x, Mapping) else [x]
    fits = [part for part in parts if part.dtype.kind in "ui" and part.shape[1:] == (places,)]
    if len(fits) != 1:
        raise DataError(
            f"task=tokens: {len(fits)} inputs are sequences of {places} tokens, and one is wanted"
            " whose next token is said"
        )
    return np.asarray(fits[0])


def _known(p: Array, y: Array | None) -> tuple[Array, Array, Array]:
    """Of every example Σ −log p, hits and number of the tokens that are known."""
    if y is None:
        none = np.zeros(len(p))
        return none, none, none
    ids = y.astype(np.int64).reshape(p.shape[:-1])
    real = (ids != PAD).reshape(len(p), -1)
    said = np.take_along_axis(p, ids[..., None], -1).astype(np.float64)
    nats = -np.log(said.clip(1e-300)).reshape(len(p), -1)
    hits = (p.argmax(-1) == ids).reshape(len(p), -1)
    return (nats * real).sum(1), (hits & real).sum(1), real.sum(1)


def _by_example(found: Rightness, y: torch.Tensor) -> Rightness:
    """Counted by examples."""
    share = found.right if found.examples else 0.0
    return Rightness(share * len(y), len(y), found.chance)
