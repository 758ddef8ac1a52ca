"""Does anything grow with time? 100,000 requests of every kind, right ones and wrong ones.

    python -m benchmarks.reliability.soak FOLDER [--rows 10000] [--requests 100000]

Memory, descriptors and threads are compared after a fifth of the requests and at the end. FOLDER
keeps the collection for the next run.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Reply, form, get, search
from benchmarks.reliability.load import Tally, closed_loop, run
from benchmarks.reliability.served import Served, Usage, served
from benchmarks.report import Line, finish, machine, options_of

CLIENTS = 16
SETTLED = 0.2  # of all requests: caches are full, heaps have their size
GROWTH = 0.05  # of the memory then: what an allocator may still move


def requests(asked: list[str]) -> list[bytes]:
    """Return a mix: mostly captions, some pictures, pages and metadata, some that are refused."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    picture = out.getvalue()
    rare = [
        *(form("/search/captions", body) for body in (picture, picture[:200], b"not a picture")),
        get("/"),
        get("/images/7"),
        get("/images/999999999"),
        get("/captions/7"),
        get("/version"),
        get("/metrics"),
        get("/readyz"),
        get("/nowhere"),
        search("a dog", k=0),
        search("a " * 500),
    ]
    modes = ("certified", "certified", "fast", "exact")
    mixed: list[bytes] = []
    for at, caption in enumerate(asked):
        mixed.append(search(caption, k=(10, 1, 100)[at % 3], mode=modes[at % len(modes)]))
        if at % 8 == 0:
            mixed.append(rare[at // 8 % len(rare)])
    return mixed


def soak(
    service: Served, mixed: list[bytes], count: int, tell: Callable[[int], None]
) -> tuple[Tally, Usage, Usage]:
    """Ask `count` times; return what was said, and the usage when settled and at the end."""
    done = 0
    settled: Usage | None = None

    def watch(_reply: Reply) -> None:
        nonlocal done, settled
        done += 1
        if settled is None and done >= SETTLED * count:
            settled = service.usage()
        if done % 1000 == 0:
            tell(done)

    tally = run(
        closed_loop(
            service.host, service.port, mixed, CLIENTS, float("inf"), count=count, watch=watch
        )
    )
    ended = service.usage()
    return tally, settled or ended, ended


def lines(tally: Tally, settled: Usage, ended: Usage) -> list[Line]:
    """Return the figures of a soak."""
    grown = ended.megabytes - settled.megabytes
    allowed = GROWTH * settled.megabytes
    broken = {status for status in tally.statuses if status >= 500}
    return [
        Line("answers", tally.words, "no 5xx, no reset", not broken and not tally.resets),
        Line(
            "memory",
            f"{settled.megabytes:.0f} -> {ended.megabytes:.0f} MB",
            f"grows by {allowed:.0f} MB or less",
            grown <= allowed,
        ),
        Line(
            "descriptors",
            f"{settled.descriptors} -> {ended.descriptors}",
            "no more",
            ended.descriptors <= settled.descriptors,
        ),
        Line(
            "threads",
            f"{settled.threads} -> {ended.threads}",
            "no more",
            ended.threads <= settled.threads,
        ),
    ]


def main() -> None:
    """Soak and print."""
    given = options_of(__doc__, rows=10_000, requests=100_000)
    at = machine()
    index = collection(given.folder, given.rows)
    with served(index) as service:
        found = soak(
            service,
            requests(captions()),
            given.requests,
            lambda done: print(f"\r{done:,} of {given.requests:,}", end="", flush=True),
        )
    finish(f"A soak of {given.requests:,} requests over {given.rows:,} rows", lines(*found), at)


if __name__ == "__main__":
    main()
