"""How long each stage of a request took: the `Server-Timing` header and the histograms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

STAGES = ("decode", "queue", "encode", "prefilter", "rerank", "metadata", "total")
_HEADER = ", ".join(f"{stage};dur=%.2f" for stage in STAGES)


class Stages:
    """A stopwatch with one hand for each stage.

    Attributes:
        waited: seconds that the request stood in line before anything was done for it.
        started: when it came.
        seconds: of each stage so far.
    """

    __slots__ = ("seconds", "started", "waited")

    def __init__(self, waited: float = 0.0) -> None:
        self.waited = waited
        self.started = perf_counter() - waited
        self.seconds: dict[str, float] = {"queue": waited} if waited else {}

    def add(self, stage: str, seconds: float) -> None:
        """Add time to a stage; one that happens twice is the sum of both."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time that a block takes, also when it raises."""
        start = perf_counter()
        try:
            yield
        finally:
            self.add(stage, perf_counter() - start)

    def finish(self) -> None:
        """Set the total, from the making of this stopwatch until now."""
        self.seconds["total"] = perf_counter() - self.started

    def header(self) -> str:
        """Return the value of a `Server-Timing` header: milliseconds, of each stage."""
        return _HEADER % tuple([1e3 * self.seconds.get(stage, 0.0) for stage in STAGES])
