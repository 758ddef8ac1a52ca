"""Which images are like a picture, or like several, with something added or removed?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from hasse.index.types import Points
from hasse.models.analogy import feedback_point, is_single_word, reword_captions, substitute
from hasse.service.core.answer_threads import run_in_thread
from hasse.service.core.engine import Engine
from hasse.service.questions.pipeline import (
    AnswerBuilder,
    Fields,
    encode,
    judge_of,
    search,
    search_depth,
    unknown_words,
)
from hasse.service.questions.requests import (
    DistinctOptions,
    LikeQuery,
    Part,
    SimilarQuery,
)
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import is_true

# Nearest captions of a picture, of which the true ones are reworded.
_TRUE_CAPTIONS = 200


async def answer_similar(engine: Engine, request: SimilarQuery, stages: Stages) -> AnswerBuilder:
    """Return the images that are like a picture or a stored image, without that image.

    Violations are those of `hasse.index.search.similar`.
    """
    (point,) = await encode(engine, [request.image], stages)
    return await _search_without(engine, [request.image], point, [], request, stages)


async def answer(engine: Engine, request: LikeQuery, stages: Stages) -> AnswerBuilder:
    """Return the images most like `like` and `also`, and unlike `less`, with `plus` for `minus`.

    A single word is replaced within the captions that are true of `like`. Images of the request are
    no hits.
    """
    score = engine.checkpoint.model.config.score
    examples, counterexamples = [request.like, *request.also], request.less
    parts = [*examples, *counterexamples]
    points = await encode(engine, parts, stages)
    start = feedback_point(score, points[: len(examples)], points[len(examples) :])
    plus, minus = await _expand_in_captions(engine, request, start, stages)
    if plus or minus:
        terms = await encode(engine, [*plus, *minus], stages)
        start = substitute(score, start, terms[: len(plus)], terms[len(plus) :])
    unknown = unknown_words(engine.checkpoint, [*parts, *request.plus, *request.minus])
    return await _search_without(engine, parts, start, unknown, request, stages)


async def _search_without(
    engine: Engine,
    parts: Sequence[Part],
    point: Points,
    unknown: Sequence[str],
    request: SimilarQuery | LikeQuery,
    stages: Stages,
) -> AnswerBuilder:
    """Return the best images for a point (N,), without images of the request and their versions.

    Hits have no probabilities, since no caption is involved.
    """
    stored = {part for part in parts if isinstance(part, int)}
    first, depth = request.offset, search_depth(request)
    from_first = request.model_copy(update={"offset": 0, "k": depth})
    result = await search(engine, "image", point[None], from_first, stages, spare=len(stored))

    def build() -> Fields:
        hits = [hit for hit in result.image_hits(engine.paths) if not _is_version(hit, stored)]
        page = enumerate(hits[first:depth], first + 1)
        return {
            "hits": [hit | {"rank": rank, "shows": None} for rank, hit in page],
            **result.facts(engine.checkpoint.name),
            "unknown_words": unknown,
            "did_you_mean": None,
        }

    return build


def _is_version(hit: Fields, stored: Collection[int]) -> bool:
    """Return whether a hit is one of the images or a version of one."""
    return any(version["image_id"] in stored for version in (hit, *hit["versions"]))


async def _expand_in_captions(
    engine: Engine, request: LikeQuery, start: Points, stages: Stages
) -> tuple[list[Part], list[Part]]:
    """Return `plus` and `minus`, with single words expanded to captions true of `like`.

    Without a calibration it is unknown which captions are true, so all words stay.
    """
    plus, minus = request.plus, request.minus
    judge = judge_of(engine.checkpoint, request.like)
    if judge is None or not (_single_words(plus) and _single_words(minus)):
        return plus, minus
    options = DistinctOptions(k=_TRUE_CAPTIONS, distinct=False, written=False)
    result = await search(engine, "caption", start[None], options, stages)

    def expand() -> tuple[list[Part], list[Part]]:
        premises = np.broadcast_to(start, (len(result.texts), len(start)))
        found = judge.probabilities(result.texts, premises, result.ranking.violations)
        judged = zip(result.texts, found.tolist(), strict=True)
        true = [text for text, probability in judged if text and is_true(probability)]
        return expand_words(true, plus, minus)

    return await run_in_thread(expand)


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
