"""Turns errors into responses: problem documents of RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from hasse.service.errors import MEDIA_TYPE, ServiceError, invalid_fields, problem_body

# A browser asks for a password, which is the key. Programs send the key as a token.
CHALLENGE = {"WWW-Authenticate": 'Bearer, Basic realm="Hasse", charset="UTF-8"'}

_METHODS = ("DELETE", "GET", "POST", "PUT")
_REASON_OF_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}


def problem(error: ServiceError, request_id: str) -> Response:
    """Return the response for an error."""
    headers = {"Cache-Control": "no-store"}
    if error.kind.status == HTTPStatus.UNAUTHORIZED:
        headers |= CHALLENGE
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return Response(problem_body(error, request_id), error.kind.status, headers, MEDIA_TYPE)


async def handle(request: Request, error: Exception) -> Response:
    """Return the problem document of an error; raises an error that is none of its kinds."""
    headers: Mapping[str, str] = {}
    if isinstance(error, HTTPException):
        headers = error.headers or {}
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (methods := _methods_at(request)):
            headers = {**headers, "Allow": ", ".join(methods)}
        error = _of_http_exception(error)
    elif isinstance(error, RequestValidationError):
        # The first part of a location is path, query or header.
        error = invalid_fields(error.errors(), start=1)
    if not isinstance(error, ServiceError):
        raise error
    request.scope["hasse.reason"] = error.reason
    response = problem(error, request.scope.get("hasse.request_id", ""))
    response.headers.update(headers)
    return response


def _of_http_exception(error: HTTPException) -> ServiceError:
    fallback = "malformed" if error.status_code < 500 else "internal"
    reason = _REASON_OF_STATUS.get(error.status_code, fallback)
    detail = {
        "not_found": "there is nothing at this address; /docs lists the addresses",
        "method_not_allowed": "this address does not support the method; /docs lists the methods",
    }.get(reason, HTTPStatus(error.status_code).phrase)
    return ServiceError(reason, detail)


def _methods_at(request: Request) -> list[str]:
    """Return the methods of all routes of an address; the route that refused has only some."""
    methods = {
        method
        for method in _METHODS
        for route in request.app.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""
    for kind in (ServiceError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)
