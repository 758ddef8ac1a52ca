"""One shard: searches its segments of an index, in any generation that a front end names."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hasse.index.catalog.records import SegmentRecord, State
from hasse.index.creation import open_catalog
from hasse.index.kernels.threads import Workers
from hasse.index.reader import Narrowing
from hasse.index.search.compiling import compile_kernels
from hasse.index.search.query import Answer, Query
from hasse.index.search.search import CompiledSearch
from hasse.index.segments.cost_model import MEASURED
from hasse.index.segments.leases import lease as leased
from hasse.index.segments.loading import Deletions, Loader, deletions_of
from hasse.index.segments.segment import SEGMENTS_FOLDER, Verify
from hasse.index.segments.snapshot import Snapshot
from hasse.index.shards import no_plan, read_plan, require_server
from hasse.index.types import Kind, ModelIdentity, Points
from hasse.service.cluster.copies import local_copy, remove_others

_HELD = 8  # generations: front ends may lag behind each other


@dataclass(frozen=True, slots=True)
class View:
    """One generation as one shard needs it."""

    generation: int
    model: ModelIdentity
    segments: tuple[SegmentRecord, ...]
    deleted: Deletions


@dataclass(frozen=True, slots=True)
class Ask:
    """Searches that go to a shard together: points (B, N), or the parts of one joint search."""

    query: Query
    points: Points
    joint: bool = False


class Shard:
    """An open part of an index. Any number of threads may search it.

    Args:
        folder: of the index, on storage that all machines share.
        number, shards: which shard it is, of how many.
        threads: that a search runs in.
        copies: a folder of this machine, for this index alone, that segments are copied to first;
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
        self._held: OrderedDict[int, Snapshot] = OrderedDict()

        def locate(record: SegmentRecord) -> Path:
            place = folder / SEGMENTS_FOLDER / record.name
            return place if copies is None else local_copy(place, copies, record)

        # A copy has been compared with its checksums when it is located.
        verify: Verify = "checksums" if copies is None else "sizes"
        self._loader = Loader(folder, self._catalog, verify, locate)
        try:
            require_server(folder, self._catalog)
            newest = self._newest()
            self._open(newest)
            compile_kernels(newest.model.score)
        except BaseException:
            self.close()
            raise

    @property
    def generations(self) -> list[int]:
        """The open generations."""
        return sorted(self._held)

    def search(self, generation: int, ask: Ask, view: View | None = None) -> list[Answer] | None:
        """Answer each query over this part of a generation; None if it is neither open nor given.

        Raises:
            DamagedIndexError: a segment was changed since it was written.
        """
        snapshot = self._snapshot(generation, view)
        if snapshot is None:
            return None
        query = ask.query
        snapshot = self._narrowing.narrowed(snapshot, query)
        if ask.joint:
            answers = [self._search.joint_answer(snapshot, ask.points, query)]
        else:
            answers = self._search.answers(snapshot, ask.points, query)
        return list(self._narrowing.with_same(query, answers))

    def points(
        self, generation: int, kind: Kind, ids: Sequence[int], view: View | None = None
    ) -> dict[int, Points] | None:
        """Return the points of those of `ids` that are here; None as `search` does."""
        snapshot = self._snapshot(generation, view)
        return None if snapshot is None else snapshot.points(kind, ids)

    def look(self) -> None:
        """Keep the leases of the generations that are held."""
        self._catalog.shared_locks.renew()

    def close(self) -> None:
        """Close all generations."""
        self._held.clear()
        self._catalog.close()
        self._workers.close()

    def _snapshot(self, generation: int, view: View | None) -> Snapshot | None:
        held = self._held.get(generation)
        if held is None and view is not None:
            held = self._open(view)
        return held

    def _open(self, view: View) -> Snapshot:
        with self._opening:
            held = self._held.get(view.generation)
            if held is not None:
                return held
            # The front end that names the generation holds a lease of it until it is answered.
            lease = leased(self._folder, self._catalog, view.generation)
            state = State(view.model, view.generation, view.segments, ())
            before = next(reversed(self._held.values()), None)
            held = self._loader.snapshot(state, view.deleted, before, lease)
            self._held[view.generation] = held
            for old in sorted(self._held)[:-_HELD]:
                del self._held[old]
            if self._copies is not None:
                remove_others(self._folder / SEGMENTS_FOLDER, self._copies)
            return held

    def _newest(self) -> View:
        while True:
            generation = self._catalog.generation()
            lease = leased(self._folder, self._catalog, generation)
            plan = read_plan(self._catalog, self._shards)
            if plan is None:
                raise no_plan(self._folder, self._shards)
            state = self._catalog.state()
            if state.generation == generation:
                own = plan.of(self._number, state.segments)
                return View(generation, state.model, own, deletions_of(state))
            lease.release()
