"""How long each stage of a request took: the `Server-Timing` header and the histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from hasse.service.schemas import Answer

STAGES = ("decode", "queue", "encode", "prefilter", "rerank", "metadata", "total")
_HEADER = ", ".join(f"{stage};dur=%.2f" for stage in STAGES)


class Stages:
    """A stopwatch with one hand for each stage.

    Attributes:
        started: when it was made.
        seconds: of each stage so far; a stage that happens twice is the sum of both.
    """

    __slots__ = ("seconds", "started")

    def __init__(self) -> None:
        self.started = perf_counter()
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time that a block takes, also when it raises."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += perf_counter() - start

    def header(self) -> str:
        """Return the value of a `Server-Timing` header: milliseconds, of each stage."""
        return _HEADER % tuple([1e3 * seconds for seconds in self.seconds.values()])


def answered(answer: Answer | Mapping[str, Any], stages: Stages) -> Response:
    """Send an answer, or the fields of one, that no cache keeps, with the time of its stages."""
    headers = {"Server-Timing": stages.header(), "Cache-Control": "no-store"}
    body = answer.model_dump_json() if isinstance(answer, Answer) else to_json(answer)
    return Response(body, 200, headers, "application/json")
