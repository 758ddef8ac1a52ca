"""The index of a front end: the catalog and the writer are here, the segments are on shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord, refuse_other_model
from hasse.index.catalog.schema import CAPTIONS, FORMAT, IMAGES
from hasse.index.creation import open_catalog
from hasse.index.errors import BadQueryError, ShardUnreachableError
from hasse.index.info import IndexInfo, resident_bytes
from hasse.index.search.distinct import one_text
from hasse.index.search.query import Answer, Query, checked_queries
from hasse.index.segments.leases import lease as leased
from hasse.index.segments.loading import Deletions, Loader, deletions_of
from hasse.index.segments.snapshot import Snapshot
from hasse.index.shards import ShardPlan, no_plan, read_plan, require_server
from hasse.index.store import Index
from hasse.index.types import KINDS, Ids, Kind, Points
from hasse.service.cluster.merging import distinct, merged
from hasse.service.cluster.shard import Ask, View

_ATTEMPTS = 8  # at a search, while the collection changes under it
_SAMPLED = 10_000  # ids that are drawn from, for examples


class Shards(Protocol):
    """Calls the shards of a plan."""

    def gather(self, method: str, each: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard at once; None in `each` leaves one out.

        Returns the result of each, or the error for one that did not answer, by shard number.
        """


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterSnapshot(Snapshot):
    """A generation whose segments are on shards: the catalog, the records and the plan."""

    catalog: Catalog
    records: tuple[SegmentRecord, ...]
    deleted: Deletions
    plan: ShardPlan

    def ids(self, kind: Kind) -> Ids:
        """Return some ids of one kind."""
        column = (IMAGES if kind == "image" else CAPTIONS).c.id
        with self.catalog.reading() as connection:
            sampled = connection.execute(sql.select(column).limit(_SAMPLED)).scalars()
            return np.fromiter(sampled, np.int64)

    def view(self, shard: int) -> View:
        """Return the generation as one shard needs it."""
        return View(self.generation, self.model, self.plan.of(shard, self.records), self.deleted)


class _ClusterLoader(Loader):
    """Reads the records of a generation, and opens no segment."""

    def __init__(self, folder: Path, catalog: Catalog, shards: int) -> None:
        super().__init__(folder, catalog, "sizes")
        self._shards = shards

    def load(self, before: Snapshot | None = None) -> ClusterSnapshot:
        """Read the visible generation (BadShardsError: there is no plan for so many shards)."""
        known: dict[str, SegmentRecord] = {}
        if isinstance(before, ClusterSnapshot):
            known = {record.name: record for record in before.records}
        while True:
            lease = leased(self._folder, self._catalog, self._catalog.generation())
            plan = read_plan(self._catalog, self._shards)
            since = before.generation if before else 0
            state = self._catalog.state(known, since)
            if before is not None:
                refuse_other_model(before.model, state.model)
            if state.generation != lease.generation:
                lease.release()
                continue
            if plan is None:
                raise no_plan(self._folder, self._shards)
            deleted = deletions_of(state)
            if isinstance(before, ClusterSnapshot):
                # An id that was deleted twice stays twice, which has the same meaning.
                deleted = {kind: _joined(before.deleted[kind], deleted[kind]) for kind in KINDS}
            return ClusterSnapshot(
                state.generation,
                state.model,
                (),
                lease=lease,
                catalog=self._catalog,
                records=state.segments,
                deleted=deleted,
                plan=plan,
            )


