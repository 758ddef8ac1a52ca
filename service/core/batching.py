"""Dynamic batching: threads take as many waiting items as fit into a batch.

No item waits for a batch to fill: a batch has the items that arrived while the one before it ran.
Items with the same key may share a batch: captions of similar length, searches with the same
options. A batch that raises is repeated item by item, so that only the faulty item fails. When a
client disconnects, its future is cancelled and its item is skipped.

The event loop and the threads exchange many items at a time. Each handover makes threads wait for
each other, since Python runs one of them at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

from hasse.service.errors import ServiceError
from hasse.service.telemetry.logs import event
from hasse.service.telemetry.stages import SPAN, Span

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerStoppedError(ServiceError):
    """The threads of a batcher have stopped."""

    def __init__(self, name: str) -> None:
        super().__init__("not_ready", f"the {name} has stopped")


@dataclass(frozen=True, slots=True)
class BatchResult(Generic[Result]):
    """The result of an item, and the times of its submission and of its batch, by `perf_counter`.

    `batch` is the span of the batch, if one of its items is traced.
    """

    result: Result
    submitted: float
    started: float
    ended: float
    batch: Span | None = None

    @property
    def waited(self) -> float:
        """Seconds that the item waited for its batch."""
        return self.started - self.submitted


@dataclass(slots=True)
class _Job(Generic[Key, Item, Result]):
    """An item with a future for its result."""

    key: Key
    item: Item
    future: asyncio.Future[BatchResult[Result]]
    loop: asyncio.AbstractEventLoop
    number: int = 0
    submitted: float = field(default_factory=perf_counter)
    span: Span | None = field(default_factory=SPAN.get)


class Batcher(Generic[Key, Item, Result]):
    """Threads that run `run(key, items) -> results`, one batch of one key at a time.

    Args:
        name: name of the threads.
        run: takes a key and its items, returns one result for each in the same order. Runs only
            in the threads of this batcher, one call at a time in each.
        size: maximum number of items in a batch, by key.
        workers: number of threads; 1 makes the thread the owner of what `run` uses.
        batch_errors: exceptions that no single item causes: they fail the whole batch at once.
        on_death: called when a thread ends without `close`.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Key, list[Item]], Sequence[Result]],
        *,
        size: Callable[[Key], int],
        workers: int = 1,
        batch_errors: tuple[type[Exception], ...] = (),
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._run = run
        self._size = size
        self._batch_errors = batch_errors
        self._on_death = on_death
        # Submitted in this turn of the event loop; only the loop uses it.
        self._submitted: list[_Job[Key, Item, Result]] = []
        self._jobs: dict[Key, deque[_Job[Key, Item, Result]]] = {}
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._dead = False
        self._busy_since: dict[int, float] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{at}", daemon=True)
            for at in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(self, key: Key, item: Item) -> BatchResult[Result]:
        """Wait for the result of one item.

        Raises:
            WorkerStoppedError: the threads are gone.
            Exception: whatever `run` raised for this item alone.
        """
        loop = asyncio.get_running_loop()
        job = _Job(key, item, loop.create_future(), loop)
        if not self._submitted or self._submitted[0].loop is not loop:
            self._submitted = []  # nobody waits for the items of a closed loop
            loop.call_soon(self._hand_over)
        self._submitted.append(job)
        return await job.future

    @property
    def waiting(self) -> int:
        """Count the items that no batch has taken yet."""
        with self._changed:
            return len(self._submitted) + sum(len(jobs) for jobs in self._jobs.values())

    @property
    def alive(self) -> bool:
        """Tell whether all threads still run."""
        return not self._dead and all(thread.is_alive() for thread in self._threads)

    def busy_seconds(self) -> float:
        """Return the seconds since the oldest of the running batches began."""
        started = list(self._busy_since.values())
        return perf_counter() - min(started) if started else 0.0

    def close(self, timeout: float = 5.0) -> None:
        """Finish the running batches, fail the waiting items, and end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout)
        self._fail_waiting()

    def _hand_over(self) -> None:
        """Queue jobs for their batches, or fail them if the threads have stopped."""
        jobs, self._submitted = self._submitted, []
        with self._changed:
            if not (self._closing or self._dead):
                for job in jobs:
                    job.number = next(self._numbers)
                    self._jobs.setdefault(job.key, deque()).append(job)
                self._changed.notify(len(jobs))
                return
        self._refuse(jobs, WorkerStoppedError(self.name))

    def _work(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                self._busy_since[threading.get_ident()] = perf_counter()
                try:
                    self._run_batch(*batch)
                finally:
                    self._busy_since.pop(threading.get_ident(), None)
        except BaseException as error:
            self._dead = True
            event("worker died", logging.CRITICAL, worker=self.name, error=repr(error))
            self._fail_waiting()
            self._on_death()

    def _next_batch(self) -> tuple[Key, list[_Job[Key, Item, Result]]] | None:
        with self._changed:
            while True:
                if self._closing:
                    return None
                if not self._jobs:
                    self._changed.wait()
                    continue
                key = min(self._jobs, key=lambda name: self._jobs[name][0].number)
                jobs = self._jobs[key]
                batch = [jobs.popleft() for _ in range(min(len(jobs), self._size(key)))]
                if not jobs:
                    del self._jobs[key]
                return key, batch

    def _run_batch(self, key: Key, batch: list[_Job[Key, Item, Result]]) -> None:
        batch = [job for job in batch if not job.future.cancelled()]
        if not batch:
            return
        try:
            self._deliver(batch, self._timed(key, batch))
        except Exception as error:
            if len(batch) == 1 or isinstance(error, self._batch_errors):
                self._refuse(batch, error)
                return
            for job in batch:
                self._run_batch(key, [job])
        except BaseException:
            self._refuse(batch, WorkerStoppedError(self.name))
            raise

    def _timed(self, key: Key, batch: list[_Job[Key, Item, Result]]) -> list[BatchResult[Result]]:
        start = perf_counter()
        spans = [job.span for job in batch if job.span is not None]
        # A child span of the first traced request, linked to all of them.
        batch_span = (
            spans[0].begin(f"batch {self.name}", spans, size=len(batch)) if spans else nullcontext()
        )
        with batch_span as span:
            results = self._run(key, [job.item for job in batch])
        ended = perf_counter()
        if len(results) != len(batch):
            raise ValueError(f"{self.name} returned {len(results)} results for {len(batch)} items")
        return [
            BatchResult(result, job.submitted, start, ended, span)
            for job, result in zip(batch, results, strict=True)
        ]

    def _fail_waiting(self) -> None:
        with self._changed:
            jobs = [job for key in self._jobs.values() for job in key]
            self._jobs.clear()
        self._refuse(jobs, WorkerStoppedError(self.name))

    def _deliver(
        self, batch: list[_Job[Key, Item, Result]], results: list[BatchResult[Result]]
    ) -> None:
        self._settle(batch, lambda at: batch[at].future.set_result(results[at]))

    def _refuse(self, batch: Sequence[_Job[Key, Item, Result]], error: Exception) -> None:
        self._settle(batch, lambda at: batch[at].future.set_exception(error))

    def _settle(
        self, batch: Sequence[_Job[Key, Item, Result]], settle: Callable[[int], None]
    ) -> None:
        def settle_waiting() -> None:
            for at, job in enumerate(batch):
                if not job.future.done():
                    settle(at)

        # Nobody waits on a loop that is closed.
        if batch and not batch[0].loop.is_closed():
            batch[0].loop.call_soon_threadsafe(settle_waiting)
