"""Completes FastAPI's OpenAPI document with the request bodies of `bodies.py` and all errors."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response

from hasse.service.addresses import ROOT_PATH
from hasse.service.errors import MEDIA_TYPE, REASONS
from hasse.service.http.services import services_of
from hasse.service.questions.requests import PART_HELP
from hasse.service.questions.table import QUESTIONS
from hasse.service.schemas import ID_MAXIMUM, AnnotationFields, Problem, UploadForm, kind_of
from hasse.service.settings import Settings

Id = Annotated[int, Path(ge=0, le=ID_MAXIMUM)]
# Reasons of errors that every operation with a body, every question, every write can have.
BODY_REASONS = (
    *("malformed", "body_timeout", "body_too_large", "wrong_media_type", "invalid"),
    "encoding_failed",
)
_LOAD_REASONS = ("unauthorized", "quota", "busy", "not_ready", "catalog_unreachable", "late")
QUESTION_REASONS = (*BODY_REASONS, *_LOAD_REASONS, "client_gone")
WRITE_REASONS = (*_LOAD_REASONS, "forbidden", "disk_full", "write_failed", "client_gone")

_REF = "#/components/schemas/{model}"
_REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "An id that the answer and the log repeat: at most 64 letters, digits, dots, "
    "dashes and underscores. Another is ignored.",
}
_IDS = {"type": "string", "pattern": "^([0-9]{1,18}(,[0-9]{1,18}){0,999})?$"}


def takes(
    json: type[BaseModel] | None = None, form: type[BaseModel] | None = None
) -> dict[str, Any]:
    """Return the part of an operation that describes its bodies: as JSON, as a form, or both."""
    content: dict[str, Any] = {}
    if json is not None:
        content["application/json"] = {"schema": _reference(json.__name__)}
    if form is not None:
        content["multipart/form-data"] = {"schema": _reference(form_name(form))}
    return {"requestBody": {"required": True, "content": content}}


def problems(*reasons: str) -> dict[int | str, dict[str, Any]]:
    """Return the part of an operation that lists its errors, from the table of errors."""
    responses: dict[int | str, dict[str, Any]] = {}
    for reason in dict.fromkeys((*reasons, "wrong_host", "internal")):
        kind = REASONS[reason]
        description = f"{kind.title} (`{reason}`)"
        if kind.status in responses:
            responses[kind.status]["description"] += f"; {description}"
            continue
        responses[kind.status] = {
            "description": description,
            "content": {MEDIA_TYPE: {"schema": _reference(Problem.__name__)}},
        }
        if kind.status in (429, 503):
            responses[kind.status]["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait before trying again.",
                    "schema": {"type": "integer"},
                }
            }
    return responses


def describe(app: FastAPI) -> None:
    """Complete the OpenAPI document of an application, and serve it at /openapi.json."""
    make_document = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            openapi = make_document()
            schemas = openapi.setdefault("components", {}).setdefault("schemas", {})
            for question in QUESTIONS:
                if question.json:
                    _add(schemas, question.request)
                if question.picture:
                    _add_form(schemas, question.request, question.picture)
            _add_form(schemas, UploadForm, "image")
            _add(schemas, AnnotationFields)
            _add(schemas, Problem, "serialization")
            # Problem documents replace FastAPI's own validation errors.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            _secure(openapi, services_of(app).settings)
            for methods in openapi["paths"].values():
                for operation in methods.values():
                    operation["parameters"] = [*operation.get("parameters", []), _REQUEST_ID]
            app.openapi_schema = openapi
        return app.openapi_schema

    @lru_cache(maxsize=16)
    def serialized(root_path: str) -> bytes:
        servers = {"servers": [{"url": root_path}]} if root_path else {}
        return to_json(document() | servers)

    async def send(request: Request) -> Response:
        return Response(serialized(ROOT_PATH.get()), media_type="application/json")

    app.openapi = document  # type: ignore[method-assign]
    app.add_route("/openapi.json", send, include_in_schema=False)


def form_name(model: type[BaseModel]) -> str:
    """Return the name of the schema of a request as a form."""
    return f"{model.__name__.removesuffix('Query').removesuffix('Form')}Form"


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=name)}


def _secure(document: dict[str, Any], settings: Settings) -> None:
    """Mark the operations that need a key under these settings."""
    locked = {
        "search": bool(settings.readers),
        "lattice": bool(settings.readers),
        "collection": bool(settings.readers),
        "writing": bool(settings.writers) or not settings.open_writes,
    }
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for methods in document["paths"].values():
        for operation in methods.values():
            if any(locked.get(tag, False) for tag in operation["tags"]):
                operation["security"] = [{"key": []}]


def _add(schemas: dict[str, Any], model: type[BaseModel], mode: Any = "validation") -> None:
    schema = model.model_json_schema(ref_template=_REF, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _add_form(schemas: dict[str, Any], model: type[BaseModel], picture: str) -> None:
    """Describe the form of a request, in which the file `image` replaces the field `picture`.

    A field that may be null may be left out, a part is a caption, and a list of ids is a text.
    """
    schema = model.model_json_schema(ref_template=_REF)
    schema.pop("examples", None)  # they are JSON
    properties, required = schema["properties"], set(schema.get("required", ()))
    for name, field in properties.items():
        kind = kind_of(model.model_fields[name])
        _drop_alternatives(field)
        if kind is list:
            _drop_alternatives(field["items"])
            description = field["description"].replace(PART_HELP, "Captions.")
            field["description"] = f"{description} The field may be repeated."
        elif kind == list[int]:
            properties[name] = _IDS | {
                "title": field["title"],
                "description": f"{field['description']} Ids with commas between them.",
            }
    parts = properties.pop(picture)
    required.discard(picture)
    if parts.get("type") == "array":
        parts["maxItems"] -= 1
        properties[picture] = {key: parts[key] for key in parts if key != "minItems"}
    uploaded = UploadForm.model_json_schema()["properties"]["image"]
    schema["properties"] = {"image": uploaded, **properties}
    schema["required"] = ["image", *sorted(required - {"image"})]
    schema["title"] = form_name(model)
    schemas[schema["title"]] = schema


def _drop_alternatives(field: dict[str, Any]) -> None:
    """Reduce the alternatives of a field to the first that is not null."""
    if "anyOf" in field:
        first, *_ = [choice for choice in field.pop("anyOf") if choice.get("type") != "null"]
        description = field.get("description", first.get("description"))
        field.update(first)
        field["description"] = description
        if field.get("default", "") is None:
            del field["default"]
