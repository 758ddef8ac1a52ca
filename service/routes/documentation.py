"""What the OpenAPI document says of operations: bodies, errors and headers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from hasse.service.errors import MEDIA_TYPE
from hasse.service.errors import REASONS as TABLE
from hasse.service.schemas import ID_MAXIMUM, Problem, Request, schema_of

Id = Annotated[int, Path(ge=0, le=ID_MAXIMUM)]

_TIMING = {
    "Server-Timing": {
        "description": "Milliseconds in decode, queue, encode, prefilter, rerank, metadata, total.",
        "schema": {"type": "string"},
    }
}

# Reasons of `hasse.service.errors` for which a search may be refused.
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


def problems(*reasons: str) -> dict[int | str, dict[str, Any]]:
    """Return the part of an operation that lists its errors, from the one table."""
    found: dict[int | str, dict[str, Any]] = {}
    for reason in (*reasons, "wrong_host", "internal"):
        kind = TABLE[reason]
        words = f"{kind.title} (`{reason}`)"
        if kind.status in found:
            found[kind.status]["description"] += f"; {words}"
            continue
        found[kind.status] = {
            "description": words,
            "content": {MEDIA_TYPE: {"schema": schema_of(Problem)}},
        }
        if kind.status in (429, 503):
            found[kind.status]["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait before trying again.",
                    "schema": {"type": "integer"},
                }
            }
    return found
