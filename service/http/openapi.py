"""The OpenAPI document: FastAPI's, with the request bodies that `bodies` reads."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from hasse.service import embedding_schemas, lattice_schemas
from hasse.service.picture_schemas import DescribeForm, DescribeQuery, PictureQuery, SimilarQuery
from hasse.service.schemas import ImageQuery, ImagesQuery, Problem, UploadForm
from hasse.service.services import services_of
from hasse.service.settings import Settings

_REQUESTS = (
    ImageQuery,
    ImagesQuery,
    SimilarQuery,
    DescribeQuery,
    DescribeForm,
    PictureQuery,
    UploadForm,
    *lattice_schemas.REQUESTS,
    *embedding_schemas.REQUESTS,
)
_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Complete the OpenAPI document of an application."""
    stock = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = stock()
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            for model in (*_REQUESTS, Problem):
                _add(schemas, model)
                if "image" in model.model_fields:  # only a form has a file
                    _as_form(schemas[model.__name__])
            # Problem documents take the place of FastAPI's own validation errors.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            _secure(found, services_of(app).settings)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _secure(document: dict[str, Any], settings: Settings) -> None:
    """Mark the operations that need a key under these settings."""
    locked = {
        "search": bool(settings.read_keys),
        "lattice": bool(settings.read_keys),
        "collection": bool(settings.read_keys),
        "writing": bool(settings.write_keys) or not settings.open_writes,
    }
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for methods in document["paths"].values():
        for operation in methods.values():
            if any(locked.get(tag, False) for tag in operation["tags"]):
                operation["security"] = [{"key": []}]


def _add(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(
        ref_template=_REF, mode="serialization" if model is Problem else "validation"
    )
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _as_form(schema: dict[str, Any]) -> None:
    """Describe a form: what may be null may be left out, and a list of ids is a text."""
    for field in schema["properties"].values():
        if "anyOf" in field:
            (kind,) = [choice for choice in field.pop("anyOf") if choice.get("type") != "null"]
            field.update(kind)
            field.pop("default", None)
            field["examples"] = [""]  # Swagger UI would make up a value, and send it
        if field.get("title") == "Image Ids":
            del field["items"], field["maxItems"]
            field |= {"type": "string", "pattern": "^[0-9]{1,19}(,[0-9]{1,19}){0,999}$"}
            field["description"] += " Ids with commas between them."
