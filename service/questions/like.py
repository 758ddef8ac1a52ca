"""Which images are like a picture, or like several, with something put in or taken out?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hasse.index.types import Points
from hasse.models.analogy import feedback_point, is_single_word, reword_captions, substitute
from hasse.service.core.answer_threads import run_in_thread
from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import (
    Fields,
    Making,
    calibration_of,
    depth_of,
    encode,
    search,
    unknown_words,
)
from hasse.service.questions.requests import (
    K_MAXIMUM,
    DistinctOptions,
    LikeQuery,
    Part,
    SimilarQuery,
)


async def answer_similar(engine: Engine, request: SimilarQuery, stages: Stages) -> Making:
    """Return the images that are like a picture, or like a stored image, which is left out.

    Violations are those of `hasse.index.search.similar`.
    """
    (point,) = await encode(engine, [request.image], stages)
    return await _without(engine, [request.image], point, [], request, stages)


async def answer(engine: Engine, request: LikeQuery, stages: Stages) -> Making:
    """Return the images most like `like` and `also`, and unlike `less`, with `plus` for `minus`.

    A single word is replaced within the captions that are true of `like`. The images that are named
    are left out.
    """
    score = engine.checkpoint.model.config.score
    similar, others = [request.like, *request.also], request.less
    points = await encode(engine, [*similar, *others], stages)
    start = feedback_point(score, points[: len(similar)], points[len(similar) :])
    plus, minus = await _in_captions(engine, request, start, stages)
    if plus or minus:
        terms = await encode(engine, [*plus, *minus], stages)
        start = substitute(score, start, terms[: len(plus)], terms[len(plus) :])
    starts = [*similar, *others]
    unknown = unknown_words(engine.checkpoint, [*starts, *request.plus, *request.minus])
    return await _without(engine, starts, start, unknown, request, stages)


async def _without(
    engine: Engine,
    starts: Sequence[Part],
    point: Points,
    unknown: Sequence[str],
    request: SimilarQuery | LikeQuery,
    stages: Stages,
) -> Making:
    """Return the images best for a point (N,), without those it was made from.

    Their other versions are left out with them. Violations are no probabilities, since no caption
    is involved.
    """
    stored = {part for part in starts if isinstance(part, int)}
    first, depth = request.offset, depth_of(request)
    from_first = request.model_copy(update={"offset": 0, "k": depth})
    found = await search(engine, "image", point[None], from_first, stages, spare=len(stored))

    def make() -> Fields:
        hits = [hit for hit in found.image_hits(engine.paths) if not _shows(hit, stored)]
        page = enumerate(hits[first:depth], first + 1)
        return {
            "hits": [hit | {"rank": rank, "shows": None} for rank, hit in page],
            **found.facts(engine.checkpoint.name),
            "unknown_words": unknown,
            "did_you_mean": None,
        }

    return make


def _shows(hit: Fields, stored: Collection[int]) -> bool:
    """Tell whether a hit is one of the images or a version of it."""
    return any(one["image_id"] in stored for one in (hit, *hit["versions"]))


async def _in_captions(
    engine: Engine, request: LikeQuery, start: Points, stages: Stages
) -> tuple[list[Part], list[Part]]:
    """Return `plus` and `minus`, with single words expanded to captions true of `like`.

    Without a calibration it is unknown which captions are true, so all words stay.
    """
    plus, minus = request.plus, request.minus
    calibration = calibration_of(engine.checkpoint, request.like)
    if calibration is None or not (_single_words(plus) and _single_words(minus)):
        return plus, minus
    options = DistinctOptions(
        k=K_MAXIMUM, max_violation=calibration.threshold, distinct=False, written=False
    )
    found = await search(engine, "caption", start[None], options, stages)
    texts = [text for text in found.texts if text]
    return await run_in_thread(lambda: expand_words(texts, plus, minus))


def expand_words(
    captions: Collection[str],
    plus: Sequence[Part],
    minus: Sequence[Part],
    reword: Callable[[Collection[str], str, str], Mapping[str, str]] = reword_captions,
) -> tuple[list[Part], list[Part]]:
    """Return `plus` and `minus`, with single words expanded to the captions that contain them.

    "dog" and "cat" become "a dog runs" and "a cat runs". A word without such a caption stays.
    """
    added, removed = _single_words(plus), _single_words(minus)
    for old, with_old in removed.items():
        # Filter once per old word: there may be a thousand captions.
        with_old.update(dict.fromkeys(reword(captions, old, old)))
        for new, with_new in added.items():
            with_new.update(dict.fromkeys(reword(with_old, old, new).values()))
    return _expanded(plus, added), _expanded(minus, removed)


def _single_words(parts: Sequence[Part]) -> dict[str, dict[str, None]]:
    return {part: {} for part in parts if isinstance(part, str) and is_single_word(part)}


def _expanded(parts: Sequence[Part], captions: Mapping[str, Iterable[str]]) -> list[Part]:
    result: list[Part] = []
    for part in parts:
        replacement = captions.get(part) if isinstance(part, str) else None
        result.extend(replacement or [part])
    return result
