"""Answers one question of a command in its own process, without a service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasse.service.questions.table import Question
    from hasse.service.settings import Settings

# Of a service it bounds the queue; here nobody else waits, and the kernels may be compiled first.
_DEADLINE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with values for its request, and perhaps for others."""

    question: Question[Any, Any]
    fields: dict[str, Any]

    @property
    def has_picture(self) -> bool:
        """Whether a part is a picture."""
        each = (value if isinstance(value, list) else [value] for value in self.fields.values())
        return any(isinstance(part, bytes) for parts in each for part in parts)


def answer_to(settings: Settings, asked: Asked) -> Any:
    """Answer a question. The image encoder is loaded only if a part is a picture."""
    from hasse.service.core.engine import Engine
    from hasse.service.errors import validated
    from hasse.service.questions.handlers import ask

    patient = settings.model_copy(update={"deadline_seconds": _DEADLINE_SECONDS})

    async def run() -> Any:
        engine = Engine.for_one_question(patient, with_pictures=asked.has_picture)
        request = asked.question.request
        known = {name: asked.fields[name] for name in request.model_fields if name in asked.fields}
        try:
            return await ask(engine, asked.question, validated(request, known))
        finally:
            engine.close()

    return asyncio.run(run())
