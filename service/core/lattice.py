"""Answers to the questions of `service.lattice_schemas`, by the engine's encoders and index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from index.search.joint_search import JointAnswer
from models.analogy import is_bare, reworded, substitute
from models.evaluation.calibration import Calibration, Calibrations
from models.model import Points
from models.score import penalties_between
from models.vocabulary import Vocabulary
from service.core.encoding import Point, check_caption
from service.core.engine import Engine
from service.core.searching import Found, plain
from service.core.stages import Stages
from service.errors import absent
from service.lattice_schemas import AllOfAnswer, CommonAnswer, Entailment, Entailments, Part
from service.schemas import K_MAXIMUM, ImageAnswer, SearchOptions

_UNKNOWN = {"probability": None}


class Known(Protocol):
    """What a model knows: words, and what its violations mean."""

    @property
    def name(self) -> str:
        """The name of the model."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it learned."""

    @property
    def calibration(self) -> Calibrations:
        """What violations mean, where it is calibrated."""


async def all_of(
    engine: Engine, parts: Sequence[Part], options: SearchOptions, stages: Stages
) -> AllOfAnswer:
    """Return the images that every part is true of, by the part that each fits worst.

    All functions here raise ServiceError: as the engine's own searches do, and `not_found` for
    an image that is not in the collection.
    """
    engine.check_options(options)
    _check(engine, "all_of", parts)
    async with engine.enter(stages):
        points = await _points(engine, parts, stages)
        found = await engine.search_jointly("image", points, options, stages)
    calibration = engine.calibration
    each = _each(
        found,
        [
            calibration.image if isinstance(part, str) and _says(engine, part) else None
            for part in parts
        ],
    )
    answer = AllOfAnswer.model_validate(
        {
            "hits": [hit | each[hit["image_id"]] for hit in found.image_hits()],
            "unknown_words": _unknown(engine, parts),
            **found.facts(engine.name),
        }
    )
    engine.finish(stages)
    return answer


async def common(
    engine: Engine, parts: Sequence[Part], options: SearchOptions, stages: Stages
) -> CommonAnswer:
    """Return the captions that are true of every part, by the part that each fits worst."""
    engine.check_options(options)
    _check(engine, "common", parts)
    async with engine.enter(stages):
        points = await _points(engine, parts, stages)
        found = await engine.search_jointly("caption", points, options, stages)
    each = _each(
        found, [_calibration(engine, part) if _says(engine, part) else None for part in parts]
    )
    vocabulary = engine.vocabulary
    answer = CommonAnswer.model_validate(
        {
            "hits": [
                hit
                | each[hit["caption_id"]]
                | ({} if vocabulary.knows(hit["caption"]) else _UNKNOWN)
                for hit in found.caption_hits(vocabulary.knows)
            ],
            "unknown_words": _unknown(engine, parts),
            **found.facts(engine.name),
        }
    )
    engine.finish(stages)
    return answer


