"""Queue of searches: searches with the same options run as one batch and load their hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hasse.index.catalog.database import STATEMENTS
from hasse.index.errors import HasseIndexError
from hasse.index.search.query import Answer, Query
from hasse.index.store import Index
from hasse.index.types import CaptionHitRow, ImageHitRow, Points
from hasse.service.addresses import IMAGE_URL, ROOT_PATH, THUMBNAIL_URL
from hasse.service.core.admission import Admission
from hasse.service.core.batching import Batcher
from hasse.service.core.caption_order import CaptionOrder
from hasse.service.errors import UNREADABLE, ServiceError, unreachable
from hasse.service.settings import Settings
from hasse.service.telemetry.stages import Stages

if TYPE_CHECKING:
    from prometheus_client import Histogram

# Maximum number of searches for one answer, if hits are deleted before their rows are read.
_ATTEMPTS = 8
_SMALL_BATCH = 8  # searches of a batch that may be more than half of those in flight


class SearchKey(NamedTuple):
    """Key of a batch: the options that its searches share."""

    query: Query
    offset: int = 0
    points: int = 1  # number of points of each item
    joint: bool = False  # whether the points of an item are the parts of one search
    specific_first: bool = False  # whether `CaptionOrder` sorts the captions


@dataclass(frozen=True, slots=True)
class ShownPaths:
    """Paths of files in answers: absolute, or relative to followed folders.

    A service never sends absolute paths to clients. A file outside followed folders is shown by
    its file name.
    """

    index: Index
    absolute: bool

    def shown(self, file_name: str, paths: Iterable[Sequence[str]]) -> list[str]:
        """Return the paths of an image, at least one, from pairs as in `ImageHitRow`."""
        names = self._names([path for path, _ in paths])
        return list(dict.fromkeys(name or file_name for name in names.values())) or [file_name]

    def of_hits(self, rows: Mapping[int, ImageHitRow | CaptionHitRow]) -> dict[int, list[str]]:
        """Return the paths of each hit, by its id."""
        names = self._names([path for row in rows.values() for path, _ in row.paths])
        return {
            hit: list(dict.fromkeys([names[path] or row.file_name for path, _ in row.paths]))
            or [row.file_name]
            for hit, row in rows.items()
        }

    def _names(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        locations = self.index.locations
        if self.absolute:
            return {path: locations.absolute(path) for path in paths}
        return locations.shown_paths(paths)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A ranking of the index with the catalog rows of its hits.

    Answers skip the first `offset` hits. `removal` is the generation that last removed one of the
    hits of the batch. If it is later than the search, a hit has no row, or that of another image.
    """

    ranking: Answer
    offset: int
    images: dict[int, ImageHitRow]
    captions: dict[int, CaptionHitRow]
    removal: int
    prefilter_seconds: float
    rerank_seconds: float
    metadata_seconds: float
    statements: int = 0

    def image_hits(
        self, shown: ShownPaths, probabilities: Sequence[float | None] | None = None
    ) -> list[dict[str, Any]]:
        """Return the fields of an `ImageHit` for each image."""
        rows = (
            (row, violation, probability)
            for image_id, violation, probability in self._page(probabilities)
            if (row := self.images.get(image_id)) is not None
        )
        return image_hit_fields(rows, shown, self.offset, self.ranking.same, self.images)

    def only(self, image_ids: Collection[int]) -> SearchResult:
        """Return this result with these hits only."""
        is_kept = np.isin(self.ranking.ids, list(image_ids))
        ids, violations = self.ranking.ids[is_kept], self.ranking.violations[is_kept]
        return replace(self, ranking=replace(self.ranking, ids=ids, violations=violations))

    def caption_hits(
        self, shown: ShownPaths, probabilities: Sequence[float] | None = None
    ) -> list[dict[str, Any]]:
        """Return the fields of a `CaptionHit` for each caption."""
        hits: list[dict[str, Any]] = []
        paths_of = shown.of_hits(self.captions)
        for caption_id, violation, probability in self._page(probabilities):
            if (row := self.captions.get(caption_id)) is not None:
                paths = paths_of[row.id]
                hits.append(
                    {
                        "rank": self.offset + len(hits) + 1,
                        "caption_id": row.id,
                        "image_id": row.image_id,
                        "path": paths[0],
                        "paths": paths,
                        "caption": row.text,
                        "written_by": row.written_by,
                        "violation": violation,
                        "probability": probability,
                        "same": [
                            {"caption_id": other, "image_id": self.captions[other].image_id}
                            for other in self.ranking.same.get(caption_id, ())
                            if other in self.captions
                        ],
                    }
                )
        return hits

    def facts(self, model: str) -> dict[str, Any]:
        """Return the fields that all answers to searches have besides their hits."""
        ranking = self.ranking
        return {
            "mode": ranking.mode,
            "certified": ranking.certified,
            "searched": ranking.searched,
            "rescored": ranking.rescored,
            "plan": ranking.plan,
            "work": ranking.work._asdict(),
            "model": model,
            "generation": ranking.generation,
        }

    def _page(
        self, probabilities: Sequence[float | None] | None
    ) -> Iterator[tuple[int, float, float | None]]:
        """Yield the id, the violation and the probability of each hit after the offset."""
        ids, violations = self.ranking.ids.tolist(), map(shortest_decimal, self.ranking.violations)
        scored = zip(ids, violations, probabilities or repeat(None), strict=False)
        return islice(scored, self.offset, None)

    @property
    def violations(self) -> dict[int, float]:
        """The violations of all hits by id, the smallest first."""
        ranking = self.ranking
        decimals = map(shortest_decimal, ranking.violations)
        return dict(zip(ranking.ids.tolist(), decimals, strict=True))

    @property
    def texts(self) -> list[str]:
        """The texts of the captions; "" for a caption that was removed since."""
        rows = self.captions
        return [rows[hit].text if hit in rows else "" for hit in self.ranking.ids.tolist()]

    @property
    def is_complete(self) -> bool:
        """Whether every hit has its own row."""
        rows = self.images or self.captions
        return self.removal <= self.ranking.generation and all(
            hit in rows for hit in self.ranking.ids[self.offset :].tolist()
        )


