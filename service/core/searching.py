"""Searches with the same options run together, and bring the words and files of their hits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from prometheus_client import Histogram
from torch import Tensor

from hasse.index.catalog.places import absolute_path
from hasse.index.catalog.selection import Selection
from hasse.index.errors import HasseIndexError
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import FoundCaption, Kind, NamedImage, Points
from hasse.models.evaluation.calibration import Calibration
from hasse.service.addresses import IMAGE_URL, ROOT_PATH, THUMBNAIL_URL
from hasse.service.core.admission import Admission, most
from hasse.service.core.batching import Batcher, Done, Next
from hasse.service.core.encoding import Encoder, Point
from hasse.service.core.stages import Stages
from hasse.service.errors import UNREADABLE, ServiceError, unreachable
from hasse.service.picture_schemas import DistinctOptions, SimilarOptions
from hasse.service.schemas import K_MAXIMUM, SearchOptions, milliseconds
from hasse.service.settings import Settings

# Searches for one answer, when the collection loses hits faster than they can be described.
_ATTEMPTS = 8
_TIMES = ("added_from", "added_before", "taken_from", "taken_before")
_SELECTING = ("split", "image_ids", "path_prefix", *_TIMES)


class SearchKey(NamedTuple):
    """Searches that may run together."""

    query: Query
    offset: int
    together: int  # points of each item
    joint: bool = False  # the points of an item are the parts of one search


@dataclass(frozen=True, slots=True)
class Found:
    """An answer of the index with the catalog's rows of its hits, in the order of the hits.

    The first `offset` hits are not wanted. `removal` is the generation that last removed one of the
    batch's hits: since the search, where it is later, and then a hit has no row, or another's.
    `probabilities` are of all hits, where the model is calibrated, the search has one part and it
    is known which text each hit is compared with.
    """

    answer: Answer
    probabilities: list[float] | None
    offset: int
    images: dict[int, NamedImage]
    captions: dict[int, FoundCaption]
    removal: int
    places: Places
    prefilter_seconds: float
    rerank_seconds: float
    metadata_seconds: float

    def image_hits(self) -> list[dict[str, Any]]:
        """Return the fields of an `ImageHit` for each image.

        An answer makes all its hits of their fields at once, which takes less than one by one.
        """
        hits: list[dict[str, Any]] = []
        root_path = ROOT_PATH.get()
        for image_id, violation, probability in self.wanted():
            if (row := self.images.get(image_id)) is not None:
                paths = self.places.shown(row.file_name, row.paths)
                hits.append(
                    {
                        "rank": self.offset + len(hits) + 1,
                        "image_id": row.id,
                        "file_name": row.file_name,
                        "path": paths[0],
                        "paths": paths,
                        "violation": plain(violation),
                        "probability": probability,
                        "captions": [text for text, by in row.captions if by is None],
                        "written_captions": [text for text, by in row.captions if by is not None],
                        "image_url": root_path + IMAGE_URL % row.id,
                        "thumbnail_url": root_path + THUMBNAIL_URL % row.id,
                    }
                )
        return hits

    def facts(self, model: str) -> dict[str, Any]:
        """Return what an answer by the model of that name says beside its hits."""
        answer = self.answer
        return {
            "mode": answer.mode,
            "certified": answer.certified,
            "searched": answer.searched,
            "rescored": answer.rescored,
            "plan": answer.plan,
            "work": answer.work._asdict(),
            "model": model,
            "generation": answer.generation,
        }

    def wanted(self) -> Iterator[tuple[int, np.float32, float | None]]:
        """Yield the id, the violation and the probability of each hit that is wanted."""
        answer, probabilities = self.answer, self.probabilities or repeat(None)
        every = zip(answer.ids.tolist(), answer.violations, probabilities, strict=False)
        return islice(every, self.offset, None)

    @property
    def is_whole(self) -> bool:
        """Whether every hit has its own row."""
        rows = self.images or self.captions
        return self.removal <= self.answer.generation and all(
            int(hit) in rows for hit in self.answer.ids[self.offset :]
        )


@dataclass(frozen=True, slots=True)
class Places:
    """How answers show where files lie: by absolute paths, or relative to followed folders.

    A service tells nobody where its folders are: a file in none is shown by its image's name.
    """

    index_folder: Path
    absolute: bool

    def shown(self, file_name: str, paths: Iterable[Sequence[str]]) -> list[str]:
        """Return the paths of the files of an image, at least one, of pairs as in `NamedImage`."""
        if self.absolute:
            each = [absolute_path(self.index_folder, path) for path, _ in paths]
        else:
            each = [self._within(*pair) if pair[1] else file_name for pair in paths]
        return list(dict.fromkeys(each)) or [file_name]

    def _within(self, path: str, folder: str) -> str:
        if path.startswith(f"{folder}/"):
            return path[len(folder) + 1 :]
        return os.path.relpath(*(absolute_path(self.index_folder, each) for each in (path, folder)))

    def selection(self, kind: Kind, options: SearchOptions) -> Selection | None:
        """Return the part of the collection that a search is about; None is all of it."""
        of = options if kind == "caption" and isinstance(options, DistinctOptions) else None
        distinct, written = (of.distinct, of.written) if of else (False, True)
        if written and not distinct and all(getattr(options, name) is None for name in _SELECTING):
            return None
        ids, times = options.image_ids, ((name, getattr(options, name)) for name in _TIMES)
        return Selection(
            split=options.split,
            image_ids=None if ids is None else tuple(sorted(set(ids))),
            path_prefix=options.path_prefix,
            absolute_paths=self.absolute and options.path_prefix is not None,
            distinct_texts=distinct,
            written=written,
            **{name: None if at is None else milliseconds(at) for name, at in times},
        )


def plain(violation: np.float32) -> float:
    """Return a violation as the decimal that a person would write."""
    # The shortest decimal that names the float32: 0.0123, not 0.012299999594688416.
    return float(str(violation))


class Searcher:
    """The index, behind one queue.

    Args:
        index: what is searched.
        calibration: says how probable it is that a hit is true.
        settings: how many points are searched for together, and by how many threads.
        admission: knows how many searches are in flight.
        places: says how answers show where files lie, and how options name it.
        batch_size: counts the sizes of batches.
        on_death: see `Batcher`.
    """

    def __init__(
        self,
        index: Index,
        calibration: Calibration | None,
        settings: Settings,
        places: Places,
        *,
        admission: Admission,
        batch_size: Histogram | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index = index
        self._batch_size = batch_size
        self._calibration = calibration
        self._places = places
        self.batcher: Batcher[SearchKey, Points, list[Found]] = Batcher(
            "search",
            self._run,
            size=lambda key: max(
                1, most(settings.search_batch, admission.in_flight) // key.together
            ),
            workers=settings.search_workers,
            delay=0.0,
            together=UNREADABLE,
            on_death=on_death,
        )

    async def search(
        self, kind: Kind, point: Point, options: SearchOptions, stages: Stages, *, spare: int = 0
    ) -> Found:
        """Return the best rows of a kind for a point, `spare` more than the options say.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        key = _key(self._places, kind, 1, options, spare)
        (found,) = await self._submit(key, _alone(point), stages)
        return found

    async def search_encoded(
        self,
        kind: Kind,
        encoder: Encoder,
        item: str | Tensor,
        options: SearchOptions,
        stages: Stages,
    ) -> Found:
        """Return the best rows of a kind for a caption or a preprocessed picture.

        Its point goes from the encoder's thread to this one, and not through the event loop.

        Raises:
            ServiceError: whatever the encoder raises, and `not_ready` when the threads are gone.
        """
        then = Next(self.batcher, _key(self._places, kind, 1, options), _alone)
        try:
            done = await encoder.encode_then(item, then, stages)
        except UNREADABLE as error:
            raise unreachable(error) from None
        (found,) = _timed(done, stages)
        return self._judged(found, item) if isinstance(item, str) else found

    async def search_all(
        self, texts: Sequence[str], points: Points, options: SearchOptions, stages: Stages
    ) -> list[Found]:
        """Return the best images for each of some captions (B) at points (B, N), over one snapshot.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        key = _key(self._places, "image", len(points), options)
        found = await self._submit(key, points, stages)
        return [self._judged(one, text) for one, text in zip(found, texts, strict=True)]

    def _judged(self, found: Found, text: str) -> Found:
        """Add how probable it is that a text is true of each image that was found."""
        if self._calibration is None or found.probabilities is not None:
            return found
        known = self._calibration.of(text).probability(found.answer.violations)
        return replace(found, probabilities=known.round(4).tolist())

    async def search_jointly(
        self, kind: Kind, parts: Points, options: SearchOptions, stages: Stages
    ) -> Found:
        """Return the rows of a kind that fit the worst of some parts (P, N) best.

        Raises:
            ServiceError: `not_ready` when the threads are gone.
        """
        key = _key(self._places, kind, len(parts), options)._replace(joint=True)
        return (await self._submit(key, parts, stages))[0]

    async def _submit(self, key: SearchKey, points: Points, stages: Stages) -> list[Found]:
        try:
            done = await self.batcher.submit(key, points)
        except UNREADABLE as error:
            raise unreachable(error) from None
        return _timed(done, stages)

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
        each = 1 if key.joint else key.together
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
        answers = self._answers(key, blocks)
        searched = perf_counter()
        ids = sorted({int(hit) for answer in answers for hit in answer.ids[key.offset :]})
        images: dict[int, NamedImage] = {}
        captions: dict[int, FoundCaption] = {}
        if key.query.kind == "image":
            images, removal = self._index.image_hits(ids)
        else:
            same = (others for answer in answers for others in answer.same.values())
            captions, removal = self._index.caption_hits([*ids, *chain.from_iterable(same)])
        described = perf_counter()
        del read
        return [
            Found(
                answer,
                self._probabilities(key, answer, captions),
                key.offset,
                images,
                captions,
                removal,
                self._places,
                (searched - start) * _prefilter_share(answer),
                (searched - start) * (1 - _prefilter_share(answer)),
                described - searched,
            )
            for answer in answers
        ]

    def _probabilities(
        self, key: SearchKey, answer: Answer, captions: Mapping[int, FoundCaption]
    ) -> list[float] | None:
        known = self._calibration
        if known is None or key.joint:
            return None
        if key.query.kind == "image" and known.word_weight:
            return None  # `_judged` knows the caption
        texts = (captions[hit].text if hit in captions else "" for hit in answer.ids.tolist())
        return known.of_each(texts, answer.violations)

    def _answers(self, key: SearchKey, blocks: list[Points]) -> Sequence[Answer]:
        if key.joint:
            return [self._index.search_jointly(key.query, block) for block in blocks]
        return self._index.search_batch(key.query, np.concatenate(blocks))


def _alone(point: Point) -> Points:
    return point[None]


def _timed(done: Done[list[Found]], stages: Stages) -> list[Found]:
    first, seconds = done.result[0], stages.seconds
    seconds["queue"] += done.waited
    seconds["prefilter"] += first.prefilter_seconds
    seconds["rerank"] += first.rerank_seconds
    seconds["metadata"] += first.metadata_seconds
    return done.result


def _key(
    places: Places, kind: Kind, together: int, options: SearchOptions, spare: int = 0
) -> SearchKey:
    query = Query(
        kind,
        depth_of(options) + spare,
        options.mode,
        options.candidates,
        _as_stored(options.max_violation),
        places.selection(kind, options),
        options.similar if isinstance(options, SimilarOptions) else None,
    )
    return SearchKey(query, options.offset, together)


def depth_of(options: SearchOptions) -> int:
    """Return how many of the best have to be found for the hits that are wanted."""
    return min(options.offset + options.k, K_MAXIMUM)


def _as_stored(limit: float | None) -> float | None:
    # Violations are float32: the decimal of one, given back as a limit, must let it in.
    if limit is None or limit > float(np.finfo(np.float32).max):
        return None
    return float(np.float32(limit))


def _prefilter_share(answer: Answer) -> float:
    # The index counts the time of an answer; a client waited for the whole batch.
    whole = answer.seconds.prefilter + answer.seconds.rerank
    return answer.seconds.prefilter / whole if whole > 0 else 0.0
