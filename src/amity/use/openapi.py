"""The schema of the endpoint, as OpenAPI: what may be sent, by the names of the model's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amity.data.inputs import Shape, Tokens
from amity.data.schema import Column
from amity.use.modelfile import Description

Json = dict[str, Any]


def document(description: Description, most_rows: int, fill: bool) -> Json:
    """`fill`: whether every value may be missing."""
    origin = description.origin
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"The {origin.which} model of {origin.peer}",
            "description": description.does.described(description.names, ""),
            "version": origin.version,
        },
        "paths": {
            "/predict": {"post": _predict(description, most_rows, fill)},
            "/health": {"get": _get("Whether the model answers, and which it is")},
            "/openapi.json": {"get": _get("This document")},
        },
    }


def _get(summary: str) -> Json:
    return {"summary": summary, "responses": {"200": _answer("As said", {"type": "object"})}}


def _predict(description: Description, most_rows: int, fill: bool) -> Json:
    wrong = _answer("What is wrong, in one line", _object({"error": {"type": "string"}}))
    return {
        "summary": description.does.described(description.names, ""),
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _request(description, most_rows, fill)}},
        },
        "responses": {
            "200": _answer("One prediction for each example, in their order", _given(description)),
            **dict.fromkeys(("400", "413", "415", "422"), wrong),
        },
    }


def _answer(about: str, schema: Json) -> Json:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _object(properties: Json, required: list[str] | None = None) -> Json:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed}


def _request(description: Description, most_rows: int, fill: bool) -> Json:
    many: Json = {"type": "array", "minItems": 1, "maxItems": most_rows}
    columns = description.schema.columns
    if not columns:
        form = description.schema.form
        if isinstance(form, Mapping):
            return _object({"x": _object({n: {**many, "items": _one(s)} for n, s in form.items()})})
        ids = _object({"x": {**many, "items": _one(form)}})
        if not description.schema.letters:
            return ids
        line = {"type": "string", "minLength": 1, "maxLength": description.shape[0]}
        return {"oneOf": [ids, _object({"text": {**many, "items": line}})]}
    row = _object({column.name: _column(column, fill) for column in columns})
    return _object(
        {
            "rows": {**many, "items": row},
            "id": {"type": "string", "description": "A key of the rows that is given back"},
        },
        ["rows"],
    )


def _one(shape: Shape) -> Json:
    """One example."""
    if not isinstance(shape, Tokens):
        return _nested(shape)
    token = {"type": "integer", "minimum": 1, "maximum": shape.vocabulary - 1}
    return {"type": "array", "items": token, "minItems": 1, "maxItems": shape[0]}


def _nested(shape: tuple[int, ...]) -> Json:
    if not shape:
        return {"type": "number"}
    return {
        "type": "array",
        "items": _nested(shape[1:]),
        "minItems": shape[0],
        "maxItems": shape[0],
    }


def _column(column: Column, fill: bool) -> Json:
    kinds: dict[str, Json] = {
        "number": {"type": "number"},
        "category": {"type": "string", "enum": list(column.values)},
        "date": {"type": "string", "format": "date"},
    }
    kind = kinds[column.kind]
    missing = fill or column.missing != "refuse"
    return {"anyOf": [kind, {"type": "null"}]} if missing else kind


def _given(description: Description) -> Json:
    said = description.does.schema(description.names)
    one = _object({"id": {"description": "If an `id` was named"}, **said}, list(said))
    return _object(
        {
            "predictions": {"type": "array", "items": one},
            "notes": {"type": "array", "items": {"type": "string"}},
        }
    )
