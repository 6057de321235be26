"""An exported model as ONNX: scaling, network and softmax in one file, compared with torch."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import onnx  # noqa: F401  torch needs these, and so do we before we begin
import onnxruntime
import onnxscript  # noqa: F401
import torch

from amity.data.inputs import blank, tensors_of
from amity.errors import Failure, brief
from amity.files import write_atomically
from amity.use.classifier import Classifier
from amity.use.fitting import Inputs

CLOSE = 1e-4
"""How far a probability may be from that of torch; of numbers, as a share of the largest."""


def write_onnx(model: Classifier, x: Inputs) -> tuple[Path, float]:
    """Beside the model's own file. Takes `x` (several inputs by their names): any number of
    examples, as the model's inputs are before scaling; gives `probabilities`, or `values`. Returns
    the largest difference from torch on these examples."""
    path = model.path.with_suffix(".onnx")
    try:
        with _quiet():
            data = _converted(model)
            apart = _difference(model, data, x)
    except Exception as error:  # the network may be anybody's, and the converter raises anything
        raise Failure(f"{path}: the model cannot be written as ONNX ({_cause(error)})") from error
    if not apart <= CLOSE:
        raise Failure(
            f"{path}: not written, as it would give other probabilities than torch: by {apart:.1e}"
            f" (at most {CLOSE:g} is allowed)"
        )
    write_atomically(path, data)
    return path, apart


def _converted(model: Classifier) -> bytes:
    example = tuple(tensors_of(blank(model.description.schema.form, 2)))
    examples = torch.export.Dim("examples")
    program = torch.onnx.export(
        model.module,
        example,
        input_names=list(model.module.names) or ["x"],
        output_names=[model.description.gives],
        dynamic_shapes=(tuple({0: examples} for _ in example),),
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise TypeError("torch.onnx gave no program")
    proto = program.model_proto
    entry = proto.metadata_props.add()
    entry.key, entry.value = "amity", model.description.to_json()
    return bytes(proto.SerializeToString())


def _difference(model: Classifier, data: bytes, x: Inputs) -> float:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    worst = 0.0
    one = {name: part[:1] for name, part in x.items()} if isinstance(x, Mapping) else x[:1]
    for part in (x, one):  # many, and one alone
        (found,) = session.run([model.description.gives], model.arrays(part))
        said = model.probabilities(part)
        size = max(1.0, float(np.abs(said).max()))  # numbers in their own unit may be large
        worst = max(worst, float(np.abs(found - said).max()) / size)
    return worst


def _cause(error: BaseException) -> str:
    """What the converter wraps."""
    while error.__cause__ is not None:
        error = error.__cause__
    return brief(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """The converter talks of what concerns nobody here."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(nowhere), redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
