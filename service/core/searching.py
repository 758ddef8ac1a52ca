"""Queue of searches: those with the same options run together and bring the rows of their hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from time import perf_counter
from typing import NamedTuple

import numpy as np
from prometheus_client import Histogram
from torch import Tensor

from hasse.index.errors import HasseIndexError
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import FoundCaption, NamedImage, Points
from hasse.service.core.admission import Admission, batch_limit
from hasse.service.core.batching import Batcher, Done, Next
from hasse.service.core.encoding import EncodingQueue
from hasse.service.core.stages import Stages
from hasse.service.errors import UNREADABLE, ServiceError, unreachable
from hasse.service.settings import Settings

# Searches for one answer, when the collection loses hits faster than they can be described.
_ATTEMPTS = 8


class SearchKey(NamedTuple):
    """Searches that may run together."""

    query: Query
    offset: int = 0
    points: int = 1  # of each item
    joint: bool = False  # the points of an item are the parts of one search


@dataclass(frozen=True, slots=True)
class Found:
    """A ranking of the index with the catalog's rows of its hits.

    The first `offset` hits are left out. `removal` is the generation that last removed one of the
    batch's hits. If it is later than the search, a hit has no row, or that of another image.
    """

    ranking: Answer
    offset: int
    images: dict[int, NamedImage]
    captions: dict[int, FoundCaption]
    removal: int
    prefilter_seconds: float
    rerank_seconds: float
    metadata_seconds: float

    def wanted(
        self, probabilities: Sequence[float] | None = None
    ) -> Iterator[tuple[int, float, float | None]]:
        """Yield the id, the violation and the probability of each hit after the offset."""
        ranking = self.ranking
        every = zip(
            ranking.ids.tolist(),
            map(plain, ranking.violations),
            probabilities or repeat(None),
            strict=False,
        )
        return islice(every, self.offset, None)

    @property
    def texts(self) -> list[str]:
        """The texts of the captions that were found; "" for one that was removed since."""
        rows = self.captions
        return [rows[hit].text if hit in rows else "" for hit in self.ranking.ids.tolist()]

    @property
    def is_whole(self) -> bool:
        """Whether every hit has its own row."""
        rows = self.images or self.captions
        return self.removal <= self.ranking.generation and all(
            hit in rows for hit in self.ranking.ids[self.offset :].tolist()
        )


def plain(violation: np.float32) -> float:
    """Return a violation as the decimal that a person would write."""
    # The shortest decimal that names the float32: 0.0123, not 0.012299999594688416.
    return float(str(violation))


class SearchQueue:
    """The index, behind one queue.

    Args:
        index: what is searched.
        settings: how many points are searched for together, and by how many threads.
        admission: counts the searches in flight.
        batch_size: counts the sizes of batches.
        on_death: see `Batcher`.
    """

    def __init__(
        self,
        index: Index,
        settings: Settings,
        *,
        admission: Admission,
        batch_size: Histogram | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self._batch_size = batch_size
        self.batcher: Batcher[SearchKey, Points, list[Found]] = Batcher(
            "search",
            self._run,
            size=lambda key: max(
                1, batch_limit(settings.search_batch, admission.in_flight) // key.points
            ),
            workers=settings.search_workers,
            delay=0.0,
            together=UNREADABLE,
            on_death=on_death,
        )

    async def search(self, key: SearchKey, points: Points, stages: Stages) -> list[Found]:
        """Return the best rows for each of some points (P, N), or for all of them jointly.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        try:
            done = await self.batcher.submit(key, points)
        except UNREADABLE as error:
            raise unreachable(error) from None
        return _timed(done, stages)

    async def search_encoded(
        self, key: SearchKey, encoder: EncodingQueue, item: str | Tensor, stages: Stages
    ) -> Found:
        """Return the best rows for a caption or a preprocessed picture.

        Its point goes from the encoder's thread to this one, and not through the event loop.

        Raises:
            ServiceError: whatever the encoder raises, and `not_ready` when the threads are gone.
        """
        try:
            done = await encoder.encode_then(item, Next(self.batcher, key, _alone), stages)
        except UNREADABLE as error:
            raise unreachable(error) from None
        return _timed(done, stages)[0]

    def _run(self, key: SearchKey, blocks: list[Points]) -> list[list[Found]]:
        if self._batch_size is not None:
            self._batch_size.labels(f"search-{key.query.kind}").observe(len(blocks))
        found = self._found(key, blocks)
        for _ in range(_ATTEMPTS):
            if all(one.is_whole for one in found):
                break
            # A hit was deleted after the search: ask the generation without it, so that an
            # answer is of one generation and not of two. Its id may be another's already.
            self._refresh()
            found = self._found(key, blocks)
        each = 1 if key.joint else key.points
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

    def _found(self, key: SearchKey, blocks: list[Points]) -> list[Found]:
        read = self._index.snapshot  # while it is held, no deletion after it is forgotten
        start = perf_counter()
        rankings = self._rankings(key, blocks)
        searched = perf_counter()
        ids = sorted({hit for ranking in rankings for hit in ranking.ids[key.offset :].tolist()})
        images: dict[int, NamedImage] = {}
        captions: dict[int, FoundCaption] = {}
        if key.query.kind == "image":
            images, removal = self._index.catalog.image_hits(ids)
        else:
            same = (others for ranking in rankings for others in ranking.same.values())
            captions, removal = self._index.catalog.caption_hits([*ids, *chain.from_iterable(same)])
        described = perf_counter()
        del read
        found = []
        for ranking in rankings:
            # The index counts the time of a ranking; a client waited for the whole batch.
            whole = ranking.seconds.prefilter + ranking.seconds.rerank
            prefilter = (searched - start) * (ranking.seconds.prefilter / whole if whole else 0.0)
            rerank, metadata = searched - start - prefilter, described - searched
            found.append(
                Found(ranking, key.offset, images, captions, removal, prefilter, rerank, metadata)
            )
        return found

    def _rankings(self, key: SearchKey, blocks: list[Points]) -> Sequence[Answer]:
        if key.joint:
            return [self._index.search_jointly(key.query, block) for block in blocks]
        return self._index.search_batch(key.query, np.concatenate(blocks))


def _alone(point: Points) -> Points:
    return point[None]


def _timed(done: Done[list[Found]], stages: Stages) -> list[Found]:
    first, seconds = done.result[0], stages.seconds
    seconds["queue"] += done.waited
    seconds["prefilter"] += first.prefilter_seconds
    seconds["rerank"] += first.rerank_seconds
    seconds["metadata"] += first.metadata_seconds
    return done.result
