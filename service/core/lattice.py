"""Searches by several parts, and entailment: what only an order of points can answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hasse.index.types import Kind
from hasse.models.analogy import is_bare, reworded, substitute
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.evaluation.calibration import Calibration
from hasse.models.model import Points
from hasse.models.score import penalties_between
from hasse.service.core.by_picture import caption_hits
from hasse.service.core.encoding import Point, check_caption, check_query
from hasse.service.core.engine import Engine
from hasse.service.core.searching import Found, depth_of, plain
from hasse.service.core.stages import Stages
from hasse.service.errors import no_image
from hasse.service.lattice_schemas import AllOfAnswer, CommonAnswer, Entailment, Entailments, Part
from hasse.service.picture_schemas import DistinctOptions
from hasse.service.schemas import K_MAXIMUM, ImageAnswer, SearchOptions

_NO_PROBABILITY = {"probability": None}


async def all_of(
    engine: Engine, parts: Sequence[Part], options: SearchOptions, stages: Stages
) -> AllOfAnswer:
    """Return the images that every part is true of, ranked by the part that each fits worst.

    All functions here raise ServiceError: what the searches of the engine raise, and `not_found`
    for an image that is not in the collection.
    """
    known = engine.calibration.image
    calibrations = [
        known.of(part) if known is not None and isinstance(part, str) else None for part in parts
    ]
    fields = await _jointly(engine, "image", "all_of", parts, calibrations, options, stages)
    return AllOfAnswer.model_validate(fields)


async def common(
    engine: Engine, parts: Sequence[Part], options: SearchOptions, stages: Stages
) -> CommonAnswer:
    """Return the captions that are true of every part, ranked by the part that each fits worst."""
    calibrations = [_calibration(engine.checkpoint, part) for part in parts]
    fields = await _jointly(engine, "caption", "common", parts, calibrations, options, stages)
    return CommonAnswer.model_validate(fields)


async def _jointly(
    engine: Engine,
    kind: Kind,
    field: str,
    parts: Sequence[Part],
    calibrations: Sequence[Calibration | None],
    options: SearchOptions,
    stages: Stages,
) -> dict[str, Any]:
    """Return the fields of the answer to a search by parts; each part has a calibration or none."""
    engine.check_options(options)
    _check(engine, field, parts)
    async with engine.enter(stages):
        points = await _points(engine, parts, stages)
        found = await engine.search_jointly(kind, points, options, stages)
    each = _each(found, calibrations)
    knows = engine.vocabulary.knows
    hits = found.image_hits() if kind == "image" else caption_hits(found, knows)
    fields = {
        "hits": [
            hit
            | each[hit[f"{kind}_id"]]
            | ({} if kind == "image" or knows(hit["caption"]) else _NO_PROBABILITY)
            for hit in hits
        ],
        "unknown_words": _unknown_words(engine.checkpoint, parts),
        **found.facts(engine.name),
    }
    engine.finish(stages)
    return fields


async def like(
    engine: Engine,
    start: Part,
    plus: Sequence[Part],
    minus: Sequence[Part],
    options: SearchOptions,
    stages: Stages,
) -> ImageAnswer:
    """Return the images most like `start`, with `plus` in the place of `minus`.

    A single word is replaced within the captions that are true of `start`. If `start` is a stored
    image, it is not among the hits.
    """
    engine.check_options(options)
    for name, parts in (("like", [start]), ("plus", plus), ("minus", minus)):
        _check(engine, name, parts)
    from_first = options.model_copy(update={"offset": 0, "k": depth_of(options)})
    async with engine.enter(stages):
        (start_point,) = await _points(engine, [start], stages)
        put, taken = await _in_captions(engine, start, start_point, plus, minus, stages)
        terms = await _points(engine, [*put, *taken], stages)
        point: Point = substitute(
            engine.score,
            torch.from_numpy(start_point),
            torch.from_numpy(terms[: len(put)]),
            torch.from_numpy(terms[len(put) :]),
        ).numpy()
        # One more than asked for, because `start` is left out.
        found = await engine.search("image", point, from_first, stages, spare=1)
    hits = [hit for hit in found.image_hits() if hit["image_id"] != start]
    wanted = hits[options.offset : depth_of(options)]
    answer = ImageAnswer.model_validate(
        {
            "hits": [
                hit | {"rank": rank} | _NO_PROBABILITY
                for rank, hit in enumerate(wanted, options.offset + 1)
            ],
            "unknown_words": _unknown_words(engine.checkpoint, [start, *plus, *minus]),
            **found.facts(engine.name),
        }
    )
    engine.finish(stages)
    return answer


async def entails(engine: Engine, premise: Part, hypothesis: str, stages: Stages) -> Entailment:
    """Tell whether a hypothesis follows from a premise."""
    (answer,) = await _entailments(engine, {"": (premise, hypothesis)}, stages)
    return answer


async def each_entails(
    engine: Engine, pairs: Sequence[tuple[Part, str]], stages: Stages
) -> Entailments:
    """Tell for each pair whether its hypothesis follows from its premise."""
    by_field = {f"pairs.{at}.": pair for at, pair in enumerate(pairs)}
    return Entailments(answers=await _entailments(engine, by_field, stages))


async def _entailments(
    engine: Engine, pairs: Mapping[str, tuple[Part, str]], stages: Stages
) -> list[Entailment]:
    """Answer pairs by their field in the request, which errors name."""
    for field, (premise, hypothesis) in pairs.items():
        if isinstance(premise, str):
            check_caption(premise, engine.settings, f"{field}premise")
        check_caption(hypothesis, engine.settings, f"{field}hypothesis")
    async with engine.enter(stages):
        points = await _points(engine, [part for pair in pairs.values() for part in pair], stages)
    engine.finish(stages)
    return [
        entailment(
            engine.checkpoint,
            pair,
            float(penalties_between(engine.score, points[[2 * at]], points[[2 * at + 1]])[0, 0]),
        )
        for at, pair in enumerate(pairs.values())
    ]


def entailment(model: Checkpoint, pair: tuple[Part, str], violation: float) -> Entailment:
    """Return what the violation of a premise and a hypothesis means."""
    calibration = _calibration(model, pair[0])
    if calibration is not None:
        calibration = calibration.of(pair[1])
    probability = threshold = entailed = None
    if calibration is not None:
        threshold = plain(np.float32(calibration.threshold))
        if all(_is_known(model, part) for part in pair):
            probability = round(float(calibration.probability(violation)), 4)
            entailed = violation <= calibration.threshold
    return Entailment(
        violation=plain(np.float32(violation)),
        probability=probability,
        entailed=entailed,
        threshold=threshold,
        unknown_words=_unknown_words(model, pair),
        model=model.name,
    )


async def _points(engine: Engine, parts: Sequence[Part], stages: Stages) -> Points:
    """Return the points of parts, in their order: (P, N) float32."""
    points: dict[Part, Point] = {}
    captions = list(dict.fromkeys(part for part in parts if isinstance(part, str)))
    if captions:
        encoded = await engine.encode_captions(captions, stages)
        points.update(zip(captions, encoded, strict=True))
    ids = [part for part in parts if isinstance(part, int)]
    if ids:
        with stages.measure("metadata"):
            stored = await engine.stored_points("image", ids)
        missing = next((image_id for image_id in ids if image_id not in stored), None)
        if missing is not None:
            raise no_image(missing)
        points.update(stored.items())
    for part in parts:
        if isinstance(part, bytes) and part not in points:
            points[part] = await engine.encode_picture(part, stages)
    return np.stack([points[part] for part in parts])


def _check(engine: Engine, field: str, parts: Sequence[Part]) -> None:
    # An uploaded picture has a field of its own and does not count here.
    listed = [part for part in parts if not isinstance(part, bytes)]
    for at, part in enumerate(listed):
        if isinstance(part, str):
            place = field if len(listed) == 1 else f"{field}.{at}"
            check_query(part, engine.vocabulary, engine.settings, place)


def _calibration(model: Checkpoint, premise: Part) -> Calibration | None:
    """Return the calibration of pairs of a part and a caption."""
    known = model.calibration
    return known.caption if isinstance(premise, str) else known.image


def _is_known(model: Checkpoint, part: Part) -> bool:
    """Tell whether the model knows a word of a part; it knows every picture."""
    return not isinstance(part, str) or model.vocabulary.knows(part)


def _unknown_words(model: Checkpoint, parts: Sequence[Part]) -> list[str]:
    unknown = model.vocabulary.unknown
    words = (word for part in parts if isinstance(part, str) for word in unknown(part))
    return list(dict.fromkeys(words))


async def _in_captions(
    engine: Engine,
    start: Part,
    point: Point,
    plus: Sequence[Part],
    minus: Sequence[Part],
    stages: Stages,
) -> tuple[list[Part], list[Part]]:
    """Return `plus` and `minus`, with single words expanded to captions true of `start`.

    Without a calibration nothing tells which captions are true, so all words stay.
    """
    calibration = _calibration(engine.checkpoint, start)
    if calibration is None or not (_single_words(plus) and _single_words(minus)):
        return list(plus), list(minus)
    options = DistinctOptions(
        k=K_MAXIMUM, max_violation=calibration.threshold, distinct=False, written=False
    )
    found = await engine.search("caption", point, options, stages)
    true = [found.captions[int(hit)].text for hit in found.answer.ids if int(hit) in found.captions]
    return expand_words(true, plus, minus)


def expand_words(
    captions: Collection[str],
    plus: Sequence[Part],
    minus: Sequence[Part],
    reword: Callable[[Collection[str], str, str], Mapping[str, str]] = reworded,
) -> tuple[list[Part], list[Part]]:
    """Return `plus` and `minus`, with single words expanded to the captions that contain them.

    "dog" and "cat" become "a dog runs" and "a cat runs". A word without such a caption stays.
    """
    put, taken = _single_words(plus), _single_words(minus)
    for old, with_old in taken.items():
        # Filter once per old word: there may be a thousand captions, and this blocks the loop.
        with_old.update(dict.fromkeys(reword(captions, old, old)))
        for new, with_new in put.items():
            with_new.update(dict.fromkeys(reword(with_old, old, new).values()))
    return _expanded(plus, put), _expanded(minus, taken)


def _single_words(parts: Sequence[Part]) -> dict[str, dict[str, None]]:
    return {part: {} for part in parts if isinstance(part, str) and is_bare(part)}


def _expanded(parts: Sequence[Part], captions: Mapping[str, Iterable[str]]) -> list[Part]:
    result: list[Part] = []
    for part in parts:
        replacement = captions.get(part) if isinstance(part, str) else None
        result.extend(replacement or [part])
    return result


def _each(found: Found, calibrations: Sequence[Calibration | None]) -> dict[int, dict[str, Any]]:
    """Return, by the id of the hit, the violations of all parts and their least probability."""
    answer = found.answer
    if answer.parts is None:
        raise TypeError("only a joint search has parts")
    each: dict[int, dict[str, Any]] = {}
    for hit, violations in zip(answer.ids.tolist(), answer.parts, strict=True):
        text = found.captions[hit].text if hit in found.captions else ""
        probabilities = [
            float(calibration.of(text).probability(violation).round(4))
            for calibration, violation in zip(calibrations, violations, strict=True)
            if calibration is not None
        ]
        each[hit] = {
            "parts": [plain(violation) for violation in violations],
            "probability": min(probabilities) if len(probabilities) == len(calibrations) else None,
        }
    return each