def image_hit_fields(
    rows: Iterable[tuple[ImageHitRow, float | None, float | None]],
    shown: ShownPaths,
    offset: int,
    versions: Mapping[int, Sequence[int]],
    images: Mapping[int, ImageHitRow],
) -> list[dict[str, Any]]:
    """Return the fields of an `ImageHit` for each row with its violation and probability.

    `versions` has the ids of other versions of hits, whose rows are in `images`. One call for all
    hits of an answer is faster than one call for each.
    """
    all_rows = list(rows)
    others = {id_: images[id_] for ids in versions.values() for id_ in ids if id_ in images}
    paths_of = shown.of_hits({row.id: row for row, *_ in all_rows} | others)
    root_path = ROOT_PATH.get()
    hits: list[dict[str, Any]] = []
    for rank, (row, violation, probability) in enumerate(all_rows, offset + 1):
        paths = paths_of[row.id]
        hits.append(
            {
                "rank": rank,
                "image_id": row.id,
                "file_name": row.file_name,
                "path": paths[0],
                "paths": paths,
                "width": row.width,
                "height": row.height,
                "taken": local_time(row.taken),
                "dated_by": dated_by(row.taken),
                "violation": violation,
                "probability": probability,
                "shows": None
                if violation is None
                else {"violation": violation, "probability": probability},
                "says": [],
                "may_show": [],
                "captions": [text for text, writer in row.captions if writer is None],
                "written_captions": [text for text, writer in row.captions if writer is not None],
                "versions": [
                    {"image_id": other, "path": paths_of[other][0]}
                    for other in versions.get(row.id, ())
                    if other in others
                ],
                "image_url": root_path + IMAGE_URL % row.id,
                "thumbnail_url": root_path + THUMBNAIL_URL % row.id,
            }
        )
    return hits


def dated_by(taken: int | None) -> Literal["picture", "file"] | None:
    """Return where `ImageRow.taken` is from."""
    if taken is None:
        return None
    return "file" if taken % 1000 else "picture"


