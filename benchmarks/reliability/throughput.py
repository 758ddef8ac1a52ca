"""How much does batching bring, and how much does the service itself cost?

    python -m benchmarks.reliability.throughput FOLDER [--rows 100000] [--seconds 20]

The same service with batches, with none (one caption encoded, one point searched at a time), and as
one process on each core, in turns in one run, asked by 32 clients what pictures show. Then one
client alone, for what the service takes beside encoding and searching. The service with batches
also answers what pictures show or say, as a person asks: texts are not searched in batches. FOLDER
keeps the collection for the next run.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Reply, search
from benchmarks.reliability.load import closed_loop, run
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of

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


async def answered(service: Served, requests: Sequence[bytes], seconds: float) -> int:
    """Let the clients ask; return how many answers came in time."""
    tally = await closed_loop(service.host, service.port, requests, CLIENTS, seconds)
    return tally.statuses[200] - tally.late


def main() -> None:
    """Measure and print."""
    given = options_of(__doc__, rows=100_000, seconds=20.0)
    at = machine()
    index = collection(given.folder, given.rows)
    requests = [search(caption, evidence="shows") for caption in captions()]
    of_both = [search(caption) for caption in captions()]
    each = given.seconds / ROUNDS

    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    replies: dict[str, list[Reply]] = {"batched": [], "both": []}
    cores = len(os.sched_getaffinity(0))
    with (
        served(index) as batched,
        served(index, **UNBATCHED) as unbatched,
        served(index, processes=cores) as processes,
    ):
        ways = {
            "batched": (batched, requests),
            "unbatched": (unbatched, requests),
            "processes": (processes, requests),
            "both": (batched, of_both),
        }
        for service, asked in ways.values():
            run(answered(service, asked, 0.1 * each))
        for _ in range(ROUNDS):
            for name, (service, asked) in ways.items():
                before = service.cpu_seconds()
                count = run(answered(service, asked, each))
                took = service.cpu_seconds() - before
                rates.setdefault(name, []).append(count / each)
                costs.setdefault(name, []).append(took / count)
        for name, received in replies.items():
            asked = ways[name][1]
            run(closed_loop(batched.host, batched.port, asked, 1, each, watch=received.append))
    rate = {name: statistics.median(found) for name, found in rates.items()}
    ratio = rate["batched"] / rate["unbatched"]
    cost = {name: statistics.median(seconds) * 1e3 for name, seconds in costs.items()}
    own, own_by_both = (overhead(received) for received in replies.values())
    finish(
        f"{CLIENTS} clients over {given.rows:,} rows, medians of {ROUNDS} rounds of {each:.0f} s",
        [
            Line("captions a second, batched", f"{rate['batched']:,.0f}"),
            Line("captions a second, one by one", f"{rate['unbatched']:,.0f}"),
            Line("batched : one by one", f"{ratio:.1f}", "2.0 or more", ratio >= 2),
            Line(
                f"captions a second, by {cores} processes on a core each",
                f"{rate['processes']:,.0f}",
            ),
            Line("captions a second, searched by texts too", f"{rate['both']:,.0f}"),
            Line(
                "processor time for each: batched, one by one, by such processes, by texts too",
                ", ".join(f"{cost[name]:.2f} ms" for name in ways),
            ),
            Line(
                "the service's own time, median of one client",
                f"{own * 1e3:.2f} ms",
                "3 ms or less",
                own <= 3e-3,
            ),
            Line(
                "the same, searched by texts too",
                f"{own_by_both * 1e3:.2f} ms",
                "3 ms or less",
                own_by_both <= 3e-3,
            ),
        ],
        at,
    )


if __name__ == "__main__":
    main()