async def like(
    engine: Engine,
    start: Part,
    plus: Sequence[Part],
    minus: Sequence[Part],
    options: SearchOptions,
    stages: Stages,
) -> ImageAnswer:
    """Return the images most like `start` with `plus` in the place of `minus`.

    Single words are exchanged in the captions that are true of `start`. A stored image that is
    started from is left out of the hits.
    """
    engine.check_options(options)
    for name, parts in (("like", [start]), ("plus", plus), ("minus", minus)):
        _check(engine, name, parts)
    whole = options.model_copy(update={"offset": 0, "k": options.depth})
    async with engine.enter(stages):
        (begun,) = await _points(engine, [start], stages)
        put, taken = await _in_captions(engine, start, begun, plus, minus, stages)
        terms = await _points(engine, [*put, *taken], stages)
        point = _substituted(engine, begun, terms[: len(put)], terms[len(put) :])
        # One more than is wanted, because one may be left out.
        found = await engine.search("image", point, whole, stages, spare=1)
    hits = [hit for hit in found.image_hits() if hit["image_id"] != start]
    wanted = hits[options.offset : options.depth]
    answer = ImageAnswer.model_validate(
        {
            "hits": [
                hit | {"rank": rank} | _UNKNOWN
                for rank, hit in enumerate(wanted, options.offset + 1)
            ],
            "unknown_words": _unknown(engine, [start, *plus, *minus]),
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
    """Tell of each pair whether its hypothesis follows from its premise."""
    places = {f"pairs.{at}.": pair for at, pair in enumerate(pairs)}
    return Entailments(answers=await _entailments(engine, places, stages))


async def _entailments(
    engine: Engine, pairs: Mapping[str, tuple[Part, str]], stages: Stages
) -> list[Entailment]:
    """Answer pairs by the place that they have in the request, which errors name."""
    for place, (premise, hypothesis) in pairs.items():
        _check(engine, f"{place}premise", [premise])
        check_caption(hypothesis, engine.settings, f"{place}hypothesis")
    async with engine.enter(stages):
        points = await _points(engine, [part for pair in pairs.values() for part in pair], stages)
    engine.finish(stages)
    return [
        entailment(
            engine,
            pair,
            float(penalties_between(engine.score, points[[2 * at]], points[[2 * at + 1]])[0, 0]),
        )
        for at, pair in enumerate(pairs.values())
    ]


def entailment(known: Known, pair: tuple[Part, str], violation: float) -> Entailment:
    """Return what the violation of a pair means."""
    calibration = _calibration(known, pair[0])
    probability = threshold = entailed = None
    if calibration is not None:
        threshold = plain(np.float32(calibration.threshold))
        if all(_says(known, part) for part in pair):
            probability = round(float(calibration.probability(violation)), 4)
            entailed = violation <= calibration.threshold
    return Entailment(
        violation=plain(np.float32(violation)),
        probability=probability,
        entailed=entailed,
        threshold=threshold,
        unknown_words=_unknown(known, pair),
        model=known.name,
    )


async def _points(engine: Engine, parts: Sequence[Part], stages: Stages) -> Points:
    """Return the points of parts, in their order: (P, N) float32."""
    found: dict[Part, Point] = {}
    captions = list(dict.fromkeys(part for part in parts if isinstance(part, str)))
    if captions:
        encoded = await engine.encode_captions(captions, stages)
        found.update(zip(captions, encoded, strict=True))
    ids = [part for part in parts if isinstance(part, int)]
    if ids:
        with stages.measure("metadata"):
            stored = await engine.stored_points("image", ids)
        missing = next((image_id for image_id in ids if image_id not in stored), None)
        if missing is not None:
            raise absent(missing)
        found.update(stored.items())
    for part in parts:
        if isinstance(part, bytes) and part not in found:
            found[part] = await engine.encode_picture(part, stages)
    return np.stack([found[part] for part in parts])


def _check(engine: Engine, field: str, parts: Sequence[Part]) -> None:
    # A picture that was sent has a field of its own, and no place among these.
    named = [part for part in parts if not isinstance(part, bytes)]
    for at, part in enumerate(named):
        if isinstance(part, str):
            check_caption(part, engine.settings, field if len(named) == 1 else f"{field}.{at}")


def _calibration(known: Known, premise: Part) -> Calibration | None:
    """Return what the violations of captions by a part mean."""
    return known.calibration.caption if isinstance(premise, str) else known.calibration.image


def _says(known: Known, part: Part) -> bool:
    """Tell whether a part says anything: a caption of which no word is known does not."""
    return not isinstance(part, str) or known.vocabulary.knows(part)


def _unknown(known: Known, parts: Sequence[Part]) -> list[str]:
    captions = (part for part in parts if isinstance(part, str))
    words = (word for caption in captions for word in known.vocabulary.unknown(caption))
    return list(dict.fromkeys(words))


async def _in_captions(
    engine: Engine,
    start: Part,
    point: Point,
    plus: Sequence[Part],
    minus: Sequence[Part],
    stages: Stages,
) -> tuple[list[Part], list[Part]]:
    """Return what is put in and taken out, single words as the captions true of `start` say them.

    A word that none of them says stays alone, and so does every word where the model was not
    calibrated: nobody measured what is true.
    """
    calibration = _calibration(engine, start)
    put, taken = _bare(plus), _bare(minus)
    if calibration is None or not (put and taken):
        return list(plus), list(minus)
    options = SearchOptions(k=K_MAXIMUM, max_violation=calibration.threshold)
    found = await engine.search("caption", point, options, stages)
    true = [found.captions[int(hit)].text for hit in found.answer.ids if int(hit) in found.captions]
    for old, saying in taken.items():
        # Once, and not again for each word that may replace it: there may be a thousand captions,
        # and nothing else is answered meanwhile.
        saying.update(dict.fromkeys(reworded(true, old, old)))
        for new, said in put.items():
            said.update(dict.fromkeys(reworded(saying, old, new).values()))
    return _said(plus, put), _said(minus, taken)


def _bare(parts: Sequence[Part]) -> dict[str, dict[str, None]]:
    return {part: {} for part in parts if isinstance(part, str) and is_bare(part)}


def _said(parts: Sequence[Part], captions: Mapping[str, Iterable[str]]) -> list[Part]:
    found: list[Part] = []
    for part in parts:
        said = captions.get(part) if isinstance(part, str) else None
        found.extend(said or [part])
    return found


def _substituted(engine: Engine, like: Point, plus: Points, minus: Points) -> Point:
    start, put, taken = (torch.from_numpy(points) for points in (like, plus, minus))
    point: Point = substitute(engine.score, start, put, taken).numpy()
    return point


def _each(found: Found, known: Sequence[Calibration | None]) -> dict[int, dict[str, Any]]:
    """Return, by the id of the hit, the violations of all parts and the least of their chances."""
    answer = found.answer
    if not isinstance(answer, JointAnswer):
        raise TypeError("only a joint search has parts")
    each: dict[int, dict[str, Any]] = {}
    for hit, violations in zip(answer.ids.tolist(), answer.parts, strict=True):
        chances = [
            float(calibration.probability(violation).round(4))
            for calibration, violation in zip(known, violations, strict=True)
            if calibration is not None
        ]
        each[hit] = {
            "parts": [plain(violation) for violation in violations],
            "probability": min(chances) if len(chances) == len(known) else None,
        }
    return each
