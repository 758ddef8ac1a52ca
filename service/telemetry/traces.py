"""Traces requests with OpenTelemetry: a span for each request, each stage and each SQL statement.

Imported only if requests are traced, see `hasse.service.telemetry.collector`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter, time_ns
from typing import Any

import sqlalchemy as sql
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from sqlalchemy import event as sql_event
from starlette.types import Scope

from hasse.service.telemetry.logs import event
from hasse.service.telemetry.stages import SPAN, Span

_VERSION = version("hasse-search")
_W3C = TraceContextTextMapPropagator()
_HEADERS = frozenset(name.encode() for name in _W3C.fields)
# These loggers log each failure. `LoggingExporter` logs the first.
_NOISY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")
_FLUSH_SECONDS = 2.0  # of the 4 seconds that a stopping service has for its threads


class Traces:
    """Records spans of requests. A thread sends or loses them; no request waits for it."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("hasse", _VERSION)
        if not sql_event.contains(sql.Engine, "before_cursor_execute", _begin_statement):
            sql_event.listen(sql.Engine, "before_cursor_execute", _begin_statement)
            sql_event.listen(sql.Engine, "after_cursor_execute", _end_statement)

    @classmethod
    def to_collector(cls) -> Traces:
        """Return traces that are sent to a collector; the standard variables set the options."""
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        resource = Resource.create({"service.version": _VERSION, "process.pid": os.getpid()})
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "hasse"}))
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(LoggingExporter(OTLPSpanExporter())))
        return cls(provider)

    def request(self, scope: Scope, method: str, request_id: str) -> TracedSpan:
        """Begin the span of a request, in the trace that its headers name, if any."""
        headers = {
            str(name, "ascii"): str(value, "latin-1")
            for name, value in scope["headers"]
            if name in _HEADERS
        }
        facts = {
            "http.request.method": method,
            "url.path": scope["path"][:200],
            "url.scheme": scope["scheme"],
            "hasse.request_id": request_id,
        }
        return self._begin(method, headers, facts)

    @contextmanager
    def part(self, headers: Mapping[str, str], name: str, **facts: Any) -> Iterator[None]:
        """Trace a block as a part of the trace of another process that `headers` name."""
        with self._begin(name, headers, _prefixed(facts)).current():
            yield

    def close(self, seconds: float = _FLUSH_SECONDS) -> None:
        """Send the queued spans, for at most `seconds`; the rest is lost."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(seconds)

    def _begin(self, name: str, headers: Mapping[str, str], facts: Mapping[str, Any]) -> TracedSpan:
        span = self._tracer.start_span(
            name, _W3C.extract(headers), kind=SpanKind.SERVER, attributes=facts
        )
        return TracedSpan(self._tracer, span, set_span_in_context(span))


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span, with the context of its parts; see `hasse.service.telemetry.stages.Span`."""

    _tracer: Tracer
    _span: OtelSpan
    _context: Context

    @property
    def recorded(self) -> TracedSpan | None:
        """This span, or None if the sampler left it out."""
        return self if self._span.is_recording() else None

    @property
    def trace_id(self) -> str:
        """The id of the trace: 32 hexadecimal digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def add(self, name: str, start: float, end: float, batch: Span | None = None) -> None:
        """Add a part that has ended, linked to its batch; times are of `perf_counter`."""
        self._add(name, start, end, _links([] if batch is None else [batch]), {})

    def add_statement(self, start: float, system: str, statement: str) -> None:
        """Add an SQL statement that has just ended."""
        operation = statement.split(maxsplit=1)[0].upper()
        facts = {"db.system.name": system, "db.query.text": statement}
        self._add(f"sql {operation}", start, perf_counter(), [], facts, SpanKind.CLIENT)

    @contextmanager
    def begin(self, name: str, linked: Sequence[Span] = (), **facts: Any) -> Iterator[Span]:
        """Add a block as a part; inside the block, the part is the current span."""
        span = self._tracer.start_span(
            name, self._context, links=_links(linked), attributes=_prefixed(facts)
        )
        with TracedSpan(self._tracer, span, set_span_in_context(span)).current() as part:
            yield part

    @contextmanager
    def current(self) -> Iterator[Span]:
        """Make this the current span of a block, and end the span after it."""
        token = SPAN.set(self.recorded)
        try:
            yield self
        except BaseException as error:
            # The message is left out, because it may contain a caption.
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            SPAN.reset(token)
            self._span.end()

    def headers(self) -> Mapping[str, str]:
        """Return headers that continue the trace in another process (W3C Trace Context)."""
        headers: dict[str, str] = {}
        _W3C.inject(headers, self._context)
        return headers

    def end(self, method: str, route: str, status: int, reason: str | None) -> None:
        """End the span of a request that was answered."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if reason is not None:
            self._span.set_attribute("error.type", reason)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _add(
        self,
        name: str,
        start: float,
        end: float,
        links: Sequence[Link],
        facts: Mapping[str, str],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        span = self._tracer.start_span(
            name, self._context, kind, facts, links, start_time=_since_1970(start)
        )
        span.end(_since_1970(end))


class LoggingExporter(SpanExporter):
    """Logs when an exporter begins to fail, and when it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        result = self._exporter.export(spans)
        has_failed = result is not SpanExportResult.SUCCESS
        if has_failed and not self._is_failing:
            event("traces are lost", logging.WARNING, reason="the collector does not take them")
        elif self._is_failing and not has_failed:
            event("traces are sent again")
        self._is_failing = has_failed
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()


def _prefixed(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"hasse.{name}": value for name, value in facts.items()}


def _links(spans: Sequence[Span]) -> list[Link]:
    traced = (span for span in spans if isinstance(span, TracedSpan))
    return [Link(span._span.get_span_context()) for span in traced]


def _since_1970(at: float) -> int:
    """Return nanoseconds since 1970 of a time of `perf_counter`."""
    return time_ns() - round(1e9 * (perf_counter() - at))


def _begin_statement(connection: sql.Connection, *_: object) -> None:
    if SPAN.get() is not None:
        connection.info["hasse.started"] = perf_counter()


def _end_statement(connection: sql.Connection, _: object, statement: str, *__: object) -> None:
    started = connection.info.pop("hasse.started", None)
    span = SPAN.get()
    if isinstance(span, TracedSpan) and started is not None:
        span.add_statement(started, connection.dialect.name, statement)
