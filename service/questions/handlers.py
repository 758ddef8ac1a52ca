"""The handler of each question of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hasse.service.core.engine import Engine
from hasse.service.questions import (
    captions,
    describe,
    diagram,
    embed,
    entails,
    evidence,
    images,
    joint,
    like,
    sorting,
    table,
)
from hasse.service.questions.pipeline import Handler, run, sorted_by
from hasse.service.questions.table import AnswerType_co, Question, RequestType
from hasse.service.telemetry.stages import Stages

HANDLERS: Mapping[Question[Any, Any], Handler[Any]] = {
    table.SEARCH_IMAGES: sorted_by(sorting.answer, evidence.answer),
    table.SEARCH_IMAGES_BATCH: images.answer,
    table.SEARCH_SIMILAR: sorted_by(sorting.answer, like.answer_similar),
    table.SEARCH_CAPTIONS: captions.answer,
    table.SEARCH_ALL_OF: sorted_by(sorting.answer, joint.answer_all_of),
    table.SEARCH_COMMON: joint.answer_common,
    table.SEARCH_LIKE: sorted_by(sorting.answer, like.answer),
    table.ENTAILS: entails.answer,
    table.ENTAILS_BATCH: entails.answer_batch,
    table.DIAGRAM: diagram.answer,
    table.DESCRIBE: describe.answer,
    table.EMBED: embed.answer,
}


async def ask(
    engine: Engine,
    question: Question[RequestType, AnswerType_co],
    request: RequestType,
    stages: Stages | None = None,
) -> AnswerType_co:
    """Answer a question; raises what `hasse.service.questions.pipeline.run` raises."""
    validate = question.answer.model_validate
    return await run(engine, HANDLERS[question], request, stages or Stages(), validate)
