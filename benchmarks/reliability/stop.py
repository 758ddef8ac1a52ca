"""Does a service that is told to stop answer everybody it has begun with?

    python -m benchmarks.reliability.stop FOLDER [--rows 10000] [--rounds 5]

50 clients ask without a pause; SIGTERM comes while all of them wait for an answer. Each request
that was sent has to be answered whole, and the process has to end with 0. FOLDER keeps the
collection for the next run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Connection, search
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of

CLIENTS = 50
WARM_SECONDS = 1.0


@dataclass(slots=True)
class Ending:
    """How a service ended: answers to what was in flight, and the status of the process."""

    statuses: Counter[int] = field(default_factory=Counter)
    resets: int = 0
    exit_status: int = -1
    seconds: float = 0.0


async def _stop(service: Served, requests: list[bytes]) -> Ending:
    ending = Ending()
    stopping = False

    async def client(at: int) -> None:
        connection = await Connection.open(service.host, service.port)
        while connection.is_open:
            at += 1
            late = stopping
            try:
                reply = await connection.ask(requests[at % len(requests)])
            except ConnectionError:
                ending.resets += 1
                break
            if late or stopping:
                ending.statuses[reply.status] += 1
        await connection.close()

    clients = [asyncio.create_task(client(at)) for at in range(CLIENTS)]
    await asyncio.sleep(WARM_SECONDS)
    stopping = True
    start = perf_counter()
    service.terminate()
    await asyncio.gather(*clients)
    ending.exit_status = await asyncio.to_thread(service.process.wait, 30)
    ending.seconds = perf_counter() - start
    return ending


def stop(service: Served, requests: list[bytes]) -> Ending:
    """Stop a service that is at work and say how it ended."""
    return asyncio.run(_stop(service, requests))


def main() -> None:
    """Stop several services and print."""
    given = options_of(__doc__, rows=10_000, rounds=5)
    at = machine()
    index = collection(given.folder, given.rows)
    requests = [search(caption) for caption in captions(200)]
    endings = []
    for _ in range(given.rounds):
        with served(index) as service:
            endings.append(stop(service, requests))
    answered = sum((ending.statuses for ending in endings), Counter[int]())
    resets = sum(ending.resets for ending in endings)
    statuses = sorted({ending.exit_status for ending in endings})
    finish(
        f"SIGTERM with {CLIENTS} requests in flight, {given.rounds} times",
        [
            Line(
                "answered after the signal",
                ", ".join(f"{count:,} x {status}" for status, count in sorted(answered.items())),
                f"{CLIENTS} or more each time",
                all(ending.statuses.total() >= CLIENTS for ending in endings),
            ),
            Line("connections reset", str(resets), "none", resets == 0),
            Line("exit status", ", ".join(map(str, statuses)), "0", statuses == [0]),
            Line("time to the end", f"at most {max(one.seconds for one in endings):.1f} s", "10 s"),
        ],
        at,
    )


if __name__ == "__main__":
    main()
