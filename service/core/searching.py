"""Searches with the same options run together, and bring the words and files of their hits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from index.catalog.selection import Selection
from index.errors import HasseIndexError
from index.search.query import Answer
from index.store import Index
from index.types import CaptionRow, Kind, Mode, NamedImage, Points
from models.evaluation.calibration import Calibration
from service.core.batching import Batcher, Done, Onward
from service.core.encoding import Point
from service.core.stages import Stages
from service.errors import UNREADABLE, ServiceError, reaching_catalog
from service.schemas import SearchOptions, milliseconds
from service.settings import Settings

_TOGETHER = 8  # searches that are made together also where they are more than half of all
# Searches for one answer, when the collection loses hits faster than they can be described.
_ATTEMPTS = 8


class Lane(NamedTuple):
    """Searches that may run together."""

    kind: Kind
    k: int
    mode: Mode
    candidates: int | None
    max_violation: float | None
    selection: Selection | None
    offset: int
    together: int  # points of each item
    joint: bool = False  # the points of an item are the parts of one search


@dataclass(frozen=True, slots=True)
class Found:
    """An answer of the index with the catalog's rows of its hits, in the order of the hits.

    The first `offset` hits are not wanted. `removal` is the generation that last removed one of the
    batch's hits: since the search, where it is later, and then a hit has no row, or another's.
    `probabilities` are of all hits, where the model is calibrated and the search has one part.
    """

    answer: Answer
    probabilities: list[float] | None
    offset: int
    images: dict[int, NamedImage]
    captions: dict[int, CaptionRow]
    removal: int
    prefilter_seconds: float
    rerank_seconds: float
    metadata_seconds: float

    @property
    def is_whole(self) -> bool:
        """Whether every hit has its own row."""
        rows = self.images or self.captions
        return self.removal <= self.answer.generation and all(
            int(hit) in rows for hit in self.answer.ids[self.offset :]
        )


def most(batch: int, in_flight: int) -> int:
    """Return how many of the searches in flight are made together, at most `batch`.

    Half of them: while the one half is searched for, the other is answered and asks again. All
    together would let the search wait for the event loop, and that for the search.
    """
    return min(batch, max(_TOGETHER, in_flight // 2))


class Searcher:
    """The index, behind one queue.

    Args:
        index: what is searched.
        calibration: says how probable it is that a hit is true.
        settings: how many points are searched for together, and by how many threads.
        in_flight: counts the searches that are worked on, at whatever they are.
        on_batch, on_death: see `Batcher`.
    """

    def __init__(
        self,
        index: Index,
        calibration: Calibration | None,
        settings: Settings,
        *,
        in_flight: Callable[[], int],
        on_batch: Callable[[str, int], None] = lambda kind, size: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self._calibration = calibration
        self.batcher: Batcher[Lane, Points, list[Found]] = Batcher(
            "search",
            self._run,
            size=lambda lane: max(1, most(settings.search_batch, in_flight()) // lane.together),
            workers=settings.search_workers,
            delay=0.0,
            together=UNREADABLE,
            on_batch=lambda lane, size: on_batch(f"search-{lane.kind}", size),
            on_death=on_death,
        )

    async def search(
        self, kind: Kind, point: Point, options: SearchOptions, stages: Stages, *, spare: int = 0
    ) -> Found:
        """Return the best rows of a kind for a point, `spare` more than the options say.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        lane = _lane(kind, 1, options)._replace(k=options.depth + spare)
        (found,) = await self._submit(lane, _alone(point), stages)
        return found

    async def search_encoded(
        self,
        kind: Kind,
        encode: Callable[[Onward[Point, list[Found]], Stages], Awaitable[Done[list[Found]]]],
        options: SearchOptions,
        stages: Stages,
    ) -> Found:
        """Return the best rows of a kind for a point that `encode` sends on to this search.

        Raises:
            ServiceError: whatever `encode` raises, and `not_ready` when the threads are gone.
        """
        with reaching_catalog():
            done = await encode(Onward(self.batcher, _lane(kind, 1, options), _alone), stages)
        (found,) = _timed(done, stages)
        return found

    async def search_all(
        self, kind: Kind, points: Points, options: SearchOptions, stages: Stages
    ) -> list[Found]:
        """Return the best rows of a kind for each of some points (B, N), over one generation.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        return await self._submit(_lane(kind, len(points), options), points, stages)

    async def jointly(
        self, kind: Kind, parts: Points, options: SearchOptions, stages: Stages
    ) -> Found:
        """Return the rows of a kind that fit the worst of some parts (P, N) best.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        lane = _lane(kind, len(parts), options)._replace(joint=True)
        (found,) = await self._submit(lane, parts, stages)
        return found

    async def _submit(self, lane: Lane, points: Points, stages: Stages) -> list[Found]:
        with reaching_catalog():
            done = await self.batcher.submit(lane, points)
        return _timed(done, stages)

    def _run(self, lane: Lane, blocks: list[Points]) -> list[list[Found]]:
        found = self._found(lane, blocks)
        for _ in range(_ATTEMPTS):
            if all(one.is_whole for one in found):
                break
            # A hit was deleted after the search: ask the generation without it, so that an
            # answer is of one generation and not of two. Its id may be another's already.
            self._refresh()
            found = self._found(lane, blocks)
        each = 1 if lane.joint else lane.together
        return [found[at : at + each] for at in range(0, len(found), each)]

    def _refresh(self) -> None:
        try:
            self._index.refresh()
        except UNREADABLE:
            raise
        except (HasseIndexError, OSError) as error:
            raise ServiceError(
                "not_ready", "the collection was changed and cannot be loaded yet", retry_after=1
            ) from error

    def _found(self, lane: Lane, blocks: list[Points]) -> list[Found]:
        read = self._index.snapshot  # while it is held, no deletion after it is forgotten
        start = perf_counter()
        answers = self._answers(lane, blocks)
        searched = perf_counter()
        ids = sorted({int(hit) for answer in answers for hit in answer.ids[lane.offset :]})
        images: dict[int, NamedImage] = {}
        captions: dict[int, CaptionRow] = {}
        if lane.kind == "image":
            images, removal = self._index.image_hits(ids)
        else:
            captions, removal = self._index.caption_hits(ids)
        described = perf_counter()
        del read
        return [
            Found(
                answer,
                probabilities,
                lane.offset,
                images,
                captions,
                removal,
                (searched - start) * _prefilter_share(answer),
                (searched - start) * (1 - _prefilter_share(answer)),
                described - searched,
            )
            for answer, probabilities in zip(
                answers, self._probabilities(lane, answers), strict=True
            )
        ]

    def _probabilities(self, lane: Lane, answers: Sequence[Answer]) -> list[list[float] | None]:
        # For the whole batch at once, and here: in the event loop each call of the kind would
        # let other threads go first.
        if self._calibration is None or lane.joint:
            return [None for _ in answers]
        violations = np.concatenate([answer.violations for answer in answers])
        ends = np.cumsum([len(answer.violations) for answer in answers])
        each = np.split(self._calibration.probability(violations).round(4), ends[:-1])
        return [part.tolist() for part in each]

    def _answers(self, lane: Lane, blocks: list[Points]) -> Sequence[Answer]:
        options: dict[str, Any] = {
            "k": lane.k,
            "mode": lane.mode,
            "candidates": lane.candidates,
            "max_violation": lane.max_violation,
            "selection": lane.selection,
        }
        if lane.joint:
            return [self._index.search_jointly(lane.kind, block, **options) for block in blocks]
        return self._index.search_batch(lane.kind, np.concatenate(blocks), **options)


