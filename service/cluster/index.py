"""The index of a front end, with the catalog and the writer; its segments are on shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord, State, refuse_other_model
from hasse.index.catalog.schema import CAPTIONS, FORMAT, IMAGES
from hasse.index.creation import open_catalog
from hasse.index.errors import BadQueryError, ShardUnreachableError
from hasse.index.info import IndexInfo, resident_bytes
from hasse.index.search.distinct import one_text
from hasse.index.search.query import Answer, Query, checked_queries
from hasse.index.segments.loading import Loader, leased_state
from hasse.index.segments.snapshot import Snapshot
from hasse.index.shards import ShardPlan, no_plan, read_plan, require_server
from hasse.index.store import Index
from hasse.index.types import KINDS, Ids, Kind, Points
from hasse.service.cluster.merging import merge_answers, merge_texts
from hasse.service.cluster.shard import SearchBatch

_ATTEMPTS = 8  # at a search, while the collection changes
_SAMPLE = 10_000  # ids to draw examples from


class Shards(Protocol):
    """Calls the shards of a plan."""

    def gather(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard at once; None in `arguments` leaves a shard out.

        Returns the result of each shard, or the error of one that did not answer, by its number.
        """


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterSnapshot(Snapshot):
    """A generation whose segments are on shards: the catalog, the state and the plan."""

    catalog: Catalog
    state: State
    plan: ShardPlan

    def ids(self, kind: Kind) -> Ids:
        """Return some ids of one kind."""
        column = (IMAGES if kind == "image" else CAPTIONS).c.id
        with self.catalog.reading() as connection:
            sampled = connection.execute(sql.select(column).limit(_SAMPLE)).scalars()
            return np.fromiter(sampled, np.int64)

    def part(self, shard: int) -> State:
        """Return the part of the generation that one shard needs."""
        return replace(self.state, segments=self.plan.segments_of(shard, self.state.segments))


class _ClusterLoader(Loader):
    """Reads the records of a generation, and opens no segment."""

    def __init__(self, folder: Path, catalog: Catalog, shards: int) -> None:
        super().__init__(folder, catalog, "sizes")
        self._shards = shards

    def load(self, before: Snapshot | None = None) -> ClusterSnapshot:
        """Read the visible generation (BadShardsError: there is no plan for so many shards)."""
        known: dict[str, SegmentRecord] = {}
        if isinstance(before, ClusterSnapshot):
            known = {record.name: record for record in before.state.segments}
        lease, state, plan = leased_state(
            self._folder,
            self._catalog,
            lambda: read_plan(self._catalog, self._shards),
            known,
            before.generation if before else 0,
        )
        if before is not None:
            refuse_other_model(before.model, state.model)
        if plan is None:
            raise no_plan(self._folder, self._shards)
        if isinstance(before, ClusterSnapshot):
            # An id that was deleted twice stays twice, which means the same.
            pairs = {kind: (before.state.deleted[kind], state.deleted[kind]) for kind in KINDS}
            state = replace(state, deleted={kind: _join(*pair) for kind, pair in pairs.items()})
        return ClusterSnapshot(
            state.generation,
            state.model,
            (),
            lease=lease,
            catalog=self._catalog,
            state=state,
            plan=plan,
        )


