"""The steps of every question: check the request, encode its parts, search, finish the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hasse.index.catalog.selection import Selection
from hasse.index.search.query import Query
from hasse.index.text.kinds import words_of
from hasse.index.text.query import TextQuery
from hasse.index.types import Kind, Points
from hasse.models.calibration import Judge
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.service.core.admission import PLAIN_COST
from hasse.service.core.answer_threads import Result, run_in_thread
from hasse.service.core.encoding import check_caption, check_query
from hasse.service.core.engine import Engine
from hasse.service.core.searching import SearchKey, SearchResult
from hasse.service.errors import invalid, no_image
from hasse.service.questions.requests import (
    K_MAXIMUM,
    REACH_MAXIMUM,
    DescribeQuery,
    DiagramQuery,
    DistinctOptions,
    EmbedQuery,
    EntailsQuery,
    ImageOptions,
    ImageQuery,
    LikeQuery,
    Part,
    QuestionRequest,
    SearchOptions,
    SimilarQuery,
    SortedOptions,
)
from hasse.service.schemas import is_instant, milliseconds, place_of
from hasse.service.telemetry.stages import Stages, traced

Fields: TypeAlias = dict[str, Any]  # of an answer, in their order
AnswerBuilder: TypeAlias = Callable[[], Fields]
RequestType = TypeVar("RequestType", bound=QuestionRequest)
# Searches for an answer, between the check and the metrics. It returns a function that builds the
# fields, since that may block the event loop for too long.
Handler: TypeAlias = Callable[[Engine, RequestType, Stages], Awaitable[AnswerBuilder]]

# A field that selects part of the collection has the name that `Selection` gives it.
_ZONE = re.compile(r"([zZ]|[+-]\d\d:\d\d)$")
_FILTERS = {
    field.name: is_instant(SearchOptions.model_fields[field.name])
    for field in fields(Selection)
    if field.name in SearchOptions.model_fields
}

_EMBEDDING_COST = 50  # in hits: number of hits that take the same time
# In hits: a diagram, generated captions, replaced words or boxes.
_DRAWING_COST = 500


async def run(
    engine: Engine,
    handler: Handler[RequestType],
    request: RequestType,
    stages: Stages,
    finish: Callable[[Fields], Result],
) -> Result:
    """Answer a request; return the result of `finish` for the fields of the answer.

    Validation of an answer takes as long as its serialization, so routes serialize the fields
    without it.

    Raises:
        ServiceError: `invalid` for a request out of bounds, `not_found` for an id that is not in
            the collection, `busy` and `late` under load, `encoding_failed`, `not_ready` and
            `catalog_unreachable` for internal faults, and the errors of `PictureReader.pixels`.
    """
    cost = cost_of(request)
    check(engine, request)
    async with engine.admission.enter(stages, cost):
        build = await handler(engine, request, stages)
        with traced("answer"):
            if cost > PLAIN_COST:
                answer = await run_in_thread(lambda: finish(build()))
            else:
                answer = finish(build())
    stages.seconds["total"] = perf_counter() - stages.started
    # Later, so that the answer does not wait for it.
    asyncio.get_running_loop().call_soon(_observe, engine, stages)
    return answer


def _observe(engine: Engine, stages: Stages) -> None:
    for stage, histogram in engine.stage_seconds.items():
        if seconds := stages.seconds[stage]:
            histogram.observe(seconds)


def check(engine: Engine, request: QuestionRequest) -> None:
    """Check a request against the limits and the model; raises ServiceError `invalid`."""
    settings, words = engine.settings, engine.vocabulary
    if isinstance(request, SearchOptions) and request.k > settings.k_maximum:
        raise invalid("k", f"this service gives at most {settings.k_maximum} hits")
    for field, text in caption_fields(request):
        if request.needs_known_words:
            check_query(text, words, settings, field)
        else:
            check_caption(text, settings, field)


def caption_fields(request: QuestionRequest, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the field name and the text of each caption to encode."""
    for name in request.parts:
        value = getattr(request, name)
        if isinstance(value, str):
            if value:
                yield before + name, value
        elif isinstance(value, list):
            # An uploaded picture has a field of its own and does not count here.
            stored = [part for part in value if not isinstance(part, bytes)]
            for at, part in enumerate(stored):
                field = f"{before}{name}.{at}" if len(stored) > 1 else before + name
                if isinstance(part, QuestionRequest):
                    yield from caption_fields(part, f"{before}{name}.{at}.")
                elif isinstance(part, str):
                    yield field, part


