"""Which images are like one or several, with something put in or taken out?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hasse.index.types import Points
from hasse.models.analogy import feedback_point, is_bare, reworded, substitute
from hasse.service.core.answering import beside_loop
from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.pipeline import (
    Fields,
    calibration_of,
    encode,
    search,
    search_without,
    unknown_words,
)
from hasse.service.questions.requests import K_MAXIMUM, DistinctOptions, LikeQuery, Part


async def answer(engine: Engine, request: LikeQuery, stages: Stages) -> Fields:
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
    fields = await search_without(engine, starts, start, request, stages)
    unknown = unknown_words(engine.checkpoint, [*starts, *request.plus, *request.minus])
    return fields | {"unknown_words": unknown, "did_you_mean": None}


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
    return await beside_loop(lambda: expand_words(texts, plus, minus))


def expand_words(
    captions: Collection[str],
    plus: Sequence[Part],
    minus: Sequence[Part],
    reword: Callable[[Collection[str], str, str], Mapping[str, str]] = reworded,
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
    return {part: {} for part in parts if isinstance(part, str) and is_bare(part)}


def _expanded(parts: Sequence[Part], captions: Mapping[str, Iterable[str]]) -> list[Part]:
    result: list[Part] = []
    for part in parts:
        replacement = captions.get(part) if isinstance(part, str) else None
        result.extend(replacement or [part])
    return result
