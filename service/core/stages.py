"""How long each stage of a request took: the `Server-Timing` header and the histograms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

STAGES = ("decode", "queue", "encode", "prefilter", "rerank", "metadata", "text", "total")
_ZERO = dict.fromkeys(STAGES, 0.0)
_HEADER = ", ".join(f"{stage};dur=%.2f" for stage in STAGES)


@dataclass(slots=True)
class Stages:
    """A stopwatch with one hand for each stage.

    Attributes:
        started: when it was made.
        seconds: of each stage so far; a stage that happens twice is the sum of both.
    """

    started: float = field(default_factory=perf_counter)
    seconds: dict[str, float] = field(default_factory=_ZERO.copy)

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
