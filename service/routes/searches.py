"""Searches that are kept by name: list, keep, run, forget, and follow as a feed."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from pydantic_core import to_json
from starlette.responses import Response

from hasse.service.addresses import address
from hasse.service.core.stages import Stages
from hasse.service.feed import ENTRIES, MEDIA_TYPE, atom
from hasse.service.http.openapi import QUESTION_REASONS, WRITE_REASONS, problems, takes
from hasse.service.questions import saved
from hasse.service.questions.answers import SavedAnswer, SavedSearch, SavedSearches
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.pipeline import Fields, run
from hasse.service.questions.table import SEARCH_IMAGES
from hasse.service.services import SearchServices, ServicesHere, requires

router = APIRouter()

Name = Annotated[str, Path(pattern=saved.NAME_PATTERN, description="The name of the search.")]
_FRESH = {"Cache-Control": "no-store"}
_WRITES = (*QUESTION_REASONS, *WRITE_REASONS)


@router.get(
    "/searches",
    tags=["search"],
    summary="List the searches that are kept",
    response_model=SavedSearches,
    responses={200: {"description": "All of them"}, **problems(*QUESTION_REASONS)},
)
async def searches(services: SearchServices) -> Response:
    """Run every search that is kept: how many images it finds, and how many are new."""
    found = await saved.listed(services.engine)
    return _json({"searches": [one.fields() for one in found]})


@router.get(
    "/searches/{name}",
    tags=["search"],
    summary="Run a search that is kept",
    response_model=SavedAnswer,
    responses={200: {"description": "Its hits"}, **problems(*QUESTION_REASONS, "not_found")},
)
async def search(name: Name, services: SearchServices) -> Response:
    """Answer a search that is kept, and say which images are new since somebody looked."""
    engine = services.engine
    one = await saved.current(engine, name)
    answer = await run(engine, HANDLERS[SEARCH_IMAGES], one.request, Stages(), dict)
    return _json(one.fields() | {"new_image_ids": one.new, "answer": answer})


@router.put(
    "/searches/{name}",
    tags=["writing"],
    summary="Keep a search by a name",
    status_code=201,
    response_model=SavedSearch,
    responses={
        200: {"model": SavedSearch, "description": "It is in the place of the former one"},
        201: {"description": "It is kept"},
        **problems(*_WRITES),
    },
    openapi_extra=takes(SEARCH_IMAGES.request),
    dependencies=[requires("write")],
)
async def keep(request: Request, name: Name, services: ServicesHere) -> Response:
    """Keep a search by a caption. What it finds now counts as seen."""
    asked = await services.bodies.json(request, SEARCH_IMAGES.request)
    one, is_new = await saved.save(services.engine, name, asked)
    return _json(one.fields(), 201 if is_new else 200)


@router.post(
    "/searches/{name}/looked",
    tags=["writing"],
    summary="Note that somebody looked at what a search finds",
    status_code=204,
    responses={
        204: {"description": "Nothing of it is new any more"},
        **problems(*_WRITES, "not_found"),
    },
    dependencies=[requires("write")],
)
async def looked(name: Name, services: ServicesHere) -> Response:
    """Count what a search finds now as seen."""
    engine = services.engine
    await saved.note_looked(engine, await saved.current(engine, name))
    return Response(status_code=204, headers=_FRESH)


@router.delete(
    "/searches/{name}",
    tags=["writing"],
    summary="Forget a search",
    status_code=204,
    responses={204: {"description": "It is gone"}, **problems(*_WRITES, "not_found")},
    dependencies=[requires("write")],
)
async def forget(name: Name, services: ServicesHere) -> Response:
    """Forget a search. The images stay."""
    await saved.forget(services.engine, name)
    return Response(status_code=204, headers=_FRESH)


@router.get(
    "/searches/{name}/feed",
    tags=["search"],
    summary="Follow a search with a feed reader",
    response_class=Response,
    responses={
        200: {
            "description": f"An Atom feed of the {ENTRIES} images that were added last",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **problems(*QUESTION_REASONS, "not_found"),
    },
)
async def feed(name: Name, services: SearchServices) -> Response:
    """Return the images that a search finds as an Atom feed (RFC 4287), the newest first."""
    engine = services.engine
    one = await saved.current(engine, name)
    images = await engine.in_catalog(lambda: engine.index.catalog.described_images(one.found))
    newest = sorted(images.values(), key=lambda image: (image.row.added or 0, image.row.id))
    here = address(f"/searches/{quote(name, safe='')}/feed")
    made = atom(name, here, newest[: -ENTRIES - 1 : -1], one.saved.looked)
    return Response(made, 200, _FRESH, MEDIA_TYPE)


def _json(fields: Fields, status: int = 200) -> Response:
    return Response(to_json(fields), status, _FRESH, "application/json")
