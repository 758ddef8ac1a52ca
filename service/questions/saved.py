"""Searches that are kept by name: run when they are asked for, so that they are always current."""

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
from hasse.service.core.stages import Stages
from hasse.service.errors import ServiceError, invalid
from hasse.service.questions import evidence
from hasse.service.questions.pipeline import Fields, run
from hasse.service.questions.requests import ImageQuery

SAVED_MAXIMUM = 100  # all are run to list them
# Without \s, which Python and JSON Schema read differently.
NAME_PATTERN = r"^[^/@.\u0000-\u0020\u007f-\u00a0][^/\u0000-\u001f\u007f]{0,99}$"


@dataclass(frozen=True, slots=True)
class Current:
    """A search that is kept, and what it finds now.

    Attributes:
        found: ids of the images that say it, show it or may show it, the best first.
    """

    saved: SavedSearch
    request: ImageQuery
    found: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.saved.name

    @property
    def new(self) -> list[int]:
        """The images that were not found when somebody last looked, the best first."""
        return [id_ for id_ in self.found if id_ not in self.saved.seen]

    @property
    def looked(self) -> str:
        """When somebody last looked, as an RFC 3339 date and time."""
        return instant(self.saved.looked)

    def fields(self) -> Fields:
        """Return the fields of a `SavedSearch` of `answers`."""
        return {
            "name": self.name,
            "search": self.request,
            "looked": self.looked,
            "count": len(self.found),
            "new": len(self.new),
        }


async def listed(engine: Engine) -> list[Current]:
    """Return all searches, in order of their names, with what each finds."""
    every = await engine.in_catalog(lambda: saved_searches(engine.index.catalog))
    return [await _current(engine, one) for one in every]


async def current(engine: Engine, name: str) -> Current:
    """Return one search with what it finds; raises ServiceError `not_found`."""
    return await _current(engine, await _named(engine, name))


async def save(engine: Engine, name: str, request: ImageQuery) -> tuple[Current, bool]:
    """Keep a search by a name, in place of one of that name; return it, and if the name is new.

    What it finds now counts as seen.

    Raises:
        ServiceError: `invalid` for a name or a search that cannot be; there are too many.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise invalid("name", "give up to 100 characters, without / and not beginning with @ or .")
    request = _as_shown(engine, request)
    found = await _found(engine, request)
    catalog = engine.index.catalog
    every = await engine.in_catalog(lambda: saved_searches(catalog))
    is_new = name not in {one.name for one in every}
    if is_new and len(every) >= SAVED_MAXIMUM:
        raise invalid("name", f"there are {SAVED_MAXIMUM} searches already: remove one")
    stored = request.model_dump_json(exclude_defaults=True)
    saved = await engine.change_catalog(lambda: save_search(catalog, name, stored, found))
    return Current(saved, request, found), is_new


async def note_looked(engine: Engine, one: Current) -> None:
    """Note that somebody looked at what a search finds, unless it is gone."""
    await engine.change_catalog(lambda: note_seen(engine.index.catalog, one.name, one.found))


async def forget(engine: Engine, name: str) -> None:
    """Forget a search; raises ServiceError `not_found`."""
    if not await engine.change_catalog(lambda: delete_search(engine.index.catalog, name)):
        raise _no_search()


async def _named(engine: Engine, name: str) -> SavedSearch:
    every = await engine.in_catalog(lambda: saved_searches(engine.index.catalog))
    found = next((one for one in every if one.name == name), None)
    if found is None:
        raise _no_search()
    return found


async def _current(engine: Engine, saved: SavedSearch) -> Current:
    request = ImageQuery.model_validate_json(saved.request)
    try:
        found = await _found(engine, request)
    except ServiceError as error:
        if error.reason != "invalid":  # the library has another model by now
            raise
        found = ()
    return Current(saved, request, found)


async def _found(engine: Engine, request: ImageQuery) -> tuple[int, ...]:
    def ids(fields: Fields) -> tuple[int, ...]:
        return tuple(fields["image_ids"])

    return await run(engine, evidence.answer_ids, request, Stages(), ids)


def _as_shown(engine: Engine, request: ImageQuery) -> ImageQuery:
    """Return a request of this machine as services answer it too: with a path as answers show it.

    Raises:
        ServiceError: `invalid` for a folder that is not followed.
    """
    if not engine.paths.absolute or request.path_prefix is None:
        return request
    locations = engine.index.locations
    shown = locations.shown_paths()(locations.catalog_path(request.path_prefix))
    if shown is None:
        raise invalid("path_prefix", "it lies in no folder of the library")
    return request.model_copy(update={"path_prefix": shown or None})


def _no_search() -> ServiceError:
    return ServiceError("not_found", "there is no search of this name")
