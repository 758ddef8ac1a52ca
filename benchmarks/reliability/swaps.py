"""Does each answer belong to one whole generation while the collection changes?

    python -m benchmarks.reliability.swaps FOLDER [--swaps 100]

A writer adds and removes images, each time a new generation, while clients ask for everything
there is. The images of an answer must be exactly those of the generation that it names.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.reliability.collection import captions, collection
from benchmarks.reliability.connection import Reply, search
from benchmarks.reliability.load import closed_loop, run
from benchmarks.reliability.served import Served, served
from benchmarks.report import Line, finish, machine, options_of
from hasse.index.store import Index
from hasse.index.types import CaptionRow, ImageRow

ROWS = 60
CLIENTS = 8
TOGETHER = 5  # images that come or go at once
REFRESH_SECONDS = 0.02


@dataclass(slots=True)
class Watch:
    """What each generation holds, and the answers that do not fit."""

    held: dict[int, frozenset[int]]
    seen: set[int] = field(default_factory=set)
    answers: list[tuple[int, frozenset[int]]] = field(default_factory=list)

    def look(self, reply: Reply) -> None:
        """Remember an answer; its generation may not be known yet."""
        if reply.status == 200:
            answer = json.loads(reply.body)
            ids = frozenset(hit["image_id"] for hit in answer["hits"])
            self.answers.append((answer["generation"], ids))
            self.seen.add(answer["generation"])

    def mixed(self) -> int:
        """Count the answers that are of no one generation."""
        return sum(self.held.get(generation) != ids for generation, ids in self.answers)


def change(index: Index, watch: Watch, swaps: int) -> None:
    """Make `swaps` generations, one by one: images come, and the same go again."""
    rng = np.random.default_rng(0)
    for at in range(swaps):
        held = watch.held[index.generation]
        if at % 2 == 0:
            ids = range(10_000 + at, 10_000 + at + TOGETHER)
            points = rng.random((TOGETHER, index.model.dimension), np.float32)
            points /= np.linalg.norm(points, axis=1, keepdims=True)
            rows = [ImageRow(n, f"{n}.jpg", f"{n}.jpg", 1, 1, "test") for n in ids]
            texts = [CaptionRow(n, n, "a scene") for n in ids]
            index.add(rows, points, texts, points)
            now = held | set(ids)
        else:
            ids = range(10_000 + at - 1, 10_000 + at - 1 + TOGETHER)
            gone = [*ids, *sorted(held)[:1]]  # and one of those that were there
            index.remove(gone)
            now = held - set(gone)
        watch.held[index.generation] = frozenset(now)


async def _swap(service: Served, index: Index, swaps: int) -> Watch:
    watch = Watch({index.generation: frozenset(index.catalog.images(range(ROWS)))})
    requests = [search(caption, k=1000) for caption in captions(40)]
    asking = asyncio.create_task(
        closed_loop(service.host, service.port, requests, CLIENTS, float("inf"), watch=watch.look)
    )
    await asyncio.to_thread(change, index, watch, swaps)
    last = index.generation
    while last not in watch.seen and not asking.done():
        await asyncio.sleep(0.05)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return watch


def swap(folder: Path, swaps: int) -> Watch:
    """Change a copy of a small collection below `folder` while it is served and asked."""
    place = folder / "swapped"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(collection(folder, ROWS), place)
    with (
        Index.open(place, threads=1) as index,
        served(place, refresh_seconds=REFRESH_SECONDS) as service,
    ):
        watch = run(_swap(service, index, swaps))
    shutil.rmtree(place)
    return watch


def main() -> None:
    """Swap and print."""
    given = options_of(__doc__, swaps=100)
    at = machine()
    watch = swap(given.folder, given.swaps)
    mixed = watch.mixed()
    finish(
        f"{given.swaps} generations swapped under {CLIENTS} clients",
        [
            Line("answers", f"{len(watch.answers):,}", "some", len(watch.answers) > 0),
            Line("generations seen in them", f"{len(watch.seen)} of {given.swaps + 1}"),
            Line("answers of no one generation", str(mixed), "none", mixed == 0),
        ],
        at,
    )


if __name__ == "__main__":
    main()
