"""Answers one question of a command in its own process, without a service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine
    from hasse.service.questions.table import Question
    from hasse.service.settings import Settings

Result = TypeVar("Result")

# Of a service it bounds the queue; here nobody else waits, and the kernels may be compiled first.
_DEADLINE_SECONDS = 3600.0
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


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

    def request(self) -> Any:
        """Return the request; raises ServiceError `invalid`."""
        from hasse.service.errors import validated

        model = self.question.request
        known = {name: self.fields[name] for name in model.model_fields if name in self.fields}
        return validated(model, known)


def answer_to(settings: Settings, asked: Asked) -> Any:
    """Answer a question. The image encoder is loaded only if a part is a picture."""
    import_numpy()
    from hasse.service.questions import table
    from hasse.service.questions.handlers import ask

    request = asked.request()
    return with_engine(
        settings,
        lambda engine: ask(engine, asked.question, request),
        with_pictures=asked.has_picture,
        one_off=asked.question is not table.DESCRIBE,  # which encodes many captions
    )


def with_engine(
    settings: Settings,
    work: Callable[[Engine], Awaitable[Result]],
    *,
    with_pictures: bool = False,
    one_off: bool = True,
) -> Result:
    """Open the library for some questions, and return what `work` makes of it."""
    import_numpy()
    from hasse.service.core.engine import Engine

    patient = settings.model_copy(update={"deadline_seconds": _DEADLINE_SECONDS})

    async def run() -> Result:
        engine = Engine.for_one_question(patient, with_pictures=with_pictures, one_off=one_off)
        try:
            return await work(engine)
        finally:
            engine.close()

    return asyncio.run(run())


def import_numpy() -> None:
    """Import numpy with one thread of OpenBLAS: several spin for a tenth of a second at the start.

    One caption leaves them nothing to do.
    """
    if _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    import numpy  # noqa: F401

    del os.environ[_BLAS_THREADS]
