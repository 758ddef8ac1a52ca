"""Which captions are true of several things at once?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.joint import jointly
from hasse.service.questions.pipeline import Fields, calibration_of
from hasse.service.questions.requests import CommonQuery


async def answer(engine: Engine, request: CommonQuery, stages: Stages) -> Fields:
    """Return the captions that are true of every part, ranked by the part that each fits worst."""
    calibrations = [calibration_of(engine.checkpoint, part) for part in request.common]
    return await jointly(engine, "caption", request.common, calibrations, request, stages)
