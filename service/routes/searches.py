"""Routes of saved searches: list, save, run, delete, and follow as a feed."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from pydantic_core import to_json
from starlette.responses import Response

from hasse.service.addresses import address
from hasse.service.http.openapi import QUESTION_REASONS, WRITE_REASONS, problems, takes
from hasse.service.http.services import SearchServices, ServicesHere, requires
from hasse.service.questions import saved
from hasse.service.questions.answers import SavedAnswer, SavedSearch, SavedSearches
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.pipeline import Fields, run
from hasse.service.questions.table import SEARCH_IMAGES
from hasse.service.routes.feed import ENTRIES, MEDIA_TYPE, atom
from hasse.service.telemetry.stages import Stages

router = APIRouter()

Name = Annotated[str, Path(pattern=saved.NAME_PATTERN, description="The name of the search.")]
_NO_STORE = {"Cache-Control": "no-store"}
_WRITES = (*QUESTION_REASONS, *WRITE_REASONS)


@router.get(
    "/searches",
    tags=["search"],
    summary="List the saved searches",
    response_model=SavedSearches,
    responses={200: {"description": "All saved searches"}, **problems(*QUESTION_REASONS)},
)
async def searches(services: SearchServices) -> Response:
    """Run every saved search: how many images it finds, and how many of them are new."""
    all_searches = await saved.run_all(services.engine)
    return _json({"searches": [search.fields() for search in all_searches]})


@router.get(
    "/searches/{name}",
    tags=["search"],
    summary="Run a saved search",
    response_model=SavedAnswer,
    responses={200: {"description": "The hits"}, **problems(*QUESTION_REASONS, "not_found")},
)
async def search(name: Name, services: SearchServices) -> Response:
    """Answer a saved search, with the images that are new since its hits were last looked at."""
    engine = services.engine
    result = await saved.run_saved(engine, name)
    answer = await run(engine, HANDLERS[SEARCH_IMAGES], result.request, Stages(), dict)
    return _json(result.fields() | {"new_image_ids": result.new_ids, "answer": answer})


@router.put(
    "/searches/{name}",
    tags=["writing"],
    summary="Save a search under a name",
    status_code=201,
    response_model=SavedSearch,
    responses={
        200: {"model": SavedSearch, "description": "The search has replaced another one"},
        201: {"description": "The search is saved"},
        **problems(*_WRITES),
    },
    openapi_extra=takes(SEARCH_IMAGES.request),
    dependencies=[requires("write")],
)
async def keep(request: Request, name: Name, services: ServicesHere) -> Response:
    """Save a search by a caption. The images that it finds now count as seen."""
    query = await services.bodies.json(request, SEARCH_IMAGES.request)
    result, is_new = await saved.save(services.engine, name, query)
    return _json(result.fields(), 201 if is_new else 200)


@router.post(
    "/searches/{name}/looked",
    tags=["writing"],
    summary="Mark the hits of a saved search as seen",
    status_code=204,
    responses={
        204: {"description": "None of its hits is new any more"},
        **problems(*_WRITES, "not_found"),
    },
    dependencies=[requires("write")],
)
async def looked(name: Name, services: ServicesHere) -> Response:
    """Count the images that a search finds now as seen."""
    engine = services.engine
    await saved.mark_seen(engine, await saved.run_saved(engine, name))
    return Response(status_code=204, headers=_NO_STORE)


@router.delete(
    "/searches/{name}",
    tags=["writing"],
    summary="Delete a saved search",
    status_code=204,
    responses={204: {"description": "The search is deleted"}, **problems(*_WRITES, "not_found")},
    dependencies=[requires("write")],
)
async def forget(name: Name, services: ServicesHere) -> Response:
    """Delete a saved search. The images stay."""
    await saved.delete(services.engine, name)
    return Response(status_code=204, headers=_NO_STORE)


@router.get(
    "/searches/{name}/feed",
    tags=["search"],
    summary="Follow a saved search with a feed reader",
    response_class=Response,
    responses={
        200: {
            "description": f"An Atom feed of the {ENTRIES} latest images",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **problems(*QUESTION_REASONS, "not_found"),
    },
)
async def feed(name: Name, services: SearchServices) -> Response:
    """Return the images that a search finds as an Atom feed (RFC 4287), the newest first."""
    engine = services.engine
    result = await saved.run_saved(engine, name)
    images = await engine.in_catalog(
        lambda: engine.index.catalog.described_images(result.image_ids)
    )
    by_age = sorted(images.values(), key=lambda image: (image.row.added or 0, image.row.id))
    url = address(f"/searches/{quote(name, safe='')}/feed")
    document = atom(name, url, by_age[: -ENTRIES - 1 : -1], result.saved.looked)
    return Response(document, 200, _NO_STORE, MEDIA_TYPE)


def _json(fields: Fields, status: int = 200) -> Response:
    return Response(to_json(fields), status, _NO_STORE, "application/json")
