"""Traces of requests: which spans there are, whose parts they are, and that nobody waits."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from hasse.service.app import create_app
from hasse.service.settings import Settings
from hasse.service.telemetry.collector import traces_of
from hasse.service.telemetry.logs import LOGGER
from hasse.service.telemetry.traces import LoggingExporter, Traces
from tests.service.client import Client
from tests.service.collection import png

ROOT = Path(__file__).parents[3]
CAPTION = {"caption": "a dog runs", "k": 3}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Spans:
    """A traced service, and the spans of what it was asked."""

    def __init__(self, settings: Settings, **how: Any) -> None:
        self.kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False, **how)
        provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.client = Client(create_app(settings, traces=Traces(provider)))

    def of(self, *questions: dict[str, Any], **how: Any) -> list[ReadableSpan]:
        """Ask at once, and return the spans when all requests have ended."""
        self.kept.clear()
        http = self.client.http

        async def ask() -> None:
            asked = [http.post("/search/images", json=one, **how) for one in questions]
            for answer in await asyncio.gather(*asked):
                assert answer.status_code == 200, answer.text
            await asyncio.sleep(0.01)  # a request is recorded after its answer

        self.client.run(ask())
        return list(self.kept.get_finished_spans())


@pytest.fixture(scope="module")
def traced(settings: Settings) -> Iterator[Spans]:
    spans = Spans(settings)
    with spans.client:
        yield spans


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records of the log."""
    records: list[Any] = []
    monkeypatch.setattr(LOGGER, "handle", records.append)
    monkeypatch.setattr(LOGGER, "isEnabledFor", lambda level: level >= logging.INFO)
    return records


def roots(spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    return [span for span in spans if span.name == "POST /search/images"]


def tree(spans: Sequence[ReadableSpan], of: ReadableSpan) -> dict[str, list[ReadableSpan]]:
    """Return the parts of a span by their names."""
    parts: dict[str, list[ReadableSpan]] = {}
    for span in spans:
        if span.parent is not None and span.parent.span_id == of.context.span_id:
            parts.setdefault(span.name, []).append(span)
    return parts


def test_search_has_a_span_for_each_stage_below_that_of_its_request(traced: Spans) -> None:
    spans = traced.of(CAPTION)
    (root,) = roots(spans)
    parts = tree(spans, root)
    stages = {"body", "queue encoder", "encode", "queue search", "prefilter", "rerank"}
    assert stages | {"metadata", "text", "answer", "batch encoder", "batch search"} <= set(parts)
    assert any("sql BEGIN" in tree(spans, text) for text in parts["text"])
    (encode,), (batch,) = parts["encode"], parts["batch encoder"]
    assert [link.context.span_id for link in encode.links] == [batch.context.span_id]
    assert {span.context.trace_id for span in spans} == {root.context.trace_id}
    within = sorted(span.start_time or 0 for span in spans)
    assert (root.start_time or 0) - 10**7 <= within[0]
    assert all((span.start_time or 0) <= (span.end_time or 0) for span in spans)


def test_span_holds_what_was_asked_by_name_and_neither_captions_nor_keys(traced: Spans) -> None:
    spans = traced.of(CAPTION, headers={"X-Request-ID": "mine", "X-API-Key": "secret"})
    (root,) = roots(spans)
    facts = dict(root.attributes or {})
    assert facts["http.route"] == facts["url.path"] == "/search/images"
    assert (facts["http.response.status_code"], facts["hasse.request_id"]) == (200, "mine")
    every = " ".join(span.to_json() for span in spans)
    assert "dog" not in every
    assert "secret" not in every


def test_log_line_has_the_ids_of_the_request_and_its_trace(traced: Spans, lines: list[Any]) -> None:
    (root,) = roots(traced.of(CAPTION, headers={"X-Request-ID": "mine"}))
    (line,) = [one.facts for one in lines if one.getMessage() == "request"]
    assert (line["id"], line["trace"]) == ("mine", f"{root.context.trace_id:032x}")


def test_request_goes_on_with_the_trace_of_its_client(traced: Spans) -> None:
    (root,) = roots(traced.of(CAPTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}))
    assert root.parent is not None
    assert (root.context.trace_id, root.parent.span_id) == (int(TRACE, 16), int(PARENT, 16))
    assert traced.of(CAPTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}) == []


