"""Work done together: items that wait are taken in batches by threads that own what runs them.

Items of one lane may share a batch (captions of like length, searches with the same options).
A batch that raises is repeated item by item, so that only the item at fault fails. A client
that went away leaves its future cancelled, and the item is skipped.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

from service.logs import event

Lane = TypeVar("Lane", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerStoppedError(Exception):
    """The threads that did this work are gone."""


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """A result, how long its item waited and how long its batch ran, in seconds."""

    result: Result
    waited: float
    ran: float


@dataclass(slots=True)
class _Job(Generic[Item, Result]):
    item: Item
    number: int
    future: asyncio.Future[Done[Result]]
    loop: asyncio.AbstractEventLoop
    submitted: float = field(default_factory=perf_counter)


class Batcher(Generic[Lane, Item, Result]):
    """Threads that run `run(lane, items) -> results`, one batch of one lane at a time.

    Args:
        name: what the threads are called.
        run: gets a lane and its items, returns as many results in the same order. Runs in the
            threads of this batcher only, one call at a time in each.
        size: most items of a batch, by lane.
        workers: number of threads; 1 makes the thread the owner of what `run` uses.
        delay: how long the oldest item waits for its batch to fill, in seconds.
        together: exceptions that are no item's fault: they fail the whole batch at once.
        on_batch: told the lane and the size of each batch.
        on_death: called when a thread ends otherwise than by `close`.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Lane, list[Item]], Sequence[Result]],
        *,
        size: Callable[[Lane], int],
        workers: int = 1,
        delay: float = 0.0,
        together: tuple[type[Exception], ...] = (),
        on_batch: Callable[[Lane, int], None] = lambda lane, size: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._run = run
        self._size = size
        self._delay = delay
        self._together = together
        self._on_batch = on_batch
        self._on_death = on_death
        self._lanes: dict[Lane, deque[_Job[Item, Result]]] = {}
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

    async def submit(self, lane: Lane, item: Item) -> Done[Result]:
        """Wait for the result of one item.

        Raises:
            WorkerStoppedError: the threads are gone.
            Exception: whatever `run` raised for this item alone.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done[Result]] = loop.create_future()
        with self._changed:
            if self._closing or self._dead:
                raise WorkerStoppedError(f"{self.name} has stopped")
            job = _Job(item, next(self._numbers), future, loop)
            self._lanes.setdefault(lane, deque()).append(job)
            self._changed.notify()
        return await future

    @property
    def waiting(self) -> int:
        """Count the items that no batch has taken yet."""
        with self._changed:
            return sum(len(jobs) for jobs in self._lanes.values())

    @property
    def alive(self) -> bool:
        """Tell whether all threads still run."""
        return not self._dead and all(thread.is_alive() for thread in self._threads)

    def busy_seconds(self) -> float:
        """Return how long the batch that has run longest is running already."""
        started = list(self._busy_since.values())
        return perf_counter() - min(started) if started else 0.0

    def close(self, timeout: float = 5.0) -> None:
        """Finish the batches being run, fail what waits, and end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout)
        self._fail_waiting()

    def _work(self) -> None:
        try:
            while (batch := self._take()) is not None:
                self._busy_since[threading.get_ident()] = perf_counter()
                try:
                    self._do(*batch)
                finally:
                    self._busy_since.pop(threading.get_ident(), None)
        except BaseException as error:
            self._dead = True
            event("worker died", logging.CRITICAL, worker=self.name, error=repr(error))
            self._fail_waiting()
            self._on_death()

    def _take(self) -> tuple[Lane, list[_Job[Item, Result]]] | None:
        with self._changed:
            while True:
                if self._closing:
                    return None
                if not self._lanes:
                    self._changed.wait()
                    continue
                lane = min(self._lanes, key=lambda name: self._lanes[name][0].number)
                jobs = self._lanes[lane]
                remaining = jobs[0].submitted + self._delay - perf_counter()
                if remaining > 0 and len(jobs) < self._size(lane):
                    self._changed.wait(remaining)
                    continue
                batch = [jobs.popleft() for _ in range(min(len(jobs), self._size(lane)))]
                if not jobs:
                    del self._lanes[lane]
                return lane, batch

    def _do(self, lane: Lane, batch: list[_Job[Item, Result]]) -> None:
        batch = [job for job in batch if not job.future.cancelled()]
        if not batch:
            return
        self._on_batch(lane, len(batch))
        try:
            self._deliver(batch, self._timed(lane, batch))
        except Exception as error:
            if len(batch) == 1 or isinstance(error, self._together):
                self._refuse(batch, error)
                return
            for job in batch:
                self._do(lane, [job])
        except BaseException:
            self._refuse(batch, WorkerStoppedError(f"{self.name} has stopped"))
            raise

    def _timed(self, lane: Lane, batch: list[_Job[Item, Result]]) -> list[Done[Result]]:
        start = perf_counter()
        results = self._run(lane, [job.item for job in batch])
        ran = perf_counter() - start
        if len(results) != len(batch):
            raise ValueError(f"{self.name} got {len(results)} results for {len(batch)} items")
        return [
            Done(result, start - job.submitted, ran)
            for job, result in zip(batch, results, strict=True)
        ]

    def _fail_waiting(self) -> None:
        with self._changed:
            jobs = [job for lane in self._lanes.values() for job in lane]
            self._lanes.clear()
        self._refuse(jobs, WorkerStoppedError(f"{self.name} has stopped"))

    def _deliver(self, batch: list[_Job[Item, Result]], results: list[Done[Result]]) -> None:
        def settle(pairs: list[tuple[_Job[Item, Result], Done[Result]]]) -> None:
            for job, done in pairs:
                if not job.future.done():
                    job.future.set_result(done)

        _on_loop(batch[0].loop, settle, list(zip(batch, results, strict=True)))

    def _refuse(self, batch: list[_Job[Item, Result]], error: Exception) -> None:
        def settle(jobs: list[_Job[Item, Result]]) -> None:
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(error)

        if batch:
            _on_loop(batch[0].loop, settle, batch)


Argument = TypeVar("Argument")


def _on_loop(
    loop: asyncio.AbstractEventLoop, settle: Callable[[Argument], None], argument: Argument
) -> None:
    # A loop that is closed has nobody left who waits.
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, argument)
