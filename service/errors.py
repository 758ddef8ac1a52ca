"""The one table of what can go wrong, and how it is said (RFC 9457).

Every error leaves the service as `application/problem+json` with a reason from this table, but
for those of the page (`service.page.problems`), which are for its visitors. The detail is a
sentence for a person; nothing of the inside (paths, exceptions, input) is in it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from index.errors import (
    CatalogUnreachableError,
    DiskFullError,
    IndexLockedError,
    ReadOnlyIndexError,
)
from models.errors import HasseError
from service.runtime.logs import event

MEDIA_TYPE = "application/problem+json"
# A browser asks its user for a password, which is the key; programs send it as a token.
CHALLENGE = {"WWW-Authenticate": 'Bearer, Basic realm="Hasse", charset="UTF-8"'}

# What a read of the catalog meets while its database is whole. SQLite writes to read: its log has
# to be brought in, and what its processes share needs room.
UNREADABLE = (CatalogUnreachableError, DiskFullError, IndexLockedError, ReadOnlyIndexError)


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table: the status of a reason, and its name for people."""

    status: int
    title: str


REASONS: Mapping[str, Kind] = {
    "malformed": Kind(400, "The request could not be read"),
    "unauthorized": Kind(401, "A key is needed"),
    "forbidden": Kind(403, "This is not allowed"),
    "not_found": Kind(404, "There is no such thing here"),
    "picture_missing": Kind(404, "The file of this image is not in its place"),
    "method_not_allowed": Kind(405, "This address does not take that method"),
    "body_timeout": Kind(408, "The body did not arrive in time"),
    "conflict": Kind(409, "It is another image already"),
    "body_too_large": Kind(413, "The body is too large"),
    "too_many_pixels": Kind(413, "The picture has too many pixels"),
    "wrong_media_type": Kind(415, "The body is of a kind that is not read here"),
    "not_a_picture": Kind(415, "The file is not a picture of a kind that is read here"),
    "invalid": Kind(422, "The request is not valid"),
    "damaged_picture": Kind(422, "The picture is damaged"),
    "busy": Kind(429, "Too many requests at one time"),
    "quota": Kind(429, "The quota is used up"),
    "head_too_large": Kind(431, "The head of the request is too large"),
    "client_gone": Kind(499, "The client did not wait"),
    "encoding_failed": Kind(500, "The model could not encode this"),
    "internal": Kind(500, "Something went wrong inside"),
    "not_ready": Kind(503, "The service is not ready"),
    "catalog_unreachable": Kind(503, "The catalog does not answer"),
    "late": Kind(503, "The answer did not come in time"),
    "write_failed": Kind(503, "The collection could not be changed"),
    "disk_full": Kind(507, "There is no room for this"),
}

_METHODS = ("DELETE", "GET", "POST")
_OF_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}


class ServiceError(HasseError):
    """An answer that is an error: a reason of the table and a sentence for a person."""

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after

    @property
    def kind(self) -> Kind:
        """Return the row of the table."""
        return REASONS[self.reason]


@contextmanager
def reaching_catalog() -> Iterator[None]:
    """Let a block read the catalog; ServiceError `catalog_unreachable` where it cannot for now."""
    try:
        yield
    except UNREADABLE as error:
        raise unreachable(error) from None


def unreachable(error: Exception) -> ServiceError:
    """Return the error for a catalog that does not answer; the log says why."""
    event("catalog unreachable", logging.ERROR, error=str(error))
    return ServiceError(
        "catalog_unreachable",
        "the database of the collection does not answer: try again shortly",
        retry_after=5,
    )


def invalid(field: str, reason: str) -> ServiceError:
    """Return the error for one field at fault."""
    return ServiceError("invalid", f"{field}: {reason}", errors=((field, reason),))


def given_twice(field: str) -> ServiceError:
    """Return the error for a field that may come once only."""
    return invalid(shown(field), "this field is given twice")


def shown(name: str) -> str:
    """Return the name of a field that a client made up, as far as an answer repeats it."""
    return name[:64]


def absent(image_id: int) -> ServiceError:
    """Return the error for an image that is not in the collection."""
    return ServiceError("not_found", f"there is no image with the id {image_id}")


def invalid_fields(error: ValidationError | RequestValidationError) -> ServiceError:
    """Turn what pydantic found into an error that names each field and never echoes the input."""
    # FastAPI says first where it looked: in the path, the query or a header.
    start = 1 if isinstance(error, RequestValidationError) else 0
    found = [(_field(row["loc"][start:]), reason_of(row)) for row in error.errors()[:20]]
    detail = "; ".join(f"{field}: {reason}" for field, reason in found[:5])
    return ServiceError("invalid", detail or "the request is not valid", errors=found)


def _field(location: Sequence[Any]) -> str:
    return ".".join(shown(str(part)) for part in location) or "body"


def reason_of(row: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, by a row of what pydantic found."""
    if row["type"] == "extra_forbidden":
        return "there is no such field"
    if row["type"] == "model_type":
        return "this is not a JSON object"
    if row["type"] == "string_pattern_mismatch":
        return "this holds a character that may not stand here"
    if row["type"] == "too_short":
        return f"there must be at least {row['ctx']['min_length']:,} of these"
    if row["type"] == "too_long":
        most, found = row["ctx"]["max_length"], row["ctx"]["actual_length"]
        return f"there may be at most {most:,} of these, not {found:,}"
    message = str(row["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:200]


def problem_body(error: ServiceError, request_id: str) -> bytes:
    """Return the document of an error."""
    body = {
        "type": f"/docs#{error.reason}",
        "title": error.kind.title,
        "status": error.kind.status,
        "detail": error.detail,
        "reason": error.reason,
        "request_id": request_id,
        "errors": [{"field": field, "reason": reason} for field, reason in error.errors],
    }
    # ASCII escapes let anything through, a lone surrogate in a field's name included.
    return json.dumps(body).encode("ascii")


def problem(error: ServiceError, request_id: str) -> Response:
    """Return the response of an error."""
    headers = {"Cache-Control": "no-store"}
    if error.kind.status == HTTPStatus.UNAUTHORIZED:
        headers |= CHALLENGE
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return Response(problem_body(error, request_id), error.kind.status, headers, MEDIA_TYPE)


def _respond(request: Request, error: ServiceError) -> Response:
    request.scope["hasse.reason"] = error.reason
    return problem(error, request.scope.get("hasse.request_id", ""))


async def _on_service_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ServiceError):
        raise error
    return _respond(request, error)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return _respond(request, invalid_fields(error))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    fallback = "malformed" if error.status_code < 500 else "internal"
    reason = _OF_STATUS.get(error.status_code, fallback)
    detail = {
        "not_found": "there is nothing at this address; /docs lists what there is",
        "method_not_allowed": "this address does not take that method; /docs lists what it takes",
    }.get(reason, HTTPStatus(error.status_code).phrase)
    response = _respond(request, ServiceError(reason, detail))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    methods = _methods_at(request) if error.status_code == 405 else []
    if methods:
        response.headers["Allow"] = ", ".join(methods)
    return response


def _methods_at(request: Request) -> list[str]:
    """Return all methods of an address; the router that refused knows only its own."""
    taken = {
        method
        for method in _METHODS
        for route in request.app.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }
    return sorted(taken | {"HEAD"} if "GET" in taken else taken)


def install(app: FastAPI) -> None:
    """Make every error of an application leave as a problem document."""
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
