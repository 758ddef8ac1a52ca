"""How much does batching bring, and how much does the service itself cost?

    python -m benchmarks.reliability.throughput FOLDER [--rows 100000] [--seconds 20]

The same service with batches and with none (one caption encoded, one point searched at a time),
in turns in one run, asked by 32 clients at once; then one client alone, for what the service takes
beside encoding and searching. FOLDER keeps the collection for the next run.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Reply, search
from benchmarks.reliability.load import Tally, closed_loop, run
from benchmarks.reliability.report import Line, finish, machine
from benchmarks.reliability.served import served

CLIENTS = 32
ROUNDS = 3
UNBATCHED = {"caption_batch": 1, "search_batch": 1}
WORK = ("queue", "encode", "prefilter", "rerank")


def overhead(replies: Sequence[Reply]) -> float:
    """Return the median of what requests took beside waiting, encoding and searching."""
    return statistics.median(
        reply.seconds - sum(seconds for stage, seconds in reply.timing().items() if stage in WORK)
        for reply in replies
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    at = machine()
    index = collection(given.folder, given.rows)
    requests = [search(caption) for caption in captions()]
    each = given.seconds / ROUNDS

    def ask(port: int, clients: int, seconds: float, replies: list[Reply] | None = None) -> Tally:
        watch = replies.append if replies is not None else lambda reply: None
        return run(closed_loop("127.0.0.1", port, requests, clients, seconds, watch=watch))

    rates: dict[str, list[float]] = {"batched": [], "unbatched": []}
    costs: dict[str, list[float]] = {"batched": [], "unbatched": []}
    alone: list[Reply] = []
    with served(index) as batched, served(index, **UNBATCHED) as unbatched:
        services = {"batched": batched, "unbatched": unbatched}
        for service in services.values():
            ask(service.port, CLIENTS, 0.1 * each)
        for _ in range(ROUNDS):
            for name, service in services.items():
                before = service.cpu_seconds()
                tally = ask(service.port, CLIENTS, each)
                rates[name].append(tally.goodput)
                costs[name].append((service.cpu_seconds() - before) / tally.statuses[200])
        ask(batched.port, 1, each, alone)
    ratio = statistics.median(rates["batched"]) / statistics.median(rates["unbatched"])
    cost = {name: statistics.median(seconds) * 1e3 for name, seconds in costs.items()}
    own = overhead(alone)
    finish(
        f"{CLIENTS} clients over {given.rows:,} rows, medians of {ROUNDS} rounds of {each:.0f} s",
        [
            Line("captions a second, batched", f"{statistics.median(rates['batched']):,.0f}"),
            Line("captions a second, one by one", f"{statistics.median(rates['unbatched']):,.0f}"),
            Line("batched : one by one", f"{ratio:.1f}", "3.0 or more", ratio >= 3),
            Line(
                "processor time for each, batched and one by one",
                f"{cost['batched']:.2f} ms, {cost['unbatched']:.2f} ms",
            ),
            Line(
                "the service's own time, median of one client",
                f"{own * 1e3:.2f} ms",
                "3 ms or less",
                own <= 3e-3,
            ),
        ],
        at,
    )


if __name__ == "__main__":
    main()
