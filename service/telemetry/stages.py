"""Durations of the stages of a request, for `Server-Timing`, histograms and traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

STAGES = ("decode", "queue", "encode", "prefilter", "rerank", "metadata", "text", "total")
_ZERO = dict.fromkeys(STAGES, 0.0)
_HEADER = ", ".join((*(f"{stage};dur=%.2f" for stage in STAGES), 'statements;desc="%d"'))
_UNTRACED = nullcontext()


class Span(Protocol):
    """A span of a trace; `hasse.service.telemetry.traces` implements it."""

    def add(self, name: str, start: float, end: float, batch: Span | None = None) -> None:
        """Add a child span that has ended, by `perf_counter`; link it to that of its batch."""

    def begin(
        self, name: str, linked: Sequence[Span] = (), **facts: Any
    ) -> AbstractContextManager[Span]:
        """Add a child span for the time of a block; it is the current span of the block."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers that continue the trace in another process (W3C Trace Context)."""


# The current span of this task or thread; None without tracing.
SPAN: ContextVar[Span | None] = ContextVar("span", default=None)


def traced(name: str) -> AbstractContextManager[object]:
    """Record a block as a child of the current span, if there is one."""
    span = SPAN.get()
    return _UNTRACED if span is None else span.begin(name)


@dataclass(slots=True)
class Stages:
    """Stopwatch with a total for each stage. Each duration is also a span, if traced.

    Attributes:
        started: time of creation, by `perf_counter`.
        seconds: total duration of each stage; durations of repeated stages add up.
        statements: number of statements to the catalog, those of its batch included.
    """

    started: float = field(default_factory=perf_counter)
    seconds: dict[str, float] = field(default_factory=_ZERO.copy)
    statements: int = 0

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the duration of a block, also when it raises."""
        start = perf_counter()
        try:
            with traced(stage):
                yield
        finally:
            self.seconds[stage] += perf_counter() - start

    def add(self, stage: str, start: float, end: float, batch: Span | None = None) -> None:
        """Add a duration that has ended; `batch` is the span of the shared batch, if any."""
        self.seconds[stage] += end - start
        if (span := SPAN.get()) is not None:
            span.add(stage, start, end, batch)

    def wait(self, queue: str, start: float, end: float) -> None:
        """Add the time spent in a queue; the span has the name of the queue."""
        self.seconds["queue"] += end - start
        if (span := SPAN.get()) is not None:
            span.add(f"queue {queue}", start, end)

    def header(self) -> str:
        """Return the value of a `Server-Timing` header: milliseconds of each stage, statements."""
        milliseconds = [1e3 * seconds for seconds in self.seconds.values()]
        return _HEADER % (*milliseconds, self.statements)
