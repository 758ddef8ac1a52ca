"""Which images are several things true of at once?"""

from __future__ import annotations

from hasse.service.core.engine import Engine
from hasse.service.core.stages import Stages
from hasse.service.questions.joint import jointly
from hasse.service.questions.pipeline import Fields
from hasse.service.questions.requests import AllOfQuery


async def answer(engine: Engine, request: AllOfQuery, stages: Stages) -> Fields:
    """Return the images that every part is true of, ranked by the part that each fits worst."""
    known, parts = engine.calibration.image, request.all_of
    calibrations = [known.of(part) if known and isinstance(part, str) else None for part in parts]
    return await jointly(engine, "image", parts, calibrations, request, stages)
