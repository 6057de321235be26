"""What is sent to the endpoint, turned into examples, and what is sent back. No HTTP here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from amity.errors import AmityError, DataError, brief
from amity.use.classifier import Classifier
from amity.use.examples import Examples, ReadAs, numbered_examples, of_frame
from amity.use.fitting import fitted
from amity.use.prediction import Prediction, ask
from amity.use.texts import text_examples

MOST_ROWS = 10_000


class Unfit(AmityError):
    """A request that cannot be answered, with the status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(model: Classifier, body: bytes, fill: bool = False) -> dict[str, Any]:
    """The answer to the body of a POST to /predict. `fill`: what is missing or unknown is taken as
    it usually was in training."""
    return _plain(ask(model, _examples(model, _parsed(body), fill)))


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        given = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unfit(400, f"the body is not JSON ({brief(error)})") from None
    if not isinstance(given, dict):
        raise Unfit(400, f"the body should be a JSON object, got {type(given).__name__}")
    return given


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON; use null")


def _examples(model: Classifier, given: Mapping[str, Any], fill: bool) -> Examples:
    description = model.description
    table = bool(description.schema.columns)
    known = ("rows", "id") if table else ("x",)
    if description.schema.letters and "text" in given:
        known = ("text",)
    for key in given:
        if key not in known:
            raise Unfit(422, f"unknown key {key[:60]!r}; this model takes {' and '.join(known)}")
    if known[0] not in given:
        raise Unfit(422, f"{known[0]!r} is missing; /openapi.json shows what is taken")
    many = given[known[0]]
    lists = list(many.values()) if description.schema.parts and isinstance(many, dict) else [many]
    if not lists or not all(isinstance(one, list) and one for one in lists):
        by_name = " for each input, by name" if description.schema.parts else ""
        raise Unfit(422, f"{known[0]!r} should be a list of at least one example{by_name}")
    if max(map(len, lists)) > MOST_ROWS:
        raise Unfit(
            413, f"{max(map(len, lists))} examples; at most {MOST_ROWS} may be sent at once"
        )
    try:
        if table:
            return _rows(model, many, given.get("id", ""), fill)
        return _texts(model, many) if known == ("text",) else _arrays(model, many)
    except DataError as error:
        raise Unfit(422, str(error)) from None


def _rows(model: Classifier, rows: list[Any], id_key: Any, fill: bool) -> Examples:
    import pandas as pd

    if not isinstance(id_key, str):
        raise DataError("'id' should be the name of a key")
    wanted = [column.name for column in model.description.schema.columns]
    for at, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"row {at}: should be an object of values by column, got {row!r:.60}")
        if id_key and id_key not in row:
            raise DataError(f"row {at}: has no {id_key!r}, which should be its id")
        lacking = [repr(name) for name in wanted if name not in row]
        if lacking:
            raise DataError(
                f"row {at}: lacks {', '.join(lacking)}; null stands for a missing value"
            )
        odd = next((k for k, v in row.items() if isinstance(v, list | dict)), None)
        if odd is not None:
            raise DataError(f"row {at}: {odd[:60]!r} should be a single value")
    frame = pd.DataFrame(rows)
    frame = frame.mask(frame.isin([*model.description.na]))
    return of_frame(model.description, "rows", frame, ReadAs(id_key, fill))


def _arrays(model: Classifier, many: Any) -> Examples:
    return numbered_examples(fitted(model.description, "'x'", many))


def _texts(model: Classifier, lines: list[Any]) -> Examples:
    """One example for each text, none of which may be cut: answers go by their order."""
    longest = model.description.shape[0]
    for at, line in enumerate(lines, 1):
        if not isinstance(line, str) or not line or len(line) > longest:
            raise DataError(
                f"text {at}: should be 1 to {longest} characters, as many as the model reads at"
                " once"
            )
    named = {str(at): line for at, line in enumerate(lines, 1)}
    found = text_examples(model.description, "'text'", named, "example")
    if len(found.ids) < len(lines):
        lost = next(name for name in named if name not in found.ids)
        raise DataError(f"text {lost}: holds no character that the model knows")
    return found


def _plain(found: Prediction) -> dict[str, Any]:
    named = found.examples.id_name != "example"
    predictions = [
        {
            **({"id": name} if named else {}),
            **found.task.spoken(row, found.classes),
        }
        for name, row in zip(found.examples.ids, found.probabilities, strict=True)
    ]
    return {"predictions": predictions, "notes": list(found.examples.notes)}
