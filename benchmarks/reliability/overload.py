"""What happens when clients come four times as fast as the service can answer?

    python -m benchmarks.reliability.overload FOLDER [--rows 100000] [--seconds 30]

Finds the peak with as many clients as there are places, then lets clients come at four times that
rate, whether or not those before were answered. Then many more clients than places ask again at
once, whatever they are told: their goodput is printed and not promised, since to slow down such
clients is the work of a proxy. FOLDER keeps the collection for the next run.

A machine's speed changes within seconds, by more than what is measured here. So each kind of
overload has five turns, one of them as long as `--seconds` says and four of a third of it, with a
peak of a sixth before and after each. The goodput of a turn is compared with the mean of these two
peaks, and clients come at four times the one before. Quoted are the median of the five with the
least and the most, the long turn counting once as the others do; p99 and the recovery are those of
the worst turn, and all else is of all turns together.

Memory is what the service has of its own at rest, before and after all that, when it has given back
what it freed; and beside it the most that it had right after a turn.

The clients have one core and the service the others, at the peak as under overload: the service is
compared with itself, and not with one that has fewer clients beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import search
from benchmarks.reliability.load import Tally, closed_loop, open_loop, run, together, until_normal
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of
from hasse.service.settings import Settings

TIMES = 4
SHARE = 0.7
PATIENCE = 2.0
_REST_SECONDS = 5.0
# How long the turns of each kind of overload are, by the seconds that were asked for.
PARTS = (1 / 3, 1 / 3, 1, 1 / 3, 1 / 3)
# What a heap may take in when it is first worked hard, in megabytes.
GROWTH = 64.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One overload, and the mean of the peaks right before and after it."""

    tally: Tally
    peak: float

    @property
    def share(self) -> float:
        """The goodput as a part of the peak."""
        return self.tally.goodput / self.peak


def lines(
    name: str, turns: Sequence[Turn], deadline: float, share_promised: float = 0.0
) -> list[Line]:
    """Return the figures of one kind of overload; a share of 0 promises nothing."""
    shares = [turn.share for turn in turns]
    share = median(shares)
    tally = together([turn.tally for turn in turns])
    late = max(turn.tally.percentile(99) for turn in turns)
    return [
        Line(
            f"{name}: answers",
            tally.words,
            "only 200 and 429",
            set(tally.statuses) <= {200, 429} and not tally.resets,
        ),
        Line(
            f"{name}: goodput",
            f"{share:.0%} of the peak ({min(shares):.0%} to {max(shares):.0%}), "
            f"{tally.goodput:,.0f}/s",
            f"{share_promised:.0%} or more" if share_promised else "",
            share >= share_promised,
        ),
        Line(
            f"{name}: p99 of accepted", f"{late:.2f} s", f"within {deadline:g} s", late <= deadline
        ),
        # Near one core, it is the clients that were measured.
        Line(f"{name}: the clients' own work", f"{tally.processor:.2f} cores"),
    ]


def overload(service: Served, requests: list[bytes], seconds: float) -> list[Line]:
    """Measure both kinds of overload in turn, the peak around each, and each recovery."""
    settings = Settings()
    places = settings.in_flight
    crowd = TIMES * (places + settings.queued)
    host, port = service.host, service.port
    came: list[Turn] = []
    asked: list[Turn] = []
    recovered = []
    _peak(service, requests, places, seconds)
    peaks = [_peak(service, requests, places, seconds)]
    before = _at_rest(service)
    most = 0.0
    for part in PARTS:
        for turns in (came, asked):
            tally = run(
                open_loop(host, port, requests, TIMES * peaks[-1], part * seconds)
                if turns is came
                else closed_loop(host, port, requests, crowd, part * seconds)
            )
            most = max(most, service.usage().own_megabytes)
            recovered.append(run(until_normal(host, port, requests[0], 10 * PATIENCE)))
            peaks.append(_peak(service, requests, places, seconds))
            turns.append(Turn(tally, mean(peaks[-2:])))
    grown = _at_rest(service) - before
    return [
        Line(
            f"peak, {places} clients",
            f"{median(peaks):,.0f}/s ({min(peaks):,.0f} to {max(peaks):,.0f})",
        ),
        *lines(f"{TIMES} x the rate", came, settings.deadline_seconds, SHARE),
        *lines(f"{crowd:,} clients at once", asked, settings.deadline_seconds),
        Line("memory kept", f"{grown:.0f} MB", f"{GROWTH:.0f} MB or less", grown <= GROWTH),
        Line("memory at most, right after a turn", f"{most - before:.0f} MB more"),
        Line(
            "normal again after",
            f"{max(recovered):.2f} s",
            f"{PATIENCE:g} s or less",
            max(recovered) <= PATIENCE,
        ),
    ]


def _peak(service: Served, requests: list[bytes], places: int, seconds: float) -> float:
    """Return what is answered a second when as many ask as there are places."""
    return run(closed_loop(service.host, service.port, requests, places, seconds / 6)).goodput


def _at_rest(service: Served) -> float:
    """Return how many megabytes the service has of its own when nobody asks."""
    time.sleep(_REST_SECONDS)
    return service.usage().own_megabytes


def main() -> None:
    """Measure and print."""
    given = options_of(__doc__, rows=100_000, seconds=30.0)
    at = machine()
    index = collection(given.folder, given.rows)
    requests = [search(caption) for caption in captions()]
    cores = os.sched_getaffinity(0)
    mine = {max(cores)}
    os.sched_setaffinity(0, cores - mine or mine)
    with served(index) as service:
        os.sched_setaffinity(0, mine)
        found = overload(service, requests, given.seconds)
    finish(f"Overload for up to {given.seconds:g} s at a time over {given.rows:,} rows", found, at)


if __name__ == "__main__":
    main()
