"""Answers one question of a command in its own process, without a service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from hasse.service.questions.table import Question
    from hasse.service.settings import Settings


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


def answer_to(settings: Settings, asked: Asked, otherwise: Asked | None = None) -> Any:
    """Answer a question, or the other one where the first has nothing to search.

    The image encoder is loaded only if a part is a picture.
    """
    from hasse.service.core.engine import Engine
    from hasse.service.errors import validated
    from hasse.service.questions.handlers import ask

    async def answer(engine: Engine, asked: Asked) -> Any:
        request = asked.question.request
        known = {name: asked.fields[name] for name in request.model_fields if name in asked.fields}
        return await ask(engine, asked.question, validated(request, known))

    async def run() -> Any:
        engine = Engine.for_one_question(settings, with_pictures=asked.has_picture)
        try:
            found = await answer(engine, asked)
            if otherwise is None or found.searched:
                return found
            typer.echo("there are no captions to search: these are images like it", err=True)
            return await answer(engine, otherwise)
        finally:
            engine.close()

    return asyncio.run(run())
