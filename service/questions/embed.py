"""What are the embeddings of texts, or of a picture?"""

from __future__ import annotations

from hasse.index.types import Points
from hasse.service.core.engine import Engine
from hasse.service.core.searching import shortest_decimal
from hasse.service.questions.pipeline import AnswerBuilder, Fields, encode
from hasse.service.questions.requests import EmbedQuery, Part
from hasse.service.telemetry.stages import Stages


async def answer(engine: Engine, request: EmbedQuery, stages: Stages) -> AnswerBuilder:
    """Return the embeddings of parts in their order, and the model."""
    points = await encode(engine, request.texts, stages)
    return lambda: _fields(engine, request, points)


def _fields(engine: Engine, request: EmbedQuery, points: Points) -> Fields:
    model = engine.checkpoint
    return {
        "embeddings": [
            _embedding(engine, part, point)
            for part, point in zip(request.texts, points, strict=True)
        ],
        "score": model.model.config.score,
        "dimension": points.shape[1],
        "model": model.name,
        "fingerprint": model.fingerprint,
    }


def _embedding(engine: Engine, part: Part, point: Points) -> Fields:
    words = engine.vocabulary
    return {
        "embedding": [shortest_decimal(coordinate) for coordinate in point],
        "known": not isinstance(part, str) or words.knows(part),
        "unknown_words": words.unknown_words(part) if isinstance(part, str) else [],
    }
