"""A shard, which searches its segments of an index in any generation that a front end names."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hasse.index.catalog.records import SegmentRecord, State
from hasse.index.creation import open_catalog
from hasse.index.kernels.threads import Workers
from hasse.index.reader import Narrowing
from hasse.index.search.compiling import compile_kernels
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import CompiledSearch
from hasse.index.segments.cost_model import MEASURED
from hasse.index.segments.file_checks import FileChecks
from hasse.index.segments.leases import take_lease
from hasse.index.segments.loading import Loader, leased_state
from hasse.index.segments.segment import SEGMENTS_FOLDER, Verify
from hasse.index.segments.snapshot import Snapshot
from hasse.index.shards import no_plan, read_plan, require_server
from hasse.index.types import Kind, Points
from hasse.service.cluster.copies import local_copy, remove_outdated

_MAX_OPEN = 8  # generations, because front ends may lag behind each other


@dataclass(frozen=True, slots=True)
class SearchBatch:
    """Searches that are sent to a shard together: points (B, N), or the parts of a joint search."""

    query: Query
    points: Points
    joint: bool = False


class Shard:
    """An open part of an index. Any number of threads may search it.

    Args:
        folder: the folder of the index, on storage that all machines share.
        number, shards: the number of this shard, and of all shards.
        threads: the threads of a search.
        copies: a folder of this machine for segments of this index, which are copied there first;
            None maps them where they are.

    Raises:
        HasseIndexError: the index cannot be opened, there is no such plan, or a file is damaged.
    """

    def __init__(
        self, folder: Path, number: int, shards: int, threads: int, copies: Path | None = None
    ) -> None:
        self._folder, self._number, self._shards = folder, number, shards
        self._copies = copies
        self._catalog = open_catalog(folder)
        self._workers = Workers(threads)
        self._search = CompiledSearch(self._workers, MEASURED, None)
        self._narrowing = Narrowing(folder, self._catalog)
        self._opening = threading.Lock()
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()

        def locate(record: SegmentRecord) -> Path:
            original = folder / SEGMENTS_FOLDER / record.name
            return original if copies is None else local_copy(original, copies, record)

        # `local_copy` has compared a copy with its checksums.
        verify: Verify = "later" if copies is None else "sizes"
        self._loader = Loader(folder, self._catalog, verify, locate)
        # It answers before large segments are compared, and refuses once one is damaged.
        self._checks = FileChecks(
            lambda: next(reversed(self._snapshots.values())), check_counts=lambda: None
        )
        try:
            require_server(folder, self._catalog)
            newest = self._newest()
            self._open(newest)
            compile_kernels(newest.model.score)
            if copies is None:
                self._checks.start()
        except BaseException:
            self.close()
            raise

    @property
    def generations(self) -> list[int]:
        """The open generations."""
        return sorted(self._snapshots)

    def search(
        self, generation: int, batch: SearchBatch, state: State | None = None
    ) -> list[Answer] | None:
        """Answer each query over this part of a generation.

        Returns None if the generation is not open and there is no `state` to open it by.

        Raises:
            DamagedIndexError: a segment was changed since it was written.
        """
        snapshot = self._snapshot(generation, state)
        if snapshot is None:
            return None
        query = batch.query
        snapshot = self._narrowing.narrow(snapshot, query)
        if batch.joint:
            answers = [self._search.joint_answer(snapshot, batch.points, query)]
        else:
            answers = self._search.answers(snapshot, batch.points, query)
        return list(self._narrowing.with_same(query, answers))

    def points(
        self, generation: int, kind: Kind, ids: Sequence[int], state: State | None = None
    ) -> dict[int, Points] | None:
        """Return the points of `ids` on this shard, by id; None as `search`."""
        snapshot = self._snapshot(generation, state)
        return None if snapshot is None else snapshot.points(kind, ids)

    def renew_leases(self) -> None:
        """Renew the leases of the open generations."""
        self._catalog.shared_locks.renew()

    def close(self) -> None:
        """Close all generations."""
        self._checks.close()
        self._snapshots.clear()
        self._catalog.close()
        self._workers.close()

    def _snapshot(self, generation: int, state: State | None) -> Snapshot | None:
        if self._checks.damage is not None:
            raise self._checks.damage
        snapshot = self._snapshots.get(generation)
        if snapshot is None and state is not None:
            snapshot = self._open(state)
            self._checks.notify()
        return snapshot

    def _open(self, state: State) -> Snapshot:
        with self._opening:
            snapshot = self._snapshots.get(state.generation)
            if snapshot is not None:
                return snapshot
            # Until it is answered, the front end holds a lease of the generation too.
            lease = take_lease(self._folder, self._catalog, state.generation)
            before = next(reversed(self._snapshots.values()), None)
            snapshot = self._loader.open_snapshot(state, before, lease)
            self._snapshots[state.generation] = snapshot
            for old in sorted(self._snapshots)[:-_MAX_OPEN]:
                del self._snapshots[old]
            if self._copies is not None:
                remove_outdated(self._folder / SEGMENTS_FOLDER, self._copies)
            return snapshot

    def _newest(self) -> State:
        _, state, plan = leased_state(
            self._folder, self._catalog, lambda: read_plan(self._catalog, self._shards)
        )
        if plan is None:
            raise no_plan(self._folder, self._shards)
        return replace(state, segments=plan.segments_of(self._number, state.segments))
