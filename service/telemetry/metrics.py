"""The metrics at /metrics: one table, and one registry for each application.

Several worker processes store their counts in files of one folder (`PROMETHEUS_MULTIPROC_DIR`,
which must be set before this module is imported). Any worker answers for all of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Literal

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

from hasse.service.telemetry.stages import STAGES

# Creation times of counters would double the lines.
disable_created_metrics()  # type: ignore[no-untyped-call]

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# The help text of every metric.
METRICS = {
    "hasse_requests": "Answers, by route and status.",
    "hasse_rejections": "Error answers, by reason.",
    "hasse_request_seconds": "Time from the head to the answer of admitted requests, by route.",
    "hasse_stage_seconds": "Time of searches in each stage.",
    "hasse_batch_size": "Size of batches, by kind of work.",
    "hasse_in_flight": "Searches in flight.",
    "hasse_queue_length": "Searches in the queue.",
    "hasse_body_bytes": "Bytes of bodies held in memory.",
    "hasse_ready": "1 when searches are answered, else 0.",
    "hasse_rows": "Searchable rows, by kind.",
    "hasse_generation": "The generation of the collection that is searched.",
    "hasse_following": "0 while the process that follows folders is restarted, else 1.",
    "hasse_follower_restarts": "Restarts of the process that follows folders.",
    "hasse_device_memory_bytes": "Memory of the encoders' device in use by this process.",
}

# How the gauges of several processes are combined.
GAUGES: dict[str, Literal["livesum", "livemin"]] = {
    "hasse_in_flight": "livesum",
    "hasse_queue_length": "livesum",
    "hasse_body_bytes": "livesum",
    "hasse_device_memory_bytes": "livesum",
    "hasse_ready": "livemin",
    "hasse_following": "livemin",
    "hasse_follower_restarts": "livemin",
    "hasse_generation": "livemin",
    "hasse_rows": "livemin",
}
# Process metrics that are the minimum over workers, not the sum.
_MINIMUM = ("process_start_time_seconds", "process_max_fds")


class Metrics:
    """The counters, gauges and histograms of one application, or of all workers together."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._exposed_registry = self.registry
        self._gauges: dict[str, Gauge] = {}
        self._watched_gauges: list[tuple[Gauge, Callable[[], float]]] = []
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")  # prometheus_client reads it too
        if folder:
            self._exposed_registry = CollectorRegistry()
            MultiProcessCollector(self._exposed_registry)  # type: ignore[no-untyped-call]
            self._exposed_registry.register(_Processes(Path(folder)))
        else:
            ProcessCollector(registry=self.registry)
        # Cached, because finding a label takes longer than counting, and there are few labels.
        self.requests = cache(self._counter("hasse_requests", "route", "status").labels)
        self.rejections = cache(self._counter("hasse_rejections", "reason").labels)
        request_seconds = self._histogram("hasse_request_seconds", "route", _SECONDS)
        self.request_seconds = cache(request_seconds.labels)
        stage_seconds = self._histogram("hasse_stage_seconds", "stage", _SECONDS)
        self.stage_seconds = {stage: stage_seconds.labels(stage) for stage in STAGES}
        self.batch_size = self._histogram("hasse_batch_size", "kind", _SIZES)

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, METRICS[name], labels, registry=self.registry)

    def _histogram(self, name: str, label: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, METRICS[name], (label,), registry=self.registry, buckets=buckets)

    def watch(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """Set a gauge to the result of `read`, now and at every update."""
        # A new gauge is 0, which `livemin` would show for all workers: set it at once.
        gauge = self._gauges.get(name) or Gauge(
            name,
            METRICS[name],
            tuple(labels),
            registry=self.registry,
            multiprocess_mode=GAUGES[name],
        )
        self._gauges[name] = gauge
        self._watched_gauges.append((gauge.labels(**labels) if labels else gauge, read))
        self.update_gauges()

    def update_gauges(self) -> None:
        """Update all gauges, so that other workers see current values."""
        for gauge, read in self._watched_gauges:
            gauge.set(read())

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self.update_gauges()
        return generate_latest(self._exposed_registry)


class _Processes(Collector):
    """Process metrics, summed over all live workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a `ProcessCollector`, combined over all workers with gauges."""
        by_name: dict[str, Metric] = {}
        values: defaultdict[str, list[float]] = defaultdict(list)
        for pid in {path.stem.rpartition("_")[2] for path in self._folder.glob("gauge_live*.db")}:
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                by_name[metric.name] = metric
                values[metric.name] += [sample.value for sample in metric.samples]
        for name, metric in by_name.items():
            total = min(values[name]) if name in _MINIMUM else sum(values[name])
            metric.samples = [metric.samples[0]._replace(value=total)]
        return by_name.values()
