"""What a query leaves out: which pictures surely show it, and which may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hasse.index.text.query import TextQuery
from hasse.index.types import Points
from hasse.service.core.engine import Engine
from hasse.service.core.searching import violations_of
from hasse.service.questions.pipeline import caption_probabilities
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import MAY_BE_THERE, is_true


async def excluded_points(engine: Engine, query: TextQuery, stages: Stages) -> dict[str, Points]:
    """Return the points of the excluded texts that the model knows."""
    known = filter(engine.vocabulary.knows, query.excluded)
    return {text: await engine.encoder.encode(text, stages) for text in known}


def without_excluded(
    engine: Engine, query: TextQuery, points: Mapping[str, Points], image_ids: Sequence[int]
) -> tuple[Sequence[int], dict[int, list[str]]]:
    """Return the images that do not surely show excluded things, in their order.

    The second value has the excluded texts that they may show.
    """
    showing: set[int] = set()
    may_show: dict[int, list[str]] = {}
    for text in query.excluded:
        if text in points:
            violations = violations_of(engine.index, image_ids, points[text])
            probabilities = caption_probabilities(engine, text, violations)
            for id_, probability in zip(violations, probabilities, strict=True):
                if is_true(probability):
                    showing.add(id_)
                elif probability is not None and probability >= MAY_BE_THERE:
                    may_show.setdefault(id_, []).append(text)
    allowed = [id_ for id_ in image_ids if id_ not in showing] if showing else image_ids
    return allowed, {id_: texts for id_, texts in may_show.items() if id_ not in showing}
