"""What operators see at /metrics: one table, one registry for each application.

Where several processes share a port, each keeps its counts in files of one folder
(`PROMETHEUS_MULTIPROC_DIR`, which has to be set before this is imported), and whichever is asked
answers for all of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from service.core.stages import STAGES, Stages

# When a counter began is of no use here, and as many lines again.
disable_created_metrics()  # type: ignore[no-untyped-call]

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# Every metric of ours, with the sentence that explains it.
METRICS = {
    "hasse_requests": "Answers, by route and status.",
    "hasse_rejections": "Answers that were errors, by reason.",
    "hasse_request_seconds": "Time from head to answer of requests that were let in, by route.",
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


# What is read when it is looked at, and what that of several processes is as one.
_GAUGES: dict[str, Literal["livesum", "livemin"]] = {
    "hasse_in_flight": "livesum",
    "hasse_queue_length": "livesum",
    "hasse_body_bytes": "livesum",
    "hasse_device_memory_bytes": "livesum",
    "hasse_ready": "livemin",
    "hasse_generation": "livemin",
    "hasse_rows": "livemin",
}
_LABELS = {"hasse_rows": ("kind",)}
# What the system knows of each of several processes is added up, but for these.
_LEAST = ("process_start_time_seconds", "process_max_fds")


class _Watched(NamedTuple):
    name: str
    labels: tuple[str, ...]
    read: Callable[[], float]


class Metrics:
    """The counters, gauges and histograms of one application, or of all that share a folder."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shown = self.registry
        self._gauges: dict[str, Gauge] = {}
        self._watched: list[_Watched] = []
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")  # by it prometheus_client decides too
        self._several = bool(folder)
        if folder:
            self._shown = CollectorRegistry()
            MultiProcessCollector(self._shown)  # type: ignore[no-untyped-call]
            self._shown.register(_Processes(Path(folder)))
        else:
            ProcessCollector(registry=self.registry)
            for name in _GAUGES:
                self._gauge(name)
        self._requests = Counter(
            "hasse_requests", METRICS["hasse_requests"], ("route", "status"), registry=self.registry
        )
        self._rejections = Counter(
            "hasse_rejections", METRICS["hasse_rejections"], ("reason",), registry=self.registry
        )
        self._request_seconds = self._histogram("hasse_request_seconds", "route", _SECONDS)
        # Looking a label up takes longer than counting; routes, statuses and reasons are few.
        self._answers: dict[tuple[str, int, str | None], tuple[Counter, Counter | None]] = {}
        self._seconds: dict[str, Histogram] = {}
        stage_seconds = self._histogram("hasse_stage_seconds", "stage", _SECONDS)
        self._stages = {stage: stage_seconds.labels(stage) for stage in STAGES}
        self._batch_size = self._histogram("hasse_batch_size", "kind", _SIZES)

    def _histogram(self, name: str, label: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, METRICS[name], (label,), registry=self.registry, buckets=buckets)

    def answered(self, route: str, status: int, reason: str | None, seconds: float | None) -> None:
        """Count an answer, and how long it took unless the request was not let in."""
        counted = self._answers.get((route, status, reason))
        if counted is None:
            counted = self._answers[route, status, reason] = (
                self._requests.labels(route, str(status)),
                self._rejections.labels(reason) if reason is not None else None,
            )
        requests, rejections = counted
        requests.inc()
        if rejections is not None:
            rejections.inc()
        if seconds is not None:
            of_route = self._seconds.get(route)
            if of_route is None:
                of_route = self._seconds[route] = self._request_seconds.labels(route)
            of_route.observe(seconds)

    def searched(self, stages: Stages) -> None:
        """Record the stages of one search."""
        for stage, seconds in stages.seconds.items():
            if seconds:
                self._stages[stage].observe(seconds)

    def batch(self, kind: str, size: int) -> None:
        """Record the size of one batch."""
        self._batch_size.labels(kind).observe(size)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Let a gauge of the table read its value when it is looked at."""
        self._watch(_Watched(name, (), read))

    def watch_rows(self, kind: str, read: Callable[[], float]) -> None:
        """Let the rows of a kind be read when they are looked at."""
        self._watch(_Watched("hasse_rows", (kind,), read))

    def show(self) -> None:
        """Let the other processes, if there are any, see what is watched here as it is now."""
        for watched in self._watched:
            self._one(watched).set(watched.read())

    def text(self) -> bytes:
        """Return everything in the exposition format."""
        self.show()
        return generate_latest(self._shown)

    def _watch(self, watched: _Watched) -> None:
        if self._several:  # whose functions no other process can call
            self._watched.append(watched)
        else:
            self._one(watched).set_function(watched.read)

    def _one(self, watched: _Watched) -> Gauge:
        gauge = self._gauge(watched.name)
        return gauge.labels(*watched.labels) if watched.labels else gauge

    def _gauge(self, name: str) -> Gauge:
        # Of several processes each has a gauge from when it shows it: a new one is 0 for all.
        if name not in self._gauges:
            self._gauges[name] = Gauge(
                name,
                METRICS[name],
                _LABELS.get(name, ()),
                registry=self.registry,
                multiprocess_mode=_GAUGES[name],
            )
        return self._gauges[name]


class _Processes(Collector):
    """What the system knows of several processes, as of one: those that have gauges in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a `ProcessCollector`, over all processes that live."""
        found: dict[str, Metric] = {}
        values: defaultdict[str, list[float]] = defaultdict(list)
        for pid in {path.stem.rpartition("_")[2] for path in self._folder.glob("gauge_live*.db")}:
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                found[metric.name] = metric
                values[metric.name] += [sample.value for sample in metric.samples]
        for name, metric in found.items():
            (first, *_) = metric.samples
            total = min(values[name]) if name in _LEAST else sum(values[name])
            metric.samples = [first._replace(value=total)]
        return found.values()
