"""Build an index from a stream of changes, or encode one anew: resumably, in bounded memory.

Changes are staged first (`index.segments.staging`). When all are there their points become
segments, which one transaction makes visible.
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
from hasse.index.creation import already_there, create, open_catalog
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

# Given the ids of the rows that an earlier run finished, in their order, yield those that follow.
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
    """Build an index in `folder`, visible all at once when everything is there.

    `changes(done)` yields new images and captions with their points, without the `done` ids that an
    earlier run has finished: the order of rows must not change from run to run. `source` identifies
    the build, such as the dataset's name and size; a build of another source, or with another
    model, starts anew. `folders` hold the pictures. `progress` is called with the number of
    rows finished, images and captions together, and `total`.

    Raises:
        IndexExistsError, NotAnIndexError: the folder holds an index already, or is in use.
        BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        DiskFullError, IndexLockedError: run it again later; it goes on where it stopped.
    """
    folder = folder.resolve()
    with closing(Catalog(catalog_url(folder))) as catalog:
        with suppress(IndexExistsError):  # it may be that of a build that was stopped
            create(folder, catalog, model)
        with writing(folder, catalog, model, 0.0, thresholds) as writer:
            state = catalog.state()
            if state.generation:
                raise already_there(folder)
            if state.model != model:
                mutations.create(catalog, model)
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
    """Replace every point of an index by that of another model; return the generation.

    The arguments are as in `build`, except that all rows are rows of the index: they stay as they
    are, and images that are not among them are removed with their captions. Until the one
    transaction at the end searches see the old points, and nobody else can write. A call that was
    stopped goes on when it is repeated.

    Raises:
        BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        DiskFullError, IndexLockedError: run it again later; it goes on where it stopped.
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
    """Stage the changes that are not staged yet, and check ids and references of all rows."""
    done = sum(map(len, staging.done.values()))
    progress(done, total)
    for change in changes(staging.done):
        staging.add(change)
        done += len(change.images) + len(change.captions)
        progress(done, total)
    staging.check()


def _segments(writer: Writer, staging: Staging, rows_per_segment: int) -> list[SegmentRecord]:
    """Write all staged points into segments of about so many rows, and publish them."""
    records: list[SegmentRecord] = []
    open_: dict[Kind, SegmentWriter] = {}
    model = staging.model
    try:
        for change in staging.changes():
            for kind in KINDS:
                rows, points = change.added(kind)
                if not rows or points is None:
                    continue
                if kind not in open_:
                    place = writer.workspace()
                    open_[kind] = SegmentWriter(
                        place, kind, model.dimension, model.score, writer.thresholds
                    )
                open_[kind].append([row.id for row in rows], points)
                if open_[kind].rows >= rows_per_segment:
                    records += writer.publish((open_[kind].folder, open_[kind].seal()))
                    del open_[kind]
        for segment in open_.values():
            records += writer.publish((segment.folder, segment.seal()))
    except BaseException:
        for segment in open_.values():
            segment.abandon()
        raise
    return records
