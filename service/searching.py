"""Searches with the same options run together, and bring the words and files of their hits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from index.query import Answer
from index.store import Index
from index.terms import CaptionRow, ImageRow, Kind, Mode
from service.batching import Batcher, WorkerStoppedError
from service.encoding import Point
from service.errors import ServiceError
from service.schemas import SearchOptions
from service.settings import Settings
from service.timing import Stages


class Lane(NamedTuple):
    """Searches that may run together."""

    kind: Kind
    k: int
    mode: Mode
    candidates: int | None
    max_violation: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """An answer of the index with the catalog's rows of its hits, in the order of the hits.

    A hit that was deleted since the search has no row; `rows` leaves it out.
    """

    answer: Answer
    images: dict[int, ImageRow]
    captions: dict[int, CaptionRow]
    captions_of: dict[int, list[CaptionRow]]
    prefilter_seconds: float
    rerank_seconds: float
    metadata_seconds: float


class Searcher:
    """The index, behind one queue."""

    def __init__(
        self,
        index: Index,
        settings: Settings,
        *,
        on_batch: Callable[[str, int], None] = lambda kind, size: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self.batcher: Batcher[Lane, Point, Found] = Batcher(
            "search",
            self._run,
            size=lambda lane: settings.search_batch,
            workers=settings.search_workers,
            delay=0.0,
            on_batch=lambda lane, size: on_batch(f"search-{lane.kind}", size),
            on_death=on_death,
        )

    async def search(
        self, kind: Kind, point: Point, options: SearchOptions, stages: Stages
    ) -> Found:
        """Return the best rows of a kind for a point.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        lane = Lane(
            kind, options.k, options.mode, options.candidates, _as_stored(options.max_violation)
        )
        try:
            done = await self.batcher.submit(lane, point)
        except WorkerStoppedError:
            raise ServiceError("not_ready", "the search has stopped") from None
        stages.add("queue", done.waited)
        stages.add("prefilter", done.result.prefilter_seconds)
        stages.add("rerank", done.result.rerank_seconds)
        stages.add("metadata", done.result.metadata_seconds)
        return done.result

    def _run(self, lane: Lane, points: list[Point]) -> list[Found]:
        start = perf_counter()
        answers = self._index.search_batch(
            lane.kind,
            np.stack(points),
            lane.k,
            lane.mode,
            candidates=lane.candidates,
            max_violation=lane.max_violation,
        )
        searched = perf_counter()
        ids = sorted({int(hit) for answer in answers for hit in answer.ids})
        images: dict[int, ImageRow] = {}
        captions: dict[int, CaptionRow] = {}
        captions_of: dict[int, list[CaptionRow]] = {}
        if lane.kind == "image":
            images, captions_of = self._index.images(ids), self._index.captions_of(ids)
        else:
            captions = self._index.captions(ids)
        described = perf_counter()
        return [
            Found(
                answer,
                images,
                captions,
                captions_of,
                (searched - start) * _prefilter_share(answer),
                (searched - start) * (1 - _prefilter_share(answer)),
                described - searched,
            )
            for answer in answers
        ]


def _as_stored(limit: float | None) -> float | None:
    # Violations are float32: the decimal of one, given back as a limit, must let it in.
    if limit is None or limit > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(limit))


def _prefilter_share(answer: Answer) -> float:
    # The index counts the time of an answer; a client waited for the whole batch.
    whole = answer.seconds.prefilter + answer.seconds.rerank
    return answer.seconds.prefilter / whole if whole > 0 else 0.0
