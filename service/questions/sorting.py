"""Sorts hits by date, stars or folder, and lists images without a caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sql

from hasse.index.catalog.ordering import Order, ordered_ids
from hasse.index.catalog.schema import IMAGES
from hasse.index.search.query import RowCounts
from hasse.service.core.answer_threads import run_in_thread
from hasse.service.core.engine import Engine
from hasse.service.core.searching import image_hit_fields
from hasse.service.questions.pipeline import AnswerBuilder, Fields, Handler, search_key
from hasse.service.questions.requests import SORTED_MAXIMUM, ImageQuery, SortedOptions
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_hit


async def answer(
    engine: Engine, request: SortedOptions, stages: Stages, best: Handler[Any]
) -> AnswerBuilder:
    """Return the hits of `best` that are true, sorted; without a caption, all selected images."""
    if isinstance(request, ImageQuery) and not request.caption:
        return await _list(engine, request, stages)
    update = {"sort": "best", "offset": 0, "k": engine.settings.k_maximum}
    build = await best(engine, request.model_copy(update=update), stages)
    fields = await run_in_thread(build)
    hits = _true_hits(fields["hits"])

    def sort() -> list[int]:
        with engine.index.catalog.reading() as connection:
            return ordered_ids(connection, _order(request), [IMAGES.c.id.in_(hits)])

    page = (await engine.in_catalog(sort))[request.offset : request.offset + request.k]
    ranked = enumerate((hits[id_] for id_ in page), request.offset + 1)
    return lambda: fields | {"hits": [hit | {"rank": rank} for rank, hit in ranked]}


def _order(request: SortedOptions) -> Order:
    return "newest" if request.sort == "best" else request.sort


async def listed_ids(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return the ids of the first images that a request without a caption selects."""
    longest = request.model_copy(update={"k": engine.settings.k_maximum, "offset": 0})
    ids, _ = await engine.in_catalog(lambda: _select(engine, longest))
    return lambda: {"image_ids": ids}


def count_days(engine: Engine, request: ImageQuery) -> dict[int | None, int]:
    """Return the number of the images that a request without a caption selects, by day."""
    all_selected = request.model_copy(update={"k": 1, "offset": 0})
    query = search_key(engine, "image", all_selected).query
    return engine.count_days(engine.index.generation, query)


async def _list(engine: Engine, request: ImageQuery, stages: Stages) -> AnswerBuilder:
    """Return images without a search: a page of all that the request selects."""
    index, query = engine.index, search_key(engine, "image", request).query

    def load() -> tuple[int, list[Fields]]:
        ids, total = _select(engine, request)
        versions = {id_: later for id_, (_, *later) in index.versions(query, ids).items()}
        rows, _ = index.catalog.image_hits([*ids, *(id_ for of in versions.values() for id_ in of)])
        # There is no caption to compare with, so there is no violation and no probability.
        hits = ((rows[id_], None, None) for id_ in ids if id_ in rows)
        return total, image_hit_fields(hits, engine.paths, request.offset, versions, rows)

    with stages.measure("metadata"):
        total, hits = await engine.in_catalog(load)
    return lambda: {
        "hits": hits,
        "mode": request.mode,
        "certified": True,
        "searched": total,
        "rescored": 0,
        "plan": "list",
        "work": dict.fromkeys(RowCounts._fields, 0),
        "model": engine.checkpoint.name,
        "generation": index.generation,
        "unknown_words": [],
        "did_you_mean": None,
    }


def _select(engine: Engine, request: ImageQuery) -> tuple[list[int], int]:
    """Return the ids of a page, and the number of all images that the request selects."""
    query = search_key(engine, "image", request).query
    with engine.index.catalog.reading() as connection:
        conditions = engine.index.listed(query, connection)
        ids = ordered_ids(connection, _order(request), conditions, request.offset, request.k)
        total = connection.execute(sql.select(sql.func.count(IMAGES.c.id)).where(*conditions))
        return ids, total.scalar_one()


def _true_hits(hits: Sequence[Fields]) -> dict[int, Fields]:
    """Return by id the hits that show, may show or say it; of others only the first ones."""
    return {
        hit["image_id"]: hit
        for at, hit in enumerate(hits)
        if is_hit(hit["probability"], says=bool(hit["says"]))
        or (hit["probability"] is None and at < SORTED_MAXIMUM)
    }