def local_time(taken: int | None) -> str | None:
    """Return the time of `ImageRow.taken` as "2026-11-20T09:00:00"; None for one out of range."""
    if taken is None:
        return None
    moment = np.datetime64(taken // 1000, "s")
    return str(moment) if 0 < moment.astype("datetime64[Y]").astype(int) + 1970 < 10_000 else None


def shortest_decimal(violation: np.float32) -> float:
    """Return the shortest decimal that is this float32: 0.0123, not 0.012299999594688416."""
    return float(str(violation))


def violations_of(index: Index, image_ids: Sequence[int], point: Points) -> dict[int, float]:
    """Return the violations of stored images with the point of a text (N,)."""
    if not image_ids:
        return {}
    violations = index.violations(image_ids, point)
    return {id_: shortest_decimal(violation) for id_, violation in violations.items()}


class SearchQueue:
    """Queue of searches in an index.

    Args:
        index: the index to search.
        settings: the maximum size of a batch, and the number of threads.
        caption_order: sorts likely and specific captions first.
        admission: counts the searches in flight.
        batch_size: histogram of the sizes of batches.
        on_death: see `Batcher`.
    """

    def __init__(
        self,
        index: Index,
        settings: Settings,
        *,
        caption_order: CaptionOrder,
        admission: Admission,
        batch_size: Histogram | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._index, self.caption_order = index, caption_order
        self._batch_size = batch_size
        self.batcher: Batcher[SearchKey, Points, list[SearchResult]] = Batcher(
            "search",
            self._run,
            size=lambda key: max(
                1, batch_limit(settings.search_batch, admission.in_flight) // key.points
            ),
            workers=settings.search_workers,
            batch_errors=UNREADABLE,
            on_death=on_death,
        )

    async def search(self, key: SearchKey, points: Points, stages: Stages) -> list[SearchResult]:
        """Return the best rows for each of P points (P, N), or for all of them jointly.

        Raises:
            ServiceError: `not_ready` if the threads have stopped.
        """
        try:
            done = await self.batcher.submit(key, points)
        except UNREADABLE as error:
            raise unreachable(error) from None
        first = done.result[0]
        described = done.ended - first.metadata_seconds
        proposed = described - first.rerank_seconds
        stages.wait("search", done.submitted, done.started)
        stages.add("prefilter", proposed - first.prefilter_seconds, proposed, done.batch)
        stages.add("rerank", proposed, described, done.batch)
        stages.add("metadata", described, done.ended, done.batch)
        stages.statements += first.statements
        return done.result

    def _run(self, key: SearchKey, blocks: list[Points]) -> list[list[SearchResult]]:
        if self._batch_size is not None:
            self._batch_size.labels(f"search-{key.query.kind}").observe(len(blocks))
        results = self._search(key, blocks)
        for _ in range(_ATTEMPTS):
            if all(result.is_complete for result in results):
                break
            # A hit was deleted after the search, and its id may belong to another image already.
            # Search the generation without it, so that an answer is of one generation only.
            self._refresh()
            results = self._search(key, blocks)
        size = 1 if key.joint else key.points
        return [results[at : at + size] for at in range(0, len(results), size)]

    def _refresh(self) -> None:
        try:
            self._index.refresh()
        except UNREADABLE:
            raise
        except (HasseIndexError, OSError) as error:
            raise ServiceError(
                "not_ready", "the collection was changed and cannot be loaded yet", retry_after=1
            ) from error

    def _search(self, key: SearchKey, blocks: list[Points]) -> list[SearchResult]:
        snapshot = self._index.snapshot  # keeps the record of later deletions
        start, sent = perf_counter(), STATEMENTS.sent
        rankings: Sequence[Answer]
        if key.joint:
            rankings = [self._index.search_jointly(key.query, block) for block in blocks]
        elif key.specific_first:
            rankings = self.caption_order.search(self._index, key.query, np.concatenate(blocks))
        else:
            rankings = self._index.search_batch(key.query, np.concatenate(blocks))
        searched = perf_counter()
        ids = sorted({hit for ranking in rankings for hit in ranking.ids[key.offset :].tolist()})
        images: dict[int, ImageHitRow] = {}
        captions: dict[int, CaptionHitRow] = {}
        same = (others for ranking in rankings for others in ranking.same.values())
        ids += chain.from_iterable(same)
        if key.query.kind == "image":
            images, removal = self._index.catalog.image_hits(ids)
        else:
            captions, removal = self._index.catalog.caption_hits(ids)
        described = perf_counter()
        del snapshot
        results = []
        for ranking in rankings:
            # The index times each ranking, but the client waits for the whole batch.
            total = ranking.seconds.prefilter + ranking.seconds.rerank
            prefilter = (searched - start) * (ranking.seconds.prefilter / total if total else 0.0)
            rerank, metadata = searched - start - prefilter, described - searched
            times = prefilter, rerank, metadata
            statements = STATEMENTS.sent - sent
            results.append(
                SearchResult(ranking, key.offset, images, captions, removal, *times, statements)
            )
        return results


def batch_limit(batch: int, in_flight: int) -> int:
    """Largest batch: half of the searches in flight, at most `batch`.

    While one half is searched, the other half is answered and its clients send again. With all in
    one batch, the search and the event loop would wait for each other.
    """
    return min(batch, max(_SMALL_BATCH, in_flight // 2))
