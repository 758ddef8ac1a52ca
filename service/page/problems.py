"""Errors of the service, as a visitor of the page should hear them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from models.vocabulary import words
from service.core.engine import Engine
from service.errors import CHALLENGE, ServiceError, invalid
from service.page.responses import STAY, Screen, respond
from service.page.views import Query
from service.runtime.readiness import Phase
from service.services import services_of
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong, what to do about it, and where that leads."""

    title: str
    detail: str
    remedy: str
    url: str


_TRY_AGAIN = "Try again"
_FIRST_PAGE = "Go to the first page"

_WORDS: Mapping[str, tuple[str, str, str]] = {
    "not_found": (
        "That picture is not here",
        "It may have been removed from the collection since the link was made.",
        _FIRST_PAGE,
    ),
    "picture_missing": (
        "The file of that picture is gone",
        "The collection knows it, but the file is not where it was when it was indexed.",
        _FIRST_PAGE,
    ),
    "too_many_pixels": (
        "That picture has too many pixels",
        "A smaller copy will do just as well: fine details do not matter here.",
        _FIRST_PAGE,
    ),
    "not_a_picture": (
        "That is not a picture Hasse can read",
        "JPEG, PNG, WebP and GIF files work.",
        _FIRST_PAGE,
    ),
    "damaged_picture": (
        "That picture is damaged",
        "The file ends early or does not hold together. Another copy of it may be whole.",
        _FIRST_PAGE,
    ),
    "busy": ("Hasse has its hands full", "Too many people ask at one time.", _TRY_AGAIN),
    "late": (
        "That took too long",
        "Hasse gave this one up; the next may be quicker.",
        _TRY_AGAIN,
    ),
    "body_timeout": ("The picture did not arrive", "The connection was too slow.", _FIRST_PAGE),
}


def require_known(engine: Engine, texts: Iterable[str]) -> None:
    """Refuse a text of which the model knows no word: all such texts are one to it.

    Call it once the text was found to be one that is read at all.

    Raises:
        ServiceError: `invalid`, which names the words.
    """
    for text in texts:
        vocabulary = engine.vocabulary
        if not words(text):
            raise invalid("words", f"Hasse reads words, and there are none in “{text}”")
        if not vocabulary.knows(text):
            *most, last = [f"“{word}”" for word in vocabulary.unknown(text)]
            named = f"words {', '.join(most)} and {last}" if most else f"word {last}"
            raise invalid("words", f"Hasse has never seen the {named}: say it in other words")


def trouble(error: ServiceError, query: Query, settings: Settings) -> Trouble:
    """Put an error into words."""
    if error.reason == "body_too_large":
        return Trouble(
            "That picture is too large",
            f"At most {settings.picture_bytes / 1e6:g} MB can be sent at a time. A smaller copy "
            "will do just as well: fine details do not matter here.",
            _FIRST_PAGE,
            "/",
        )
    # The names of fields are for programs.
    said = "; ".join(reason for _, reason in error.errors) or error.detail
    sentence = f"{said[:1].upper()}{said[1:]}."
    title, detail, remedy = _WORDS.get(error.reason, (error.kind.title, sentence, _TRY_AGAIN))
    if error.reason == "invalid":
        title, remedy = "That cannot be asked", _FIRST_PAGE
    elif error.reason == "forbidden":
        remedy = _FIRST_PAGE  # it would be refused again
    return Trouble(title, detail, remedy, query.url() if remedy is _TRY_AGAIN else "/")


def problem(request: Request, query: Query, error: ServiceError) -> Response:
    """Show an error as a visitor should hear it."""
    request.scope["hasse.reason"] = error.reason
    services = services_of(request.app)
    # What was posted is not asked again by itself.
    posted = request.method == "POST"
    again = query.url() if posted else str(request.url.replace(scheme="", netloc=""))
    if error.reason == "not_ready" and services.readiness.phase is Phase.STARTING:
        screen = Screen("loading.html", spoken="Hasse is still loading.", context={"again": again})
    else:
        found = trouble(error, query, services.settings)
        if found.remedy is _TRY_AGAIN:
            found = replace(found, url=again)
        screen = Screen("problem.html", context={"problem": found})
    screen = replace(
        screen,
        status=error.kind.status,
        retry_after=error.retry_after,
        url=STAY if posted else again,
    )
    response = respond(request, query, screen)
    if error.reason == "unauthorized":
        response.headers.update(CHALLENGE)
    return response


# What a browser asks for when its visitor needs a key.
_TYPE_IT = ServiceError(
    "unauthorized", "type the key that you were given as the password; any name goes with it"
)


class Visit(APIRoute):
    """A route of the page, whose visitors hear in its words too that they may not come in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def receive(request: Request) -> Response:
            try:
                return await answer(request)
            except ServiceError as refused:
                error = _TYPE_IT if refused.reason == "unauthorized" else refused
                settings = services_of(request.app).settings
                return problem(request, Query.read(request.query_params, settings), error)

        return receive
