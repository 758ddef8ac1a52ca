"""Builds or re-encodes an index from a stream of changes: resumable, in bounded memory.

Changes are staged first (`index.segments.staging`). At the end their points become segments, which
one transaction makes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import catalog_url
from hasse.index.catalog.records import SegmentRecord
from hasse.index.creation import create_index, index_exists, open_catalog
from hasse.index.errors import BadRowsError, IndexExistsError
from hasse.index.locking import locked
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import LOCK as COMPACTION_LOCK
from hasse.index.segments.compaction import ROWS_PER_SEGMENT, ProgressCallback
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.segments.segment import SegmentWriter
from hasse.index.segments.staging import Staging, refuse_unfinished
from hasse.index.segments.writer import LOCK_TIMEOUT, Writer, writing
from hasse.index.store import Index
from hasse.index.types import KINDS, FolderRow, Ids, Kind, ModelIdentity

# Yields the changes that follow the rows an earlier run finished; takes the ids of these, in order.
Changes: TypeAlias = Callable[[Mapping[Kind, Ids]], Iterable[Change]]


def build(
    folder: Path,
    model: ModelIdentity,
    changes: Changes,
    *,
    source: str,
    total: int,
    folders: Sequence[FolderRow] = (),
    progress: ProgressCallback = lambda done, total: None,
    rows_per_segment: int = ROWS_PER_SEGMENT,
    threads: int | None = None,
    thresholds: Thresholds = DEFAULT,
) -> Index:
    """Build an index in `folder`; it becomes visible in one transaction at the end.

    `changes(done)` yields new images and captions with their points, without the ids `done`, which
    an earlier run finished: the order of rows must be the same in each run. `source` identifies the
    build, for example by the name and size of the dataset; with another source or model the build
    starts from the beginning. `folders` hold the pictures. `progress` is called with the number of
    finished rows, images and captions together, and `total`.

    Raises:
        IndexExistsError, NotAnIndexError: the folder holds an index already, or other files.
        BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        DiskFullError, IndexLockedError: run it again later; it resumes.
    """
    folder = folder.resolve()
    with closing(Catalog(catalog_url(folder))) as catalog:
        with suppress(IndexExistsError):  # perhaps that of an interrupted build
            create_index(folder, catalog, model)
        with writing(folder, catalog, model, 0.0, thresholds) as writer:
            state = catalog.state()
            if state.generation:
                raise index_exists(folder)
            if state.model != model:
                mutations.create_catalog(catalog, model)
            staging = Staging(folder, model, source)
            _stage(staging, changes, total, progress)
            if not len(staging.done["image"]):
                staging.discard()
                raise BadRowsError("there are no images to index: name a dataset with pictures")
            records = _segments(writer, staging, rows_per_segment)
            writer.commit(records, staging.changes, folders)
            staging.discard()
    return Index.open(folder, threads=threads, thresholds=thresholds)


def reencode(
    folder: Path,
    model: ModelIdentity,
    changes: Changes,
    *,
    source: str,
    total: int,
    progress: ProgressCallback = lambda done, total: None,
    rows_per_segment: int = ROWS_PER_SEGMENT,
    thresholds: Thresholds = DEFAULT,
) -> int:
    """Replace all points of an index by points of another model; return the generation.

    The arguments are those of `build`, but the rows are rows of the index, which stay unchanged.
    Images that `changes` does not yield are removed with their captions. Searches see the old
    points until the one transaction at the end, and no other process can write. A repeated call
    resumes.

    Raises:
        BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        DiskFullError, IndexLockedError: run it again later; it resumes.
    """
    with (
        closing(open_catalog(folder)) as catalog,
        locked(folder, catalog, COMPACTION_LOCK, LOCK_TIMEOUT, "compacting"),
        writing(folder, catalog, catalog.model(), LOCK_TIMEOUT, thresholds) as writer,
    ):
        refuse_unfinished(folder, catalog.generation())
        staging = Staging(folder, model, source)
        _stage(staging, changes, total, progress)
        records = _segments(writer, staging, rows_per_segment)
        generation = writer.replace_model(model, records, staging.done)
        staging.discard()
        writer.sweep()
    return generation


def _stage(staging: Staging, changes: Changes, total: int, progress: ProgressCallback) -> None:
    """Stage the remaining changes, and check ids and references of all rows."""
    done = sum(map(len, staging.done.values()))
    progress(done, total)
    for change in changes(staging.done):
        staging.add(change)
        done += len(change.images) + len(change.captions)
        progress(done, total)
    staging.check()


def _segments(writer: Writer, staging: Staging, rows_per_segment: int) -> list[SegmentRecord]:
    """Write all staged points into segments of at least `rows_per_segment` rows; publish them."""
    records: list[SegmentRecord] = []
    writers: dict[Kind, SegmentWriter] = {}
    model = staging.model
    try:
        for change in staging.changes():
            for kind in KINDS:
                rows, points = change.additions(kind)
                if not rows or points is None:
                    continue
                if kind not in writers:
                    folder = writer.workspace()
                    writers[kind] = SegmentWriter(
                        folder, kind, model.dimension, model.score, writer.thresholds
                    )
                writers[kind].append([row.id for row in rows], points)
                if writers[kind].rows >= rows_per_segment:
                    records += writer.publish((writers[kind].folder, writers[kind].seal()))
                    del writers[kind]
        for segment in writers.values():
            records += writer.publish((segment.folder, segment.seal()))
    except BaseException:
        for segment in writers.values():
            segment.abandon()
        raise
    return records
