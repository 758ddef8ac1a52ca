"""Open the segments of a generation and reuse those already open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord, State, refuse_other_model
from hasse.index.errors import DamagedIndexError
from hasse.index.segments.combined import CombinedSegment, combined, is_small
from hasse.index.segments.leases import Lease
from hasse.index.segments.leases import lease as leased
from hasse.index.segments.segment import SEGMENTS_FOLDER, Segment, Verify
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import KINDS, Ids, Kind, ModelIdentity

Deletions: TypeAlias = Mapping[Kind, tuple[Ids, Ids]]  # ids and the generations that deleted them


class Loader:
    """Makes one snapshot after another of one index, for one thread at a time."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        verify: Verify,
        locate: Callable[[SegmentRecord], Path] | None = None,
        *,
        points_only: bool = False,
    ) -> None:
        """`locate` returns the folder of a segment; by default it lies in that of the index.

        `points_only` is that of `Segment.open`.
        """
        self._folder = folder
        self._catalog = catalog
        self._verify: Verify = verify
        self._points_only = points_only
        self._locate = locate or (lambda record: folder / SEGMENTS_FOLDER / record.name)
        self._combined: dict[Kind, CombinedSegment] = {}

    def load(self, before: Snapshot | None = None) -> Snapshot:
        """Open the visible generation; `before` is the last one that was loaded, if any.

        Raises:
            FormatVersionError: another version of this program wrote it.
            ModelMismatchError: it has the points of another model than the last one.
            DamagedIndexError: a file disagrees with the catalog.
        """
        known = {live.segment.record.name: live for live in before.segments} if before else {}
        records = {name: live.segment.record for name, live in known.items()}
        since = before.generation if before else 0
        while True:
            lease = leased(self._folder, self._catalog, self._catalog.generation())
            state = self._catalog.state(records, since)
            if before is not None:
                refuse_other_model(before.model, state.model)
            # A generation that was replaced before it was leased may be gone already.
            if state.generation != lease.generation:
                lease.release()
                continue
            try:
                return self.snapshot(state, deletions_of(state), before, lease)
            except DamagedIndexError:
                # Where nothing can be leased it may be gone at any time.
                if self._catalog.generation() == state.generation:
                    raise

    def snapshot(
        self, state: State, deleted: Deletions, before: Snapshot | None, lease: Lease
    ) -> Snapshot:
        """Open the segments of a state.

        Segments that `before` has open are reused. `deleted` are the deletions of the state, at
        least those since `before` and since the oldest segment that is new, if `before` is older.

        Raises:
            DamagedIndexError: a file disagrees with the state.
        """
        known = {live.segment.record.name: live for live in before.segments} if before else {}
        seen = before.generation if before else 0
        segments = []
        for record in state.segments:
            live, since = known.get(record.name), record.generation
            if live is None:
                live = LiveSegment.whole(self._open(record, state))
            elif seen <= state.generation:
                since = max(since, seen)
            else:  # a later generation, which lacks rows of this one
                live = LiveSegment.whole(live.segment)
            # An id is deleted here when it was deleted after the segment was written.
            ids, generations = deleted[record.kind]
            segments.append(live.without(ids[generations > since]))
        opened = tuple(segments)
        return Snapshot(state.generation, state.model, opened, self._searched(opened), lease)

    def _open(self, record: SegmentRecord, state: State) -> Segment:
        check_fit(self._folder, record, state.model)
        place, only = self._locate(record), self._points_only
        return Segment.open(place, record, self._verify, points_only=only)

    def _searched(self, segments: Sequence[LiveSegment]) -> tuple[LiveSegment, ...]:
        searched = [live for live in segments if not is_small(live)]
        for kind in KINDS:
            small = [
                live for live in segments if live.segment.record.kind == kind and is_small(live)
            ]
            before = self._combined.pop(kind, None)
            if len(small) > 1:
                self._combined[kind] = before.with_all(small) if before else combined(small)
                searched.append(self._combined[kind].live(small))
            else:
                searched += small
        return tuple(searched)


def check_fit(folder: Path, record: SegmentRecord, model: ModelIdentity) -> None:
    """Compare a segment with the model of its index.

    Raises:
        DamagedIndexError: its points are not those that the model makes.
    """
    if record.dimension != model.dimension or record.score != model.score:
        raise DamagedIndexError(
            f"the segment {record.name} of {folder} holds {record.score} points of "
            f"{record.dimension} coordinates and the model makes {model.score} points "
            f"of {model.dimension}",
            "build the index again",
        )


def deletions_of(state: State) -> Deletions:
    """Return the deleted ids of each kind and the generations that deleted them, (D,) each."""
    by_kind: dict[Kind, tuple[Ids, Ids]] = {}
    for kind in KINDS:
        pairs = [(one.id, one.generation) for one in state.deleted if one.kind == kind]
        ids, generations = np.array(pairs, np.int64).reshape(-1, 2).T
        by_kind[kind] = (ids, generations)
    return by_kind
