"""The API described for people at /docs, from the OpenAPI document, without the internet."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from service.errors import REASONS
from service.settings import Settings

router = APIRouter(include_in_schema=False)

TEMPLATES = Path(__file__).parents[1] / "templates"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema or a parameter, as a row of a table."""

    name: str
    kind: str
    required: bool
    default: str
    bounds: str
    description: str


@dataclass(frozen=True, slots=True)
class Body:
    """A way in which a question may be sent."""

    media_type: str
    fields: list[Field]
    examples: list[str]


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be asked at one address."""

    method: str
    path: str
    summary: str
    description: str
    tag: str
    parameters: list[Field]
    bodies: list[Body]
    statuses: list[tuple[str, str, str]]


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Return the page that lists every operation, schema, error and setting."""
    html = _page(json.dumps(request.app.openapi()))
    return HTMLResponse(html, headers={"Content-Security-Policy": _policy(_style())})


@cache
def _page(document: str) -> str:
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    templates.filters["code"] = _code
    api = json.loads(document)
    return templates.get_template("reference.html").render(
        api=api,
        style=_style(),
        operations=list(_operations(api)),
        schemas={
            name: (schema.get("description", ""), list(_fields(schema)))
            for name, schema in sorted(api["components"]["schemas"].items())
        },
        reasons=REASONS,
        settings=[
            (f"HASSE_{name.upper()}", field.default, field.description)
            for name, field in Settings.model_fields.items()
        ],
    )


@cache
def _style() -> str:
    return (TEMPLATES / "reference.css").read_text(encoding="utf-8")


def _code(text: str) -> Markup:
    """Set what stands in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def _operations(api: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            yield Operation(
                method=method.upper(),
                path=path,
                summary=operation["summary"],
                description=operation.get("description", ""),
                tag=operation["tags"][0],
                parameters=[
                    _field(row["name"], row["schema"], row.get("required", False), row)
                    for row in operation.get("parameters", [])
                ],
                bodies=[
                    _body(media_type, _resolve(api, body["schema"]))
                    for media_type, body in content.items()
                ],
                statuses=[
                    (status, row["description"], _answer(row))
                    for status, row in sorted(operation["responses"].items())
                ],
            )


def _body(media_type: str, schema: dict[str, Any]) -> Body:
    return Body(
        media_type,
        sorted(_fields(schema), key=lambda row: not row.required),
        [json.dumps(row, indent=2) for row in schema.get("examples", [])],
    )


def _answer(response: dict[str, Any]) -> str:
    for body in response.get("content", {}).values():
        reference: str = body.get("schema", {}).get("$ref", "")
        return reference.rpartition("/")[2]
    return ""


def _resolve(api: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _fields(schema: dict[str, Any]) -> Iterator[Field]:
    required = schema.get("required", [])
    for name, row in schema.get("properties", {}).items():
        yield _field(name, row, name in required, row)


def _field(name: str, schema: dict[str, Any], required: bool, row: dict[str, Any]) -> Field:
    choices = [schema, *schema.get("anyOf", [])]
    words = {"minimum": "at least", "maximum": "at most", "minLength": "length at least"}
    bounds = [
        f"{said} {round(choice[key]):,}"
        for choice in choices
        for key, said in words.items()
        if key in choice
    ]
    return Field(
        name=name,
        kind=_kind(schema),
        required=required,
        default=json.dumps(schema["default"]) if "default" in schema else "",
        bounds=", ".join(bounds),
        description=row.get("description", ""),
    )


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    return str(schema.get("format") or schema.get("type", "any"))