def _joined(first: tuple[Ids, Ids], second: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    pairs = np.unique(np.concatenate([np.stack(first), np.stack(second)], axis=1), axis=1)
    return pairs[0], pairs[1]


class ClusterIndex(Index):
    """An index whose searches go to shards. Everything else is as on one machine.

    Args:
        folder: of the index, on storage that all machines share.
        shards: asks them.
        count: how many there are.
        partial: whether a search is answered without the shards that do not answer.

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
        self._sent = [0] * count  # the newest generation that was sent to each shard

    def check_counts(self) -> None:
        """Leave the counts as they are: the rows of the segments are on shards."""

    def search_batch(self, query: Query, points: ArrayLike) -> Sequence[Answer]:
        """Answer each of `points` (B, N) as one machine does; see `Index.search_batch`.

        Raises:
            BadQueryError: a point is out of range.
            ShardUnreachableError: a shard does not answer, and it is not done without.
        """
        return self._answers(Ask(query, checked_queries(points, self.model)))

    def search_jointly(self, query: Query, parts: ArrayLike) -> Answer:
        """Return the rows whose worst violation over `parts` is smallest.

        Raises:
            Exception: as `search_batch`; BadQueryError where there are no parts.
        """
        points = checked_queries(parts, self.model)
        if not len(points):
            raise BadQueryError("there are no parts to search by: give at least one")
        return self._answers(Ask(query, points, joint=True))[0]

    def points(self, kind: Kind, ids: Sequence[int]) -> dict[int, Points]:
        """Return the stored points (N,) of those of `ids` that there are, by id."""
        self.refresh()
        parts = self._gather("points", self._snapshot(), (kind, list(ids)))
        self._refuse_missing(parts)
        return {id_: point for part in parts for id_, point in part.items()}

    def info(self) -> IndexInfo:
        """Describe what the index holds, without its segments."""
        snapshot, counts = self._snapshot(), self.catalog.counts()
        return IndexInfo(
            self.folder,
            snapshot.model,
            FORMAT,
            snapshot.generation,
            counts["image"],
            counts["caption"],
            sum(record.bytes for record in snapshot.records),
            sum(resident_bytes(record) for record in snapshot.records),
            (),
        )

    def _snapshot(self) -> ClusterSnapshot:
        return cast(ClusterSnapshot, self.snapshot)

    def _answers(self, ask: Ask) -> list[Answer]:
        query = ask.query
        for _ in range(_ATTEMPTS):
            # What any front end has acknowledged is seen by the next search through every other.
            self.refresh()
            snapshot = self._snapshot()
            parts = self._gather("search", snapshot, (ask,))
            # Shards narrow their part by the catalog as it is by then.
            if not query.narrows or self.catalog.generation() == snapshot.generation:
                break
        else:
            raise ShardUnreachableError(
                f"{self.folder} changes faster than a part of it can be searched: repeat the search"
            )
        if not self._partial:
            self._refuse_missing(parts)
        answered = [one for one in parts if not isinstance(one, Exception)]
        if not answered:
            self._refuse_missing(parts)
        whole = len(answered) == len(parts)
        texts = query.selection is not None and query.selection.distinct_texts
        # Captions of one text may be hits of several shards.
        k = query.k * len(answered) if texts and query.kind == "caption" else query.k
        answers = [merged(each, k, whole=whole) for each in zip(*answered, strict=True)]
        if k == query.k:
            return answers
        rows = self.catalog.captions(sorted({hit for one in answers for hit in one.ids.tolist()}))
        read = {row.id: one_text(row.text) for row in rows.values()}
        return [distinct(one, read, query.k) for one in answers]

    def _gather(
        self, method: str, snapshot: ClusterSnapshot, arguments: tuple[Any, ...]
    ) -> list[Any]:
        """Call every shard for one generation, and send it to those that lack it."""
        generation = snapshot.generation
        each: list[tuple[Any, ...] | None] = [
            (generation, *arguments, snapshot.view(at) if self._sent[at] < generation else None)
            for at in range(self._count)
        ]
        parts = self._shards.gather(method, each)
        lacking = [at for at, one in enumerate(parts) if one is None]
        if lacking:
            again = [
                (generation, *arguments, snapshot.view(at)) if at in lacking else None
                for at in range(self._count)
            ]
            for at, one in enumerate(self._shards.gather(method, again)):
                if at in lacking:
                    parts[at] = one
        for at, one in enumerate(parts):
            if not isinstance(one, Exception):
                self._sent[at] = max(self._sent[at], generation)
        return parts

    def _refuse_missing(self, parts: Sequence[Any]) -> None:
        for at, one in enumerate(parts):
            if isinstance(one, Exception):
                raise ShardUnreachableError(
                    f"shard {at} of {self._count} does not answer ({one}): look at it with "
                    "'hasse cluster status'"
                ) from one