def test_batch_of_two_requests_is_a_span_linked_to_both(
    traced: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    batcher = traced.client.engine.encoder.batcher
    take, sizes = batcher._next_batch, [2]

    def two_once() -> object:
        size = sizes.pop() if sizes else 1
        while batcher.waiting < size and not batcher._closing:
            time.sleep(0.005)
        return take()

    monkeypatch.setattr(batcher, "_next_batch", two_once)
    traced.of(CAPTION)  # the thread takes this one as before, and then two together
    spans = traced.of(CAPTION, CAPTION | {"caption": "a cat"})
    both = {root.context.span_id for root in roots(spans)}
    (batch,) = [span for span in spans if span.name == "batch encoder"]
    assert {link.context.span_id for link in batch.links} == both
    assert (batch.attributes or {})["hasse.size"] == 2
    encoded = [span for span in spans if span.name == "encode"]
    assert {span.parent.span_id for span in encoded if span.parent} == both
    assert {span.links[0].context.span_id for span in encoded} == {batch.context.span_id}


def test_upload_has_spans_of_its_queue_and_the_statements_of_its_transaction(
    tmp_path: Path, collection: Path
) -> None:
    shutil.copytree(collection.parent, tmp_path / "copy")
    library = tmp_path / "copy" / collection.name
    spans = Spans(Settings(library=library, device="cpu", open_writes=True))
    with spans.client as client:
        assert client.post("/images", files={"image": ("new.png", png(50))}).status_code == 201
        client.run(asyncio.sleep(0.01))
        found = spans.kept.get_finished_spans()
        (root,) = [span for span in found if span.name == "POST /images"]
        parts = tree(found, root)
        assert {"body", "decode", "encode", "batch writer"} <= set(parts)
        assert "sql INSERT" in tree(found, parts["batch writer"][0])


def test_requests_that_are_not_sampled_have_no_spans(settings: Settings) -> None:
    spans = Spans(settings, sampler=ALWAYS_OFF)
    with spans.client:
        assert spans.of(CAPTION) == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:9", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:9", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_without_a_collector_nothing_is_traced_or_said(
    variables: dict[str, str], lines: list[Any]
) -> None:
    assert traces_of(variables) is None
    assert not lines


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf, not otlp over grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "not zipkin"),
    ],
)
def test_collector_that_cannot_be_used_is_named_and_nothing_is_traced(
    name: str, value: str, reason: str, lines: list[Any]
) -> None:
    assert traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:9", name: value}) is None
    assert reason in lines[0].facts["reason"]


def test_collector_without_the_extra_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    monkeypatch.delitem(sys.modules, "hasse.service.telemetry.traces")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    assert traces_of({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:9"}) is None
    assert 'pip install -e ".[traces]"' in lines[0].facts["reason"]


def test_collector_that_is_gone_is_said_once_and_neither_fails_an_answer_nor_holds_up_the_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    traces = traces_of()
    assert traces is not None
    with Client(create_app(settings, traces=traces)) as client:
        while not (lost := [one for one in lines if one.getMessage() == "traces are lost"]):
            assert client.post("/search/images", json=CAPTION).status_code == 200
        for _ in range(3):
            assert client.post("/search/images", json=CAPTION).status_code == 200
    traces.close()
    assert len(lost) == 1
    assert [one.getMessage() for one in lines].count("traces are lost") == 1


def test_collector_that_answers_again_is_said_once(lines: list[Any]) -> None:
    class Collector(SpanExporter):
        result = SpanExportResult.FAILURE

        def export(self, _: Sequence[ReadableSpan]) -> SpanExportResult:
            return self.result

    collector = Collector()
    exporter = LoggingExporter(collector)
    for collector.result in (*[SpanExportResult.FAILURE] * 2, *[SpanExportResult.SUCCESS] * 2):
        exporter.export([])
    said = [one.getMessage() for one in lines]
    assert said == ["traces are lost", "traces are sent again"]


class Collector(BaseHTTPRequestHandler):
    """Takes spans once it may, and keeps their names."""

    may = threading.Event()
    names: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        sent = ExportTraceServiceRequest()
        sent.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/traces"
        self.may.wait(60)
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.names.extend(span.name for span in scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@pytest.mark.parametrize("answers", [True, False])
def test_end_of_a_service_sends_what_waits_and_leaves_a_collector_that_says_nothing(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
    Collector.names.clear()
    Collector.may.clear()
    if answers:
        Collector.may.set()
    traces = traces_of()
    assert traces is not None
    with traces.part({}, "work"):
        pass
    traces.close(60 if answers else 0.1)
    assert Collector.names == (["work"] if answers else [])
    Collector.may.set()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_service_without_a_collector_imports_nothing_that_makes_or_sends_spans() -> None:
    program = (
        "import sys; import hasse.service.runtime.server, hasse.service.cluster.deployment\n"
        "from hasse.service.telemetry.collector import traces_of\n"
        "assert traces_of({}) is None\n"
        # FastAPI imports the API, which does nothing by itself.
        "print(*(one for one in sys.modules if one.startswith('opentelemetry.sdk')"
        " or one.startswith('opentelemetry.exporter')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr + done.stdout
