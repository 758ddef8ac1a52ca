"""Clients that ask for a while: each as soon as it was answered, or at a rate of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from benchmarks.reliability.connection import Connection, Reply, get


@dataclass(slots=True)
class Tally:
    """What clients were told, and how long it took."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)  # seconds of each 200
    refused: list[float] = field(default_factory=list)  # seconds of each other answer
    resets: int = 0
    seconds: float = 0.0

    def add(self, reply: Reply) -> None:
        """Count one answer."""
        self.statuses[reply.status] += 1
        (self.accepted if reply.status == 200 else self.refused).append(reply.seconds)

    @property
    def goodput(self) -> float:
        """Requests answered with 200, a second."""
        return self.statuses[200] / self.seconds if self.seconds else 0.0

    def percentile(self, percent: float) -> float:
        """Return a percentile of the time of accepted requests, in seconds."""
        return float(np.percentile(self.accepted, percent)) if self.accepted else float("nan")

    @property
    def words(self) -> str:
        """The statuses and how often each came."""
        said = [f"{count:,} x {status}" for status, count in sorted(self.statuses.items())]
        return ", ".join([*said, f"{self.resets} resets"] if self.resets else said)


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
    start = perf_counter()

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
                tally.add(reply)
                watch(reply)
                if perf_counter() - start > seconds:
                    break
        finally:
            await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    tally.seconds = perf_counter() - start
    return tally


async def open_loop(
    host: str, port: int, requests: Iterable[bytes], rate: float, seconds: float
) -> Tally:
    """Let clients come at `rate` a second, whether or not those before were answered.

    A connection serves one client at a time and is used again; there are as many as are needed.
    """
    tally = Tally()
    idle: list[Connection] = []
    asking: set[asyncio.Task[None]] = set()
    source = itertools.cycle(requests)
    start = perf_counter()

    async def ask() -> None:
        try:
            connection = idle.pop() if idle else await Connection.open(host, port)
            reply = await connection.ask(next(source))
        except OSError:
            tally.resets += 1
            return
        tally.add(reply)
        if connection.is_open:
            idle.append(connection)
        else:
            await connection.close()

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
