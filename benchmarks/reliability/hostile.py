"""What does a whole corpus of hostile pictures and bodies do to a service, and to its memory?

    python -m benchmarks.reliability.hostile FOLDER [--rounds 5]

Sends every odd and bad picture, JSON body and form of the tests to a service of its own. Each gets
an answer or a refusal that the table of errors names. FOLDER keeps the collection for the next run.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from benchmarks.reliability.collection import collection
from benchmarks.reliability.connection import Connection, form, post, search
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of
from hasse.service.errors import REASONS
from hasse.service.settings import Settings
from tests.service.hostile_pictures import BAD, GOOD
from tests.service.http.test_bodies import HOSTILE_JSON
from tests.service.http.test_multipart import HOSTILE_FORMS

# A process that decodes takes about 25 bytes for each pixel that it is allowed.
DECODING_MB = 25e-6
SLACK_MB = 64.0
ROWS = 60


def corpus() -> dict[str, bytes]:
    """Return the requests by name."""
    pictures = {**GOOD, **{name: make for name, (make, _) in BAD.items()}}
    return {
        **{f"picture: {name}": form("/search/captions", make()) for name, make in pictures.items()},
        **{
            f"JSON: {name}": post("/search/images", "application/json", body)
            for name, body in HOSTILE_JSON.items()
        },
        **{
            f"form: {name}": post("/search/captions", content_type, body)
            for name, (content_type, body) in HOSTILE_FORMS.items()
        },
    }


def bound(settings: Settings) -> float:
    """Return how far memory may rise above what the service takes at rest, in megabytes."""
    return settings.decode_workers * settings.picture_pixels * DECODING_MB + SLACK_MB


async def _send(service: Served, requests: dict[str, bytes]) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for name, request in requests.items():
        connection = await Connection.open(service.host, service.port)
        reply = await connection.ask(request)
        await connection.close()
        outcomes[name] = "answered"
        if reply.status != 200:
            found = json.loads(reply.body)
            outcomes[name] = found["reason"]
            assert reply.status == REASONS[found["reason"]].status, name
    return outcomes


def send(service: Served, requests: dict[str, bytes]) -> dict[str, str]:
    """Send each; return `answered`, or the reason of the refusal, by name."""
    return asyncio.run(_send(service, requests))


def main() -> None:
    """Send and print."""
    given = options_of(__doc__, rounds=5)
    at = machine()
    requests = corpus()
    with served(collection(given.folder, ROWS)) as service:
        send(service, {"a caption": search("a dog"), "odd": next(iter(requests.values()))})
        before = service.usage()
        said: Counter[str] = Counter()
        for _ in range(given.rounds):
            said.update(send(service, requests).values())
        after = service.usage()
    broken = sum(said[reason] for reason, kind in REASONS.items() if kind.status >= 500)
    risen = after.peak_megabytes - before.megabytes
    allowed = bound(Settings())
    finish(
        f"{len(requests)} hostile requests, {given.rounds} times",
        [
            Line(
                "answers",
                ", ".join(f"{count:,} {what}" for what, count in said.most_common()),
                "none of 500 or above",
                not broken,
            ),
            Line(
                "memory at its highest",
                f"{before.megabytes:.0f} MB + {risen:.0f} MB",
                f"+ {allowed:,.0f} MB at most",
                risen <= allowed,
            ),
            Line(
                "memory afterwards",
                f"{before.megabytes:.0f} MB + {after.megabytes - before.megabytes:.0f} MB",
                f"+ {SLACK_MB:.0f} MB at most",
                after.megabytes - before.megabytes <= SLACK_MB,
            ),
        ],
        at,
    )


if __name__ == "__main__":
    main()
