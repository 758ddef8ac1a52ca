"""Open what a generation consists of; what is open already stays open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from index.catalog.catalog import Catalog, refuse_other_model
from index.catalog.records import SegmentRecord, State
from index.errors import DamagedIndexError
from index.segments.combined import CombinedSegment, combined, is_small
from index.segments.leases import lease as leased
from index.segments.segment import SEGMENTS_FOLDER, Segment, Verify
from index.segments.snapshot import LiveSegment, Snapshot
from index.types import KINDS, Ids, Kind, ModelIdentity


class Loader:
    """Makes one snapshot after another of one index; one thread at a time may ask."""

    def __init__(self, folder: Path, catalog: Catalog, verify: Verify) -> None:
        self._folder = folder
        self._catalog = catalog
        self._verify: Verify = verify
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
                segments = self._segments(state, known)
            except DamagedIndexError:
                # Where nothing can be leased it may be gone at any time.
                if self._catalog.generation() == state.generation:
                    raise
                continue
            searched = self._searched(segments)
            return Snapshot(state.generation, state.model, segments, searched, lease)

    def _segments(self, state: State, known: dict[str, LiveSegment]) -> tuple[LiveSegment, ...]:
        deleted = {kind: _deletions(state, kind) for kind in KINDS}
        segments = []
        for record in state.segments:
            live = known.get(record.name) or LiveSegment.whole(self._open(record, state))
            # An id is deleted here when it was deleted after the segment was written.
            ids, generations = deleted[record.kind]
            segments.append(live.without(ids[generations > record.generation]))
        return tuple(segments)

    def _open(self, record: SegmentRecord, state: State) -> Segment:
        check_fit(self._folder, record, state.model)
        return Segment.open(self._folder / SEGMENTS_FOLDER / record.name, record, self._verify)

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


def _deletions(state: State, kind: Kind) -> tuple[Ids, Ids]:
    """Return the deleted ids of a kind and the generations that deleted them, (D,) each."""
    found = [(one.id, one.generation) for one in state.deleted if one.kind == kind]
    ids, generations = np.array(found, np.int64).reshape(-1, 2).T
    return ids, generations
