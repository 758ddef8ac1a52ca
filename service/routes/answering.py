"""How operations answer, and how the document says so: what all modules of routes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fastapi
from pydantic_core import to_json
from starlette.responses import Response

from service.core.stages import Stages
from service.routes.context import problems
from service.schemas import Answer, Request, schema_of

_TIMING = {
    "Server-Timing": {
        "description": "Milliseconds in decode, queue, encode, prefilter, rerank, metadata, total.",
        "schema": {"type": "string"},
    }
}

# What a search may be refused with, in the words of `service.errors`.
REASONS = (
    "malformed",
    "unauthorized",
    "quota",
    "body_timeout",
    "body_too_large",
    "wrong_media_type",
    "invalid",
    "busy",
    "client_gone",
    "encoding_failed",
    "not_ready",
    "catalog_unreachable",
    "late",
)
OF_PICTURES = ("too_many_pixels", "not_a_picture", "damaged_picture")


def timed(description: str, *reasons: str) -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation that says where its time went, and its errors."""
    return {200: {"description": description, "headers": _TIMING}, **problems(*reasons)}


def takes(
    *, json: type[Request] | None = None, form: type[Request] | None = None
) -> dict[str, Any]:
    """Return the part of an operation that says which bodies it reads."""
    kinds = {"application/json": json, "multipart/form-data": form}
    content = {kind: {"schema": schema_of(model)} for kind, model in kinds.items() if model}
    return {"requestBody": {"required": True, "content": content}}


def watch(request: fastapi.Request) -> Stages:
    """Start the stopwatch of a request, at the moment at which it came."""
    return Stages(request.scope.get("hasse.waited", 0.0))


def answered(answer: Answer | Mapping[str, Any], stages: Stages) -> Response:
    """Send an answer, or the fields of one, that no cache keeps, with the time of its stages."""
    headers = {"Server-Timing": stages.header(), "Cache-Control": "no-store"}
    body = answer.model_dump_json() if isinstance(answer, Answer) else to_json(answer)
    return Response(body, 200, headers, "application/json")