def cost_of(request: QuestionRequest) -> int:
    """Return the cost of a request in hits: hits times parts, or the hits that take as long."""
    values = [getattr(request, name) for name in request.parts]
    parts = sum(len(value) if isinstance(value, list) else 1 for value in values)
    if isinstance(request, DiagramQuery | DescribeQuery):
        return _DRAWING_COST
    if isinstance(request, EmbedQuery):
        return _EMBEDDING_COST * parts
    if isinstance(request, EntailsQuery) and request.where:
        return _DRAWING_COST
    replaces_words = isinstance(request, LikeQuery) and request.plus and request.minus
    hits = request.k if isinstance(request, SearchOptions) else 1
    if isinstance(request, SortedOptions) and request.sort != "best":
        hits = K_MAXIMUM
    return parts * hits + (_DRAWING_COST if replaces_words else 0)


def sorted_by(
    sort: Callable[[Engine, Any, Stages, Handler[Any]], Awaitable[AnswerBuilder]],
    best: Handler[Any],
) -> Handler[Any]:
    """Return the handler that gives requests to `best`, or to `sort` for another order."""

    async def answer(engine: Engine, request: Any, stages: Stages) -> AnswerBuilder:
        if request.sort == "best" and (not isinstance(request, ImageQuery) or request.caption):
            return await best(engine, request, stages)
        return await sort(engine, request, stages, best)

    return answer


async def encode(engine: Engine, parts: Sequence[Part], stages: Stages) -> Points:
    """Return the points of parts, in their order: (P, N) float32.

    Raises:
        ServiceError: `not_found` for an image that is not in the collection.
    """
    points: dict[Part, Points] = {}
    captions = list(dict.fromkeys(part for part in parts if isinstance(part, str)))
    if captions:
        encoded = await engine.encoder.captions(captions, stages)
        points.update(zip(captions, encoded, strict=True))
    ids = [part for part in parts if isinstance(part, int)]
    if ids:
        with stages.measure("metadata"):
            stored = await stored_points(engine, "image", ids)
        missing = next((image_id for image_id in ids if image_id not in stored), None)
        if missing is not None:
            raise no_image(missing)
        points.update(stored.items())
    for part in parts:
        if isinstance(part, bytes) and part not in points:
            pixels = await engine.pictures.pixels(part, stages)
            points[part] = await engine.encoder.encode(pixels, stages)
    return np.stack([points[part] for part in parts])


async def stored_points(engine: Engine, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
    """Return the points of the rows that are in the collection, by id."""
    return await engine.in_catalog(lambda: engine.index.points(kind, ids))


async def search(
    engine: Engine,
    kind: Kind,
    points: Points,
    options: SearchOptions,
    stages: Stages,
    *,
    joint: bool = False,
    spare: int = 0,
) -> SearchResult:
    """Return the best rows for a point (1, N), or with `joint` those for the worst of P points.

    The result has up to `spare` rows more than the options request.
    """
    key = search_key(engine, kind, options, len(points), joint=joint, spare=spare)
    (result,) = await engine.searcher.search(key, points, stages)
    return result


def search_key(
    engine: Engine,
    kind: Kind,
    options: SearchOptions,
    points: int = 1,
    *,
    joint: bool = False,
    spare: int = 0,
    query: TextQuery | None = None,
) -> SearchKey:
    """Return the key of a search, for batches of searches with the same options.

    The texts of images must contain the phrases of `query` and none of its excluded words.
    """
    selection = selection_of(engine, kind, options)
    if query is not None and (query.phrases or query.excluded):
        excluded = tuple(chain.from_iterable(map(words_of, query.excluded)))
        selection = replace(
            selection or Selection(), phrases=query.phrases, excluded_phrases=excluded
        )
    asked = Query(
        kind,
        search_depth(options) + spare,
        options.mode,
        options.candidates,
        _as_float32(options.max_violation),
        selection,
        isinstance(options, ImageOptions) and options.versions == "one",
        options.similar if isinstance(options, SimilarQuery | LikeQuery) else None,
    )
    return SearchKey(asked, options.offset, points, joint)


def search_depth(options: SearchOptions) -> int:
    """Return the number of best hits that include the requested page."""
    return min(options.offset + options.k, REACH_MAXIMUM)


def _as_float32(limit: float | None) -> float | None:
    # Violations are float32. A violation of an answer, sent back as a limit, must admit that hit.
    if limit is None or limit > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(limit))


