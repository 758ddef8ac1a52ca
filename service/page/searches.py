"""Saved searches on the page: lists, saves, marks as seen, and deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from hasse.service.addresses import address
from hasse.service.core.engine import Engine
from hasse.service.errors import ServiceError, invalid, validated
from hasse.service.http.services import ServicesHere
from hasse.service.page.errors import PageRoute
from hasse.service.page.query import PageQuery
from hasse.service.page.rendering import KEEP_URL, View, render
from hasse.service.page.writers import written_fields
from hasse.service.questions import saved
from hasse.service.questions.requests import ImageQuery

router = APIRouter(route_class=PageRoute)

SIGN = "@"  # before the name of a saved search, in the search box


@router.get("/page/searches")
async def searches(request: Request, services: ServicesHere) -> Response:
    """Show the current hits of each saved search, which replace the names on the first page."""
    kept = await saved.run_all(services.engine)
    view = View("searches.html", context={"kept": kept}, url=KEEP_URL)
    return await render(request, PageQuery(), view)


@router.post("/page/searches")
async def keep(request: Request, services: ServicesHere) -> Response:
    """Save the search of an answer by a name, and show it."""
    fields = await written_fields(request, services)
    name = " ".join(fields.get("name", "").split())
    query = PageQuery.read(fields, services.settings)
    options = {
        key: value
        for key, value in query.options.items()
        if value is not None and key not in ("k", "offset")
    }
    search = validated(ImageQuery, {"caption": query.text, "evidence": query.evidence, **options})
    await saved.save(services.engine, name, search)
    return _redirect_to(name)


@router.post("/page/searches/looked")
async def mark_seen(request: Request, services: ServicesHere) -> Response:
    """Mark the hits of a saved search as seen, and show it."""
    name = (await written_fields(request, services)).get("name", "")
    await saved.mark_seen(services.engine, await find_saved(services.engine, name))
    return _redirect_to(name)


@router.post("/page/searches/forget")
async def forget(request: Request, services: ServicesHere) -> Response:
    """Delete a saved search, and show the first page."""
    name = (await written_fields(request, services)).get("name", "")
    with _unknown_name_is_invalid():
        await saved.delete(services.engine, name)
    return RedirectResponse(address("/"), 303)


async def find_saved(engine: Engine, name: str) -> saved.SavedSearchResult:
    """Return a saved search; raises ServiceError `invalid` for an unknown name."""
    with _unknown_name_is_invalid():
        return await saved.run_saved(engine, name)


@contextmanager
def _unknown_name_is_invalid() -> Iterator[None]:
    """Raise ServiceError `invalid` in place of `not_found`, because the name was typed."""
    try:
        yield
    except ServiceError as error:
        if error.reason != "not_found":
            raise
        raise invalid("q", error.detail) from None


def _redirect_to(name: str) -> Response:
    return RedirectResponse(address(f"/?{urlencode({'q': SIGN + name})}"), 303)
