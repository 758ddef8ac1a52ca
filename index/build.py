"""Build an index from a stream of encoded blocks, or encode one anew: resumably, in bounded memory.

Blocks are staged first (`index.staging`). When all are there they become segments, which one
transaction makes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

from numpy.typing import ArrayLike

from hasse.index.catalog import mutations
from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.database import catalog_url
from hasse.index.catalog.records import SegmentRecord
from hasse.index.creation import already_there, create, open_catalog
from hasse.index.errors import BadRowsError, IndexExistsError
from hasse.index.locking import locked
from hasse.index.segments.compaction import LOCK as COMPACTION_LOCK
from hasse.index.segments.compaction import ROWS_PER_SEGMENT, ProgressCallback
from hasse.index.segments.cost_model import DEFAULT, Thresholds
from hasse.index.segments.segment import SegmentWriter
from hasse.index.segments.writer import LOCK_TIMEOUT, Writer, writing
from hasse.index.staging import Staging, refuse_unfinished
from hasse.index.store import Index
from hasse.index.types import KINDS, CaptionRow, FolderRow, Ids, ImageRow, ModelIdentity

# Given the ids that an earlier run finished, in their order, yield blocks of the rows that follow.
ImageBlocks: TypeAlias = Callable[[Ids], Iterable[tuple[Sequence[ImageRow], ArrayLike]]]
CaptionBlocks: TypeAlias = Callable[[Ids], Iterable[tuple[Sequence[CaptionRow], ArrayLike]]]


def build(
    folder: Path,
    model: ModelIdentity,
    images: ImageBlocks,
    captions: CaptionBlocks,
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

    `images(done)`, and then `captions(done)`, yield blocks of rows with their points (R, N),
    without the `done` ids that an earlier run has finished: the order of rows must not change from
    run to run. `source` identifies the build, such as the dataset's name and size; a build
    of another source, or with another model, starts anew. `folders` hold the pictures. `progress`
    is called with the number of rows finished, images and captions together, and `total`.

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
            _stage(staging, images, captions, total, progress)
            if not staging.done("image"):
                staging.discard()
                raise BadRowsError("there are no images to index: name a dataset with pictures")
            records = _segments(writer, staging, rows_per_segment)
            writer.commit(records, staging.images(), staging.captions(), folders)
            staging.discard()
    return Index.open(folder, threads=threads, thresholds=thresholds)


def reencode(
    folder: Path,
    model: ModelIdentity,
    images: ImageBlocks,
    captions: CaptionBlocks,
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
        _stage(staging, images, captions, total, progress)
        records = _segments(writer, staging, rows_per_segment)
        ids = {kind: staging.ids(kind) for kind in KINDS}
        generation = writer.replace_model(model, records, ids)
        staging.discard()
        writer.sweep()
    return generation


def _stage(
    staging: Staging,
    images: ImageBlocks,
    captions: CaptionBlocks,
    total: int,
    progress: ProgressCallback,
) -> None:
    """Stage the rows that are not staged yet, and check ids and references of all rows."""

    def tell() -> None:
        progress(staging.done("image") + staging.done("caption"), total)

    tell()
    for image_rows, points in images(staging.ids("image")):
        staging.add("image", image_rows, points)
        tell()
    for caption_rows, points in captions(staging.ids("caption")):
        staging.add("caption", caption_rows, points)
        tell()
    staging.check()


def _segments(writer: Writer, staging: Staging, rows_per_segment: int) -> list[SegmentRecord]:
    """Write all staged points into segments of about so many rows, and publish them."""
    records: list[SegmentRecord] = []
    for kind in KINDS:
        segment: SegmentWriter | None = None
        try:
            for rows, points in staging.blocks(kind):
                segment = segment or SegmentWriter(
                    writer.workspace(),
                    kind,
                    staging.model.dimension,
                    staging.model.score,
                    writer.thresholds,
                )
                segment.append([row[0] for row in rows], points)
                if segment.rows >= rows_per_segment:
                    records += writer.publish((segment.folder, segment.seal()))
                    segment = None
            if segment is not None:
                records += writer.publish((segment.folder, segment.seal()))
        except BaseException:
            if segment is not None:
                segment.abandon()
            raise
    return records