def _alone(point: Point) -> Points:
    return point[None]


def _timed(done: Done[list[Found]], stages: Stages) -> list[Found]:
    first = done.result[0]
    stages.add("queue", done.waited)
    stages.add("prefilter", first.prefilter_seconds)
    stages.add("rerank", first.rerank_seconds)
    stages.add("metadata", first.metadata_seconds)
    return done.result


def _lane(kind: Kind, together: int, options: SearchOptions) -> Lane:
    return Lane(
        kind,
        options.depth,
        options.mode,
        options.candidates,
        _as_stored(options.max_violation),
        selection_of(options),
        options.offset,
        together,
    )


def selection_of(options: SearchOptions) -> Selection | None:
    """Return the part of the collection that a search is about; None is all of it."""
    selection = Selection(
        split=options.split,
        image_ids=None if options.image_ids is None else tuple(sorted(set(options.image_ids))),
        added_from=None if options.added_from is None else milliseconds(options.added_from),
        added_before=None if options.added_before is None else milliseconds(options.added_before),
    )
    return None if selection == Selection() else selection


def _as_stored(limit: float | None) -> float | None:
    # Violations are float32: the decimal of one, given back as a limit, must let it in.
    if limit is None or limit > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(limit))


def _prefilter_share(answer: Answer) -> float:
    # The index counts the time of an answer; a client waited for the whole batch.
    whole = answer.seconds.prefilter + answer.seconds.rerank
    return answer.seconds.prefilter / whole if whole > 0 else 0.0
