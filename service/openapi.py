"""The OpenAPI document: FastAPI's own, with the requests that we read ourselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from service import questions
from service.schemas import ImageQuery, ImagesQuery, PictureQuery, Problem

_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Let an application describe itself completely."""
    stock = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = stock()
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            for model in (ImageQuery, ImagesQuery, *questions.REQUESTS, Problem):
                _add(schemas, model)
            _add(schemas, PictureQuery)
            _as_form(schemas[PictureQuery.__name__])
            # FastAPI's own validation error never leaves this service.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _add(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(
        ref_template=_REF, mode="serialization" if model is Problem else "validation"
    )
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _as_form(schema: dict[str, Any]) -> None:
    """A form has no null and no lists: what may be null may be left out, and lists are texts."""
    for field in schema["properties"].values():
        if "anyOf" in field:
            (kind,) = [choice for choice in field.pop("anyOf") if choice.get("type") != "null"]
            field.update(kind)
            field.pop("default", None)
        if field.get("type") == "array":
            del field["items"], field["maxItems"]
            field |= {"type": "string", "pattern": "^[0-9]{1,18}(,[0-9]{1,18}){0,999}$"}
            field["description"] += " Ids with commas between them."
