"""Answers a question in the process of the command, without a service."""

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

# Long, because nobody else waits here, and the kernels may be compiled first.
_DEADLINE_SECONDS = 3600.0
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class FilledQuestion:
    """A question with the values of its request. Values that its request lacks are ignored."""

    question: Question[Any, Any]
    fields: dict[str, Any]

    @property
    def has_picture(self) -> bool:
        """Whether a value, or a part of one, is a picture."""
        lists = (value if isinstance(value, list) else [value] for value in self.fields.values())
        return any(isinstance(part, bytes) for parts in lists for part in parts)

    def request(self) -> Any:
        """Return the request; raises ServiceError `invalid` for values that it refuses."""
        from hasse.service.errors import validated

        model = self.question.request
        values = {name: self.fields[name] for name in model.model_fields if name in self.fields}
        return validated(model, values)


def answer_question(settings: Settings, filled: FilledQuestion) -> Any:
    """Answer a question. The image encoder is loaded only if a part is a picture."""
    import_numpy()
    from hasse.service.questions import table
    from hasse.service.questions.handlers import ask

    request = filled.request()
    return run_with_engine(
        settings,
        lambda engine: ask(engine, filled.question, request),
        with_pictures=filled.has_picture,
        one_off=filled.question is not table.DESCRIBE,  # which encodes many captions
    )


def run_with_engine(
    settings: Settings,
    work: Callable[[Engine], Awaitable[Result]],
    *,
    with_pictures: bool = False,
    one_off: bool = True,
) -> Result:
    """Open the library, and return the result of `work` with its engine."""
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
    """Import numpy with a single thread of OpenBLAS.

    More threads would have no work for one caption, and spin for a tenth of a second at the start.
    """
    if _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    import numpy  # noqa: F401

    del os.environ[_BLAS_THREADS]
