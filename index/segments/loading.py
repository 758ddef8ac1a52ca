"""Opens the segments of a generation and reuses those already open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.records import SegmentRecord, State, refuse_other_model
from hasse.index.errors import DamagedIndexError
from hasse.index.segments.combined import CombinedSegment, combine, is_small
from hasse.index.segments.leases import Lease, take_lease
from hasse.index.segments.segment import SEGMENTS_FOLDER, Segment, Verify
from hasse.index.segments.snapshot import LiveSegment, Snapshot
from hasse.index.types import KINDS, Kind, ModelIdentity

Found = TypeVar("Found")


class Loader:
    """Loads snapshots of one index, one after another; not thread-safe."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        verify: Verify,
        locate: Callable[[SegmentRecord], Path] | None = None,
        *,
        points_only: bool = False,
    ) -> None:
        """`locate` returns the folder of a segment; by default it lies in `folder`.

        `points_only` is passed to `Segment.open`.
        """
        self._folder = folder
        self._catalog = catalog
        self._verify: Verify = verify
        self._points_only = points_only
        self._locate = locate or (lambda record: folder / SEGMENTS_FOLDER / record.name)
        self._combined: dict[Kind, CombinedSegment] = {}

    def load(self, previous: Snapshot | None = None) -> Snapshot:
        """Open the visible generation; segments of the `previous` snapshot are reused.

        Raises:
            FormatVersionError: another version of this program wrote it.
            ModelMismatchError: it has the points of another model than the previous one.
            DamagedIndexError: a file disagrees with the catalog.
        """
        opened = previous.segments if previous else ()
        records = {live.segment.record.name: live.segment.record for live in opened}
        since = previous.generation if previous else 0
        while True:
            lease, state, _ = leased_state(
                self._folder, self._catalog, lambda: None, records, since
            )
            if previous is not None:
                refuse_other_model(previous.model, state.model)
            try:
                return self.open_snapshot(state, previous, lease)
            except DamagedIndexError:
                # Without leases, segments of a replaced generation may be gone at any time.
                if self._catalog.generation() == state.generation:
                    raise

    def open_snapshot(self, state: State, previous: Snapshot | None, lease: Lease) -> Snapshot:
        """Open the segments of a state, and reuse those of `previous`.

        The state has at least the deletions since `previous`, and since the oldest segment that
        `previous` lacks.

        Raises:
            DamagedIndexError: a file disagrees with the state.
        """
        opened = previous.segments if previous else ()
        by_name = {live.segment.record.name: live for live in opened}
        previous_generation = previous.generation if previous else 0
        segments = []
        for record in state.segments:
            live, since = by_name.get(record.name), record.generation
            if live is None:
                live = LiveSegment.all_live(self._open(record, state))
            elif previous_generation <= state.generation:
                since = max(since, previous_generation)
            else:  # `previous` is the later generation: it excludes rows that are live here
                live = LiveSegment.all_live(live.segment)
            # Deletions apply to the segments of earlier generations only.
            ids, generations = state.deleted[record.kind]
            segments.append(live.excluding_ids(ids[generations > since]))
        return Snapshot(
            state.generation, state.model, tuple(segments), self._combine_small(segments), lease
        )

    def _open(self, record: SegmentRecord, state: State) -> Segment:
        check_segment_model(self._folder, record, state.model)
        folder, only = self._locate(record), self._points_only
        return Segment.open(folder, record, self._verify, points_only=only)

    def _combine_small(self, segments: Sequence[LiveSegment]) -> tuple[LiveSegment, ...]:
        result = [live for live in segments if not is_small(live)]
        for kind in KINDS:
            small = [
                live for live in segments if live.segment.record.kind == kind and is_small(live)
            ]
            combined = self._combined.pop(kind, None)
            if len(small) > 1:
                self._combined[kind] = combined.extend(small) if combined else combine(small)
                result.append(self._combined[kind].as_segment(small))
            else:
                result += small
        return tuple(result)


def leased_state(
    folder: Path,
    catalog: Catalog,
    read: Callable[[], Found],
    known: Mapping[str, SegmentRecord] | None = None,
    since: int = 0,
) -> tuple[Lease, State, Found]:
    """Lease the visible generation; return its state, and what `read` returns of the same.

    `known` and `since` are those of `Catalog.state`, which raises FormatVersionError and
    DamagedIndexError.
    """
    while True:
        lease = take_lease(folder, catalog, catalog.generation())
        found = read()
        state = catalog.state(known, since)
        # Segments of a generation that was replaced before the lease may be gone already.
        if state.generation == lease.generation:
            return lease, state, found
        lease.release()


def check_segment_model(folder: Path, record: SegmentRecord, model: ModelIdentity) -> None:
    """Compare a segment with the model of its index.

    Raises:
        DamagedIndexError: their dimensions or scores differ.
    """
    if record.dimension != model.dimension or record.score != model.score:
        raise DamagedIndexError(
            f"the segment {record.name} of {folder} holds {record.score} points of "
            f"{record.dimension} coordinates and the model makes {model.score} points "
            f"of {model.dimension}",
            "build the index again",
        )