def _join(first: tuple[Ids, Ids], second: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    pairs = np.unique(np.concatenate([np.stack(first), np.stack(second)], axis=1), axis=1)
    return pairs[0], pairs[1]


class ClusterIndex(Index):
    """An index whose searches go to shards. Everything else is as on one machine.

    Args:
        folder: the folder of the index, on storage that all machines share.
        shards: calls the shards.
        count: the number of shards.
        partial: answer a search without the shards that do not answer.

    Raises:
        HasseIndexError: there is no index, or no plan of it for so many shards.
    """

    def __init__(self, folder: Path, shards: Shards, count: int, *, partial: bool = False) -> None:
        folder = folder.resolve()
        catalog = open_catalog(folder)
        try:
            require_server(folder, catalog)
            loader = _ClusterLoader(folder, catalog, count)
            super().__init__(folder, catalog, threads=1, loader=loader)
        except BaseException:
            catalog.close()
            raise
        self._shards, self._count, self._partial = shards, count, partial
        self._sent_generations = [0] * count  # the newest generation that was sent to each shard

    def check_counts(self) -> None:
        """Leave the counts as they are: the rows of the segments are on shards."""

    def search_batch(self, query: Query, points: ArrayLike) -> Sequence[Answer]:
        """Answer each of `points` (B, N) as one machine does; see `Index.search_batch`.

        Raises:
            BadQueryError: a point is out of range.
            ShardUnreachableError: a shard does not answer, and answers are not `partial`.
        """
        return self._answers(SearchBatch(query, checked_queries(points, self.model)))

    def search_jointly(self, query: Query, parts: ArrayLike) -> Answer:
        """Return the rows whose worst violation over `parts` is smallest.

        Raises:
            Exception: as `search_batch`; BadQueryError where there are no parts.
        """
        points = checked_queries(parts, self.model)
        if not len(points):
            raise BadQueryError("there are no parts to search by: give at least one")
        return self._answers(SearchBatch(query, points, joint=True))[0]

    def points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        """Return the stored points (N,) by id; ids without a row are left out."""
        self.refresh()
        parts = self._gather("points", self._snapshot(), (kind, list(ids)))
        self._refuse_missing(parts)
        return {id_: point for part in parts for id_, point in part.items()}

    def info(self) -> IndexInfo:
        """Describe the index, without its segments."""
        snapshot, counts = self._snapshot(), self.catalog.counts()
        return IndexInfo(
            self.folder,
            snapshot.model,
            FORMAT,
            snapshot.generation,
            counts["image"],
            counts["caption"],
            sum(record.bytes for record in snapshot.state.segments),
            sum(resident_bytes(record) for record in snapshot.state.segments),
            (),
        )

    def _snapshot(self) -> ClusterSnapshot:
        return cast(ClusterSnapshot, self.snapshot)

    def _answers(self, batch: SearchBatch) -> list[Answer]:
        query = batch.query
        for _ in range(_ATTEMPTS):
            # A write that any front end has acknowledged is visible to the next search of all.
            self.refresh()
            snapshot = self._snapshot()
            parts = self._gather("search", snapshot, (batch,))
            # Shards apply filters by the current catalog, which may be newer than the snapshot.
            if not query.narrows or self.catalog.generation() == snapshot.generation:
                break
        else:
            raise ShardUnreachableError(
                f"{self.folder} changes faster than a part of it can be searched: repeat the search"
            )
        if not self._partial:
            self._refuse_missing(parts)
        present = [part for part in parts if not isinstance(part, Exception)]
        if not present:
            self._refuse_missing(parts)
        complete = len(present) == len(parts)
        distinct = query.selection is not None and query.selection.distinct_texts
        # Several shards may have captions with the same text among their hits.
        k = query.k * len(present) if distinct and query.kind == "caption" else query.k
        answers = [
            merge_answers(of_query, k, complete=complete) for of_query in zip(*present, strict=True)
        ]
        if k == query.k:
            return answers
        ids = {hit for answer in answers for hit in answer.ids.tolist()}
        rows = self.catalog.captions(sorted(ids))
        texts = {row.id: one_text(row.text) for row in rows.values()}
        return [merge_texts(answer, texts, query.k) for answer in answers]

    def _gather(
        self, method: str, snapshot: ClusterSnapshot, arguments: tuple[Any, ...]
    ) -> list[Any]:
        """Call every shard for one generation, and send the generation to shards that lack it."""
        generation, parts = snapshot.generation, list[Any]([None] * self._count)
        for repeats in (False, True):
            lacking = [at for at, part in enumerate(parts) if part is None]
            calls: list[tuple[Any, ...] | None] = [None] * self._count
            for at in lacking:
                is_new = repeats or self._sent_generations[at] < generation
                calls[at] = (generation, *arguments, snapshot.part(at) if is_new else None)
            results = self._shards.gather(method, calls) if lacking else []
            for at in lacking:
                parts[at] = results[at]
        for at, part in enumerate(parts):
            if not isinstance(part, Exception):
                self._sent_generations[at] = max(self._sent_generations[at], generation)
        return parts

    def _refuse_missing(self, parts: Sequence[Any]) -> None:
        for at, part in enumerate(parts):
            if isinstance(part, Exception):
                raise ShardUnreachableError(
                    f"shard {at} of {self._count} does not answer ({part}): look at it with "
                    "'hasse cluster status'"
                ) from part
