"""What operators see at /metrics: one table, one registry for each application."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

from service.timing import STAGES, Stages

# When a counter began is of no use here, and as many lines again.
disable_created_metrics()  # type: ignore[no-untyped-call]

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# Every metric of ours, with the sentence that explains it.
METRICS = {
    "hasse_requests": "Answers, by route and status.",
    "hasse_rejections": "Answers that were errors, by reason.",
    "hasse_request_seconds": "Time from the head of a request to the end of its answer, by route.",
    "hasse_stage_seconds": "Time that searches spent in each stage.",
    "hasse_batch_size": "Items worked on together, by kind of work.",
    "hasse_in_flight": "Searches that are worked on.",
    "hasse_queue_length": "Searches that wait for their turn.",
    "hasse_body_bytes": "Bytes of bodies held in memory.",
    "hasse_ready": "1 when searches are answered, else 0.",
    "hasse_rows": "Rows that can be found, by kind.",
    "hasse_generation": "The state of the collection that is searched.",
    "hasse_device_memory_bytes": "Memory of the encoders' device in use by this process.",
}


class Metrics:
    """The counters, gauges and histograms of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "hasse_requests", METRICS["hasse_requests"], ("route", "status"), registry=self.registry
        )
        self._rejections = Counter(
            "hasse_rejections", METRICS["hasse_rejections"], ("reason",), registry=self.registry
        )
        self._request_seconds = self._histogram("hasse_request_seconds", "route", _SECONDS)
        # Looking a label up takes longer than counting; routes, statuses and reasons are few.
        self._answers: dict[
            tuple[str, int, str | None], tuple[Counter, Counter | None, Histogram]
        ] = {}
        stage_seconds = self._histogram("hasse_stage_seconds", "stage", _SECONDS)
        self._stages = {stage: stage_seconds.labels(stage) for stage in STAGES}
        self._batch_size = self._histogram("hasse_batch_size", "kind", _SIZES)
        self._gauges = {
            name: Gauge(name, METRICS[name], registry=self.registry)
            for name in (
                "hasse_in_flight",
                "hasse_queue_length",
                "hasse_body_bytes",
                "hasse_ready",
                "hasse_generation",
                "hasse_device_memory_bytes",
            )
        }
        self._rows = Gauge("hasse_rows", METRICS["hasse_rows"], ("kind",), registry=self.registry)

    def _histogram(self, name: str, label: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, METRICS[name], (label,), registry=self.registry, buckets=buckets)

    def answered(self, route: str, status: int, reason: str | None, *seconds: float) -> None:
        """Count answers that were alike, by how long each took."""
        counted = self._answers.get((route, status, reason))
        if counted is None:
            counted = self._answers[route, status, reason] = (
                self._requests.labels(route, str(status)),
                self._rejections.labels(reason) if reason is not None else None,
                self._request_seconds.labels(route),
            )
        requests, rejections, request_seconds = counted
        requests.inc(len(seconds))
        for each in seconds:
            request_seconds.observe(each)
        if rejections is not None:
            rejections.inc(len(seconds))

    def searched(self, stages: Stages) -> None:
        """Record the stages of one search."""
        for stage, seconds in stages.seconds.items():
            self._stages[stage].observe(seconds)

    def batch(self, kind: str, size: int) -> None:
        """Record the size of one batch."""
        self._batch_size.labels(kind).observe(size)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Let a gauge of the table read its value when it is looked at."""
        self._gauges[name].set_function(read)

    def watch_rows(self, kind: str, read: Callable[[], float]) -> None:
        """Let the rows of a kind be read when they are looked at."""
        self._rows.labels(kind).set_function(read)

    def text(self) -> bytes:
        """Return everything in the exposition format."""
        return generate_latest(self.registry)
