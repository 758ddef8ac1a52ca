"""Build an index from a stream of encoded blocks, in bounded memory, resumably."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from numpy.typing import ArrayLike

from index import durable
from index.catalog import mutations
from index.catalog.catalog import open_catalog
from index.errors import IndexExistsError
from index.segments.compaction import ROWS_PER_SEGMENT, Tally
from index.staging import Staging
from index.store import Index
from index.types import CaptionRow, ImageRow, ModelIdentity

ImageBlocks: TypeAlias = Callable[[int], Iterable[tuple[Sequence[ImageRow], ArrayLike]]]
CaptionBlocks: TypeAlias = Callable[[int], Iterable[tuple[Sequence[CaptionRow], ArrayLike]]]


def build(
    folder: Path,
    model: ModelIdentity,
    images: ImageBlocks,
    captions: CaptionBlocks,
    *,
    source: str,
    total: int,
    progress: Tally | None = None,
    rows_per_segment: int = ROWS_PER_SEGMENT,
    threads: int | None = None,
) -> Index:
    """Build an index in `folder`, visible all at once when everything is there.

    `images(done)` and `captions(done)` yield blocks of rows with their points (R, N), leaving
    out the first `done` rows, which an earlier run that was stopped has finished: the order of
    rows must not change from run to run. `source` tells one build from another (the dataset's
    name and size, say); a build of another source, or with another model, starts anew. `progress`
    is called with the number of rows finished, images and captions together, and `total`.

    Raises:
        IndexExistsError, NotAnIndexError: the folder holds an index already, or is in use.
        BadPointsError, BadRowsError: a row cannot be stored; the message names it.
        DiskFullError, IndexLockedError: run it again later; it goes on where it stopped.
    """
    index = _unbuilt(folder, model, threads)
    try:
        with index.writing(patience=0.0) as writer:
            _claim(index, model)
            staging = Staging(index.folder, model, source, writer.publish, rows_per_segment)
            with closing(staging):
                writer.sweep()

                def tell() -> None:
                    if progress is not None:
                        progress(staging.done("image") + staging.done("caption"), total)

                tell()
                for image_rows, points in images(staging.done("image")):
                    staging.add("image", image_rows, points)
                    tell()
                for caption_rows, points in captions(staging.done("caption")):
                    staging.add("caption", caption_rows, points)
                    tell()
                writer.commit(staging.finish(), staging.images(), staging.captions())
            durable.remove(staging.folder)
    except BaseException:
        index.close()
        raise
    return index


def _unbuilt(folder: Path, model: ModelIdentity, threads: int | None) -> Index:
    try:
        return Index.create(folder, model, threads=threads)
    except IndexExistsError:
        catalog = open_catalog(folder)
        try:
            return Index(folder.resolve(), catalog, threads=threads)
        except BaseException:
            catalog.close()
            raise


def _claim(index: Index, model: ModelIdentity) -> None:
    state = index.catalog.state()
    if state.generation:
        raise IndexExistsError(
            f"{index.folder} already holds an index of generation {state.generation}: add to it "
            "with 'hasse index add', or choose another folder"
        )
    if state.model != model:
        mutations.create(index.catalog, model)
