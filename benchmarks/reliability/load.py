"""Clients that ask for a while: each as soon as it was answered, or at a rate of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np
import uvloop

from benchmarks.reliability.connection import Connection, Reply, get

Result = TypeVar("Result")


@dataclass(slots=True)
class Tally:
    """What clients were told, how long it took them, and what they cost themselves."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)  # seconds of each 200
    refused: list[float] = field(default_factory=list)  # seconds of each other answer
    resets: int = 0
    late: int = 0  # 200s that came after the time that was measured
    seconds: float = 0.0
    processor: float = 0.0  # cores that the clients kept busy

    def add(self, status: int, seconds: float) -> None:
        """Count one answer, and how long its client waited for it."""
        self.statuses[status] += 1
        (self.accepted if status == 200 else self.refused).append(seconds)

    @property
    def goodput(self) -> float:
        """Requests answered with 200 within the time that was measured, a second."""
        return (self.statuses[200] - self.late) / self.seconds if self.seconds else 0.0

    def percentile(self, percent: float) -> float:
        """Return a percentile of the time of accepted requests, in seconds."""
        return float(np.percentile(self.accepted, percent)) if self.accepted else float("nan")

    @property
    def words(self) -> str:
        """The statuses and how often each came."""
        said = [f"{count:,} x {status}" for status, count in sorted(self.statuses.items())]
        return ", ".join([*said, f"{self.resets} resets"] if self.resets else said)


def together(tallies: Iterable[Tally]) -> Tally:
    """Return what clients were told at several times as one."""
    found = Tally()
    for tally in tallies:
        found.statuses += tally.statuses
        found.accepted += tally.accepted
        found.refused += tally.refused
        found.resets += tally.resets
        found.late += tally.late
        found.processor = (found.processor * found.seconds + tally.processor * tally.seconds) / (
            found.seconds + tally.seconds
        )
        found.seconds += tally.seconds
    return found


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run what clients do on a loop that takes little from the service beside it."""
    return uvloop.run(work)


async def closed_loop(
    host: str,
    port: int,
    requests: Iterable[bytes],
    clients: int,
    seconds: float,
    *,
    count: int | None = None,
    watch: Callable[[Reply], None] = lambda reply: None,
) -> Tally:
    """Let `clients` ask, each again as soon as it was answered.

    Ends after `seconds`, or after `count` requests.
    """
    tally = Tally()
    source = _numbered(requests, count)
    start, worked = perf_counter(), process_time()

    async def client() -> None:
        connection = await Connection.open(host, port)
        try:
            for request in source:
                try:
                    if not connection.is_open:
                        await connection.close()
                        connection = await Connection.open(host, port)
                    reply = await connection.ask(request)
                except ConnectionError:
                    tally.resets += 1
                    continue
                over = perf_counter() - start > seconds
                tally.add(reply.status, reply.seconds)
                tally.late += reply.status == 200 and over
                watch(reply)
                if over:
                    break
        finally:
            await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    elapsed = perf_counter() - start
    tally.seconds = min(elapsed, seconds)
    tally.processor = (process_time() - worked) / elapsed
    return tally


async def open_loop(
    host: str, port: int, requests: Iterable[bytes], rate: float, seconds: float
) -> Tally:
    """Let clients come at `rate` a second, whether or not those before were answered.

    Each takes the connection that has rested longest, as another client's would have, or a new
    one where none is free. Its time begins when it comes, before it has a connection.
    """
    tally = Tally()
    idle: deque[Connection] = deque()
    asking: set[asyncio.Task[None]] = set()
    source = itertools.cycle(requests)
    start, worked = perf_counter(), process_time()

    async def ask() -> None:
        came = perf_counter()
        while idle and not idle[0].is_open:
            await idle.popleft().close()
        try:
            connection = idle.popleft() if idle else await Connection.open(host, port)
            reply = await connection.ask(next(source))
        except OSError:
            tally.resets += 1
            return
        now = perf_counter()
        tally.add(reply.status, now - came)
        tally.late += reply.status == 200 and now - start > seconds
        idle.append(connection)

    sent = 0
    while (elapsed := perf_counter() - start) < seconds:
        due = int(elapsed * rate)
        for _ in range(due - sent):
            task = asyncio.create_task(ask())
            asking.add(task)
            task.add_done_callback(asking.discard)
        sent = max(sent, due)
        await asyncio.sleep(0.002)
    tally.seconds = perf_counter() - start
    tally.processor = (process_time() - worked) / tally.seconds
    if asking:
        await asyncio.wait(asking)
    await asyncio.gather(*(connection.close() for connection in idle))
    return tally


async def until_normal(host: str, port: int, request: bytes, patience: float) -> float:
    """Return the seconds until a search is answered as usual and readiness holds."""
    start = perf_counter()
    while perf_counter() - start < patience:
        connection = await Connection.open(host, port)
        answers = [(await connection.ask(one)).status for one in (request, get("/readyz"))]
        await connection.close()
        if answers == [200, 200]:
            return perf_counter() - start
        await asyncio.sleep(0.02)
    return float("inf")


def _numbered(requests: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    # One iterator that all clients draw from.
    return itertools.islice(itertools.cycle(requests), count)
