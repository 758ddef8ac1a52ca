"""Worker threads for kernels."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

import numpy as np

A = TypeVar("A")
B = TypeVar("B")

# Less work is not worth a second thread: starting it takes about 50 us, in which one core reads a
# megabyte, and in a service each thread waits for the GIL.
BYTES_PER_TASK = 8 << 20


def processors() -> int:
    """Return the number of processors that this process may use; all of them on macOS."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lower_priority(niceness: int) -> None:
    """Lower the priority of the calling thread; only Linux supports it."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


class Workers:
    """A thread pool that starts at its first use. Kernels release the GIL, so threads suffice."""

    def __init__(self, threads: int | None = None, bytes_per_task: int = BYTES_PER_TASK) -> None:
        self.threads = threads or processors()
        self._bytes_per_task = bytes_per_task
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def map(self, work: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Run `work` on every item and return the results in order."""
        helpers = min(len(items), self.threads) - 1
        if helpers < 1:
            return [work(item) for item in items]
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="hasse-kernel")
            pool = self._pool
        results: dict[int, B] = {}
        remaining = enumerate(items)  # shared by the threads: each `next` is atomic

        def take() -> None:
            for at, item in remaining:
                results[at] = work(item)

        tasks = [pool.submit(take) for _ in range(helpers)]
        try:
            take()
        finally:
            # A task that has not started is cancelled: no item is left for it.
            wait(task for task in tasks if not task.cancel())
        for task in tasks:
            if not task.cancelled():
                task.result()
        return [results[at] for at in range(len(items))]

    def ranges(self, count: int, bytes_each: int) -> list[tuple[int, int]]:
        """Divide `count` rows into ranges of similar size, several for each thread."""
        parts = min(4 * self.threads, count * bytes_each // self._bytes_per_task)
        if parts < 2 or self.threads < 2:
            return [(0, count)] if count else []
        edges = np.linspace(0, count, parts + 1).astype(int).tolist()
        return list(itertools.pairwise(edges))

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
