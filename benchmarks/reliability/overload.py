"""What happens when clients come four times as fast as the service can answer?

    python -m benchmarks.reliability.overload FOLDER [--rows 100000] [--seconds 30]

Finds the peak with as many clients as there are places, then lets clients come at four times that
rate, whether or not those before were answered, and then many more clients than places ask again
at once whatever they are told. FOLDER keeps the collection for the next run.

The peak is measured before and after, since a machine's speed changes within minutes; the rest is
compared with the mean of both. The clients have one core and the service the others, at the peak as
under overload: the service is compared with itself, and not with one that has fewer clients beside
it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import search
from benchmarks.reliability.load import Tally, closed_loop, open_loop, run, until_normal
from benchmarks.reliability.report import Line, finish, machine
from benchmarks.reliability.served import Served, served
from service.settings import Settings

TIMES = 4
SHARE = 0.9
PATIENCE = 2.0
# What a heap may take in when it is first worked hard, in megabytes.
GROWTH = 64.0


def lines(name: str, tally: Tally, peak: float, deadline: float) -> list[Line]:
    """Return the figures of one kind of overload."""
    share = tally.goodput / peak
    late = tally.percentile(99)
    return [
        Line(
            f"{name}: answers",
            tally.words,
            "only 200 and 429",
            set(tally.statuses) <= {200, 429} and not tally.resets,
        ),
        Line(
            f"{name}: goodput",
            f"{tally.goodput:,.0f}/s, {share:.0%} of the peak",
            f"{SHARE:.0%} or more",
            share >= SHARE,
        ),
        Line(
            f"{name}: p99 of accepted", f"{late:.2f} s", f"within {deadline:g} s", late <= deadline
        ),
        # Near one core, it is the clients that were measured.
        Line(f"{name}: the clients' own work", f"{tally.processor:.2f} cores"),
    ]


def overload(service: Served, requests: list[bytes], seconds: float) -> list[Line]:
    """Measure the peak, then both kinds of overload, then the recovery."""
    settings = Settings()
    places = settings.in_flight
    host, port = service.host, service.port
    run(closed_loop(host, port, requests, places, seconds / 6))
    peak = _peak(service, requests, places, seconds)
    before = service.usage().own_megabytes
    came = run(open_loop(host, port, requests, TIMES * peak, seconds))
    recovered = run(until_normal(host, port, requests[0], 10 * PATIENCE))
    crowd = TIMES * (places + settings.queued)
    asked = run(closed_loop(host, port, requests, crowd, seconds))
    recovered = max(recovered, run(until_normal(host, port, requests[0], 10 * PATIENCE)))
    grown = service.usage().own_megabytes - before
    after = _peak(service, requests, places, seconds)
    mean = (peak + after) / 2
    return [
        Line(f"peak, {places} clients", f"{peak:,.0f}/s before, {after:,.0f}/s after"),
        *lines(f"{TIMES} x the rate", came, mean, settings.deadline_seconds),
        *lines(f"{crowd:,} clients at once", asked, mean, settings.deadline_seconds),
        Line("memory grown", f"{grown:.0f} MB", f"{GROWTH:.0f} MB or less", grown <= GROWTH),
        Line(
            "normal again after",
            f"{recovered:.2f} s",
            f"{PATIENCE:g} s or less",
            recovered <= PATIENCE,
        ),
    ]


def _peak(service: Served, requests: list[bytes], places: int, seconds: float) -> float:
    """Return what is answered a second when as many ask as there are places."""
    return run(closed_loop(service.host, service.port, requests, places, seconds / 3)).goodput


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    at = machine()
    index = collection(given.folder, given.rows)
    requests = [search(caption) for caption in captions()]
    cores = os.sched_getaffinity(0)
    mine = {max(cores)}
    os.sched_setaffinity(0, cores - mine or mine)
    with served(index) as service:
        os.sched_setaffinity(0, mine)
        found = overload(service, requests, given.seconds)
    finish(f"Overload for {given.seconds:g} s over {given.rows:,} rows", found, at)


if __name__ == "__main__":
    main()