def selection_of(engine: Engine, kind: Kind, options: SearchOptions) -> Selection | None:
    """Return the part of the collection to search; None is all of it."""
    filters: dict[str, Any] = {
        name: _filter_value(name, value, is_time=is_time)
        for name, is_time in _FILTERS.items()
        if (value := getattr(options, name)) is not None
    }
    distinct: bool = False
    written: bool | None = True
    if kind == "caption" and isinstance(options, DistinctOptions):
        distinct, written = options.distinct, options.written
    if written and not distinct and not filters:
        return None
    if "image_ids" in filters:
        filters["image_ids"] = tuple(sorted(set(filters["image_ids"])))
    return Selection(
        **filters,
        # Saved searches have relative paths, also on this machine.
        absolute_paths=engine.paths.absolute and filters.get("path_prefix", "")[:1] == "/",
        distinct_texts=distinct,
        written=written,
    )


def _filter_value(name: str, value: Any, *, is_time: bool) -> Any:
    if name == "near":
        return place_of(value)
    if not is_time:
        return value
    # Pictures have local times, so that zones are ignored.
    return milliseconds(_ZONE.sub("Z", value) if name.startswith("taken") else value)


def caption_hits(engine: Engine, result: SearchResult, picture: Points) -> list[Fields]:
    """Return the fields of a `CaptionHit` for each hit of a search for a picture's point (N,).

    Without a word that the model knows, all captions have the same point and no probability.
    """
    knows, judge = engine.vocabulary.knows, engine.judge
    if judge is None or result.ranking.parts is not None:
        return result.caption_hits(engine.paths)
    premises = np.broadcast_to(picture, (len(result.texts), len(picture)))
    probabilities = judge.probabilities(result.texts, premises, result.ranking.violations)
    hits = result.caption_hits(engine.paths, probabilities.round(4).tolist())
    for hit in hits:
        if not knows(hit["caption"]):
            hit["probability"] = None
    return hits


def caption_probabilities(
    engine: Engine, caption: str, images: Mapping[int, float | None]
) -> list[float | None]:
    """Return how likely a caption is true of images, by their ids and violations.

    None if that is not known, as for an image that was removed.
    """
    judge = engine.judge
    known = {id_: found for id_, found in images.items() if found is not None}
    premises = np.empty((len(known), 0), np.float32)
    if judge is not None and judge.reads_points:
        stored = engine.index.points("image", list(known))
        known = {id_: violation for id_, violation in known.items() if id_ in stored}
        premises = np.array([stored[id_] for id_ in known], np.float32)
    if judge is None or not known:
        return [None] * len(images)
    found = judge.probabilities([caption] * len(known), premises, list(known.values()))
    by_id = dict(zip(known, found.round(4).tolist(), strict=True))
    return [by_id.get(id_) for id_ in images]


def judge_of(model: Checkpoint, premise: Part) -> Judge | None:
    """Return what judges pairs of a part and a caption."""
    return model.judge("caption" if isinstance(premise, str) else "image")


def unknown_words(model: Checkpoint, parts: Iterable[Part]) -> list[str]:
    """Return the words of captions that the model does not know, each once."""
    unknown = model.vocabulary.unknown_words
    words = (word for part in parts if isinstance(part, str) for word in unknown(part))
    return list(dict.fromkeys(words))
