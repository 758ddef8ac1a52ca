"""How long each stage of a request took: `Server-Timing`, the histograms, and spans of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

STAGES = ("decode", "queue", "encode", "prefilter", "rerank", "metadata", "text", "total")
_ZERO = dict.fromkeys(STAGES, 0.0)
_HEADER = ", ".join(f"{stage};dur=%.2f" for stage in STAGES)
_UNTRACED = nullcontext()


class Span(Protocol):
    """A piece of work that a trace records; `hasse.service.runtime.traces` makes them."""

    def add(self, name: str, start: float, end: float, batch: Span | None = None) -> None:
        """Add a part that has ended, by the clock of `perf_counter`, and link it to its batch."""

    def begin(
        self, name: str, linked: Sequence[Span] = (), **facts: Any
    ) -> AbstractContextManager[Span]:
        """Add a part that takes as long as a block, whose current span it is."""

    def headers(self) -> Mapping[str, str]:
        """Return what lets another process go on with the trace (W3C Trace Context)."""


# The span that the work of this task or thread is part of; None where nothing is traced.
SPAN: ContextVar[Span | None] = ContextVar("span", default=None)


def traced(name: str) -> AbstractContextManager[object]:
    """Make a block a part of the current span, if there is one."""
    span = SPAN.get()
    return _UNTRACED if span is None else span.begin(name)


@dataclass(slots=True)
class Stages:
    """A stopwatch with one hand for each stage. Each time it takes is also a span, if traced.

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
            with traced(stage):
                yield
        finally:
            self.seconds[stage] += perf_counter() - start

    def add(self, stage: str, start: float, end: float, batch: Span | None = None) -> None:
        """Add a time that has passed, in a batch if it was shared."""
        self.seconds[stage] += end - start
        if (span := SPAN.get()) is not None:
            span.add(stage, start, end, batch)

    def wait(self, queue: str, start: float, end: float) -> None:
        """Add a time in a queue, which the span names."""
        self.seconds["queue"] += end - start
        if (span := SPAN.get()) is not None:
            span.add(f"queue {queue}", start, end)

    def header(self) -> str:
        """Return the value of a `Server-Timing` header: milliseconds, of each stage."""
        return _HEADER % tuple([1e3 * seconds for seconds in self.seconds.values()])
