"""Saved searches: each request runs them again, so that their hits are always current."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hasse.index.catalog.searches import (
    SavedSearch,
    delete_search,
    note_seen,
    save_search,
    saved_searches,
)
from hasse.service.core.engine import Engine
from hasse.service.core.records import instant
from hasse.service.errors import ServiceError, invalid
from hasse.service.questions import evidence
from hasse.service.questions.pipeline import Fields, run
from hasse.service.questions.requests import ImageQuery
from hasse.service.questions.sorting import listed_ids
from hasse.service.telemetry.stages import Stages

SAVED_MAXIMUM = 100  # a list runs all of them
# Without \s, which Python and JSON Schema read differently.
NAME_PATTERN = r"^[^/@.\u0000-\u0020\u007f-\u00a0][^/\u0000-\u001f\u007f]{0,99}$"


@dataclass(frozen=True, slots=True)
class SavedSearchResult:
    """A saved search with its current hits.

    Attributes:
        image_ids: the hits that show it, may show it or have its words, the best first.
    """

    saved: SavedSearch
    request: ImageQuery
    image_ids: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the search."""
        return self.saved.name

    @property
    def new_ids(self) -> list[int]:
        """The hits that the user has not seen yet, the best first."""
        return [id_ for id_ in self.image_ids if id_ not in self.saved.seen]

    @property
    def looked(self) -> str:
        """Time when the user last looked, as an RFC 3339 date and time."""
        return instant(self.saved.looked)

    def fields(self) -> Fields:
        """Return the fields of a `SavedSearch` of `answers`."""
        return {
            "name": self.name,
            "search": self.request,
            "looked": self.looked,
            "count": len(self.image_ids),
            "new": len(self.new_ids),
        }


async def run_all(engine: Engine) -> list[SavedSearchResult]:
    """Run all saved searches, in order of their names."""
    searches = await engine.in_catalog(lambda: saved_searches(engine.index.catalog))
    return [await _run(engine, search) for search in searches]


async def run_saved(engine: Engine, name: str) -> SavedSearchResult:
    """Run a saved search; raises ServiceError `not_found`."""
    return await _run(engine, await _load(engine, name))


async def save(engine: Engine, name: str, request: ImageQuery) -> tuple[SavedSearchResult, bool]:
    """Save a search, in place of one of that name; return it, and whether the name is new.

    Its current hits count as seen.

    Raises:
        ServiceError: `invalid` for an invalid name or search, or for too many searches.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise invalid("name", "give up to 100 characters, without / and not beginning with @ or .")
    request = _with_relative_path(engine, request)
    image_ids = await _find(engine, request)
    catalog = engine.index.catalog
    searches = await engine.in_catalog(lambda: saved_searches(catalog))
    is_new = name not in {search.name for search in searches}
    if is_new and len(searches) >= SAVED_MAXIMUM:
        raise invalid("name", f"there are {SAVED_MAXIMUM} searches already: remove one")
    stored = request.model_dump_json(exclude_defaults=True)
    saved = await engine.change_catalog(lambda: save_search(catalog, name, stored, image_ids))
    return SavedSearchResult(saved, request, image_ids), is_new


async def mark_seen(engine: Engine, result: SavedSearchResult) -> None:
    """Mark the hits of a search as seen; nothing happens if the search was deleted."""
    catalog = engine.index.catalog
    await engine.change_catalog(lambda: note_seen(catalog, result.name, result.image_ids))


async def delete(engine: Engine, name: str) -> None:
    """Delete a saved search; raises ServiceError `not_found`."""
    if not await engine.change_catalog(lambda: delete_search(engine.index.catalog, name)):
        raise _no_search()


async def _load(engine: Engine, name: str) -> SavedSearch:
    searches = await engine.in_catalog(lambda: saved_searches(engine.index.catalog))
    for search in searches:
        if search.name == name:
            return search
    raise _no_search()


async def _run(engine: Engine, saved: SavedSearch) -> SavedSearchResult:
    request = ImageQuery.model_validate_json(saved.request)
    try:
        image_ids = await _find(engine, request)
    except ServiceError as error:
        if error.reason != "invalid":  # the library may have another model now
            raise
        image_ids = ()
    return SavedSearchResult(saved, request, image_ids)


async def _find(engine: Engine, request: ImageQuery) -> tuple[int, ...]:
    handler = evidence.answer_ids if request.caption else listed_ids
    answer: Fields = await run(engine, handler, request, Stages(), dict)
    return tuple(answer["image_ids"])


def _with_relative_path(engine: Engine, request: ImageQuery) -> ImageQuery:
    """Return a request with a relative path, which services on other machines can answer too.

    Raises:
        ServiceError: `invalid` for a folder that is not followed.
    """
    if not engine.paths.absolute or request.path_prefix is None:
        return request
    locations = engine.index.locations
    path = locations.catalog_path(request.path_prefix)
    shown = locations.shown_paths([path])[path]
    if shown is None:
        raise invalid("path_prefix", "it lies in no folder of the library")
    return request.model_copy(update={"path_prefix": shown or None})


def _no_search() -> ServiceError:
    return ServiceError("not_found", "there is no search of this name")
