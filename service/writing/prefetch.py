"""Decode pictures in threads, a few batches ahead of the network that encodes them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from hasse.models.images.limits import PictureError

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCHES_AHEAD = 2  # decoded while the network works on one


@dataclass(slots=True)
class DecodedBatch(Generic[Item, Result]):
    """The decoded pictures of a batch with their results, and the undecodable ones."""

    items: list[Item] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unusable: list[tuple[Item, PictureError]] = field(default_factory=list)


def decode_ahead(
    items: Iterable[Item], decode: Callable[[Item], Result], size: int, workers: int | None
) -> Iterator[DecodedBatch[Item, Result]]:
    """Yield the results of `decode` for pictures, in order, in batches of `size`.

    Only a few batches exist at a time. `workers` is the number of threads; None: one for each core.

    Raises:
        Exception: any error of `decode`, except `PictureError`, which belongs to its picture.
    """
    source = iter(items)
    waiting: deque[list[tuple[Item, Future[Result]]]] = deque()
    pool = ThreadPoolExecutor(workers or os.cpu_count(), thread_name_prefix="decode")
    try:
        while True:
            while len(waiting) <= BATCHES_AHEAD and (batch := list(islice(source, size))):
                waiting.append([(item, pool.submit(decode, item)) for item in batch])
            if not waiting:
                return
            yield _finish(waiting.popleft())
    finally:
        # Reached early on Ctrl-C: cancels waiting pictures.
        pool.shutdown(cancel_futures=True)


def _finish(batch: list[tuple[Item, Future[Result]]]) -> DecodedBatch[Item, Result]:
    decoded = DecodedBatch[Item, Result]()
    for item, future in batch:
        try:
            decoded.results.append(future.result())
            decoded.items.append(item)
        except PictureError as error:
            decoded.unusable.append((item, error))
    return decoded


def map_in_threads(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    threads: int,
    begin: Callable[[], object] = lambda: None,
) -> Iterator[tuple[Item, Result]]:
    """Yield items with the results of `work`, in order; `threads` items at a time.

    Each thread calls `begin` first.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="encode", initializer=begin)
    try:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > threads:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
