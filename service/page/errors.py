"""Shows an error as a page: a title, a sentence, and a link to go on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from hasse.service.addresses import address
from hasse.service.core.readiness import Phase
from hasse.service.errors import ServiceError
from hasse.service.http.problems import CHALLENGE, handle
from hasse.service.http.services import services_of
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import KEEP_URL, View, render
from hasse.service.settings import Settings


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error in words for people. `retry`: trying again may help."""

    title: str
    detail: str
    retry: bool = False


_MESSAGES: Mapping[str, ErrorMessage] = {
    "not_found": ErrorMessage(
        "That picture is not here",
        "It may have been removed from the collection since the link was made.",
    ),
    "picture_missing": ErrorMessage(
        "The file of that picture is missing",
        "It is no longer where it was when the collection was indexed.",
    ),
    "too_many_pixels": ErrorMessage(
        "That picture has too many pixels", "Use a smaller copy: fine details do not matter here."
    ),
    "not_a_picture": ErrorMessage(
        "That is not a picture Hasse can read", "JPEG, PNG, WebP, GIF, AVIF and TIFF files work."
    ),
    "damaged_picture": ErrorMessage(
        "That picture is damaged", "The file is incomplete or has errors. Try another copy of it."
    ),
    "busy": ErrorMessage("Hasse is busy", "Too many people are searching.", retry=True),
    "late": ErrorMessage(
        "That took too long", "Hasse gave up. The next try may be quicker.", retry=True
    ),
    "body_timeout": ErrorMessage("The picture did not arrive", "The connection was too slow."),
}


_NO_PAGE = ErrorMessage("There is no such page", "The address may be mistyped, or out of date.")


def message_for(error: ServiceError, settings: Settings) -> ErrorMessage:
    """Return the message of an error."""
    if error.reason in _MESSAGES:
        return _MESSAGES[error.reason]
    if error.reason == "body_too_large":
        return ErrorMessage(
            "That picture is too large",
            f"You can send at most {settings.picture_bytes / 1e6:g} MB. Use a smaller copy: fine "
            "details do not matter here.",
        )
    # The names of fields are for programs.
    reasons = "; ".join(reason for _, reason in error.errors) or error.detail
    sentence = f"{reasons[:1].upper()}{reasons[1:]}."
    if error.reason == "invalid":
        return ErrorMessage("That cannot be asked", sentence)
    return ErrorMessage(error.kind.title, sentence, retry=error.reason != "forbidden")


# Errors that are not shown while a person types, because the next letter may correct them.
_HIDDEN_WHILE_TYPING = {"invalid", "busy", "late"}


def is_draft(request: Request) -> bool:
    """Return whether a search is sent while its text is typed. Its errors replace no results."""
    return "Hasse-Draft" in request.headers


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except ServiceError as error:
                if is_draft(request) and error.reason in _HIDDEN_WHILE_TYPING:
                    request.scope["hasse.reason"] = error.reason
                    return Response(status_code=204)
                return await _error_page(request, error)

        return handle_errors


async def unknown_address(request: Request, error: Exception) -> Response:
    """Answer a request for an address without a route: with a page if a browser asks."""
    if "text/html" not in request.headers.get("Accept", ""):
        return await handle(request, error)
    try:
        services_of(request.app).access.admit(request.headers, "search")
    except ServiceError as refused:
        return await handle(request, refused)
    return await _error_page(request, ServiceError("not_found", ""), _NO_PAGE)


async def _error_page(
    request: Request, error: ServiceError, message: ErrorMessage | None = None
) -> Response:
    services = services_of(request.app)
    # The handler stores the fields of a posted form in the state of the request.
    fields = getattr(request.state, "fields", request.query_params)
    query = PageQuery.read(fields, services.settings)
    # A posted form is never sent again by itself.
    is_post = request.method == "POST"
    here = query.url() if is_post else str(request.url.replace(scheme="", netloc=""))
    url = KEEP_URL if is_post else here
    if error.reason == "unauthorized":
        # The browser asks for name and password.
        error = ServiceError(error.reason, "type your key as the password; any name will do")
    if error.reason == "not_ready" and services.readiness.phase is Phase.STARTING:
        view = View(
            "loading.html", "Hasse", "Hasse is still loading.", {"again": here}, url, error=error
        )
    else:
        message = message or message_for(error, services.settings)
        link = here if message.retry else address("/")
        context = {"message": message, "link": link}
        view = View("error.html", context=context, url=url, error=error)
    response = await render(request, query, view)
    if error.reason == "unauthorized":
        response.headers.update(CHALLENGE)
    return response
