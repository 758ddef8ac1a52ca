"""Builds an index of a dataset, and encodes an index anew with another model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hasse.index import build as index_build
from hasse.index.catalog.locations import Locations, folders_of
from hasse.index.creation import open_catalog
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ROWS_PER_SEGMENT, ProgressCallback
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.store import Index
from hasse.index.types import CaptionRow, FolderRow, Ids, ImageRow, Kind, ModelIdentity
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.service.writing.draft import IMAGES_PER_CHANGE, Draft
from hasse.service.writing.image_source import EncodedImages, ImageSource


def identity_of(checkpoint: Checkpoint) -> ModelIdentity:
    """Return the identity of a model, as an index stores it."""
    config = checkpoint.model.config
    return ModelIdentity(
        checkpoint.name,
        checkpoint.fingerprint,
        config.dimension,
        config.score,
        str(checkpoint.folder.resolve()),
    )


def build(
    dataset: Dataset,
    checkpoint: Checkpoint,
    folder: Path,
    source: ImageSource,
    progress: ProgressCallback = lambda done, total: None,
    rows_per_segment: int | None = None,
) -> Index:
    """Index a dataset. A repeated call continues an unfinished one.

    Images that cannot be read are left out with their captions, one line each.

    Raises:
        HasseIndexError: the folder holds an index already, or there is no room.
        FeaturesError: the features are not those of this model.
        DatasetError: every image was left out.
    """
    return index_build.build(
        folder,
        identity_of(checkpoint),
        _DatasetEncoder(dataset, checkpoint, source).make_changes,
        source=_fingerprint(dataset, source),
        total=_count_rows(dataset),
        folders=_folder_rows(dataset, folder.resolve()),
        progress=progress,
        rows_per_segment=rows_per_segment or ROWS_PER_SEGMENT,
    )


@dataclass(frozen=True, slots=True)
class ReencodeResult:
    """Numbers of images encoded anew and left out, and the new generation of the index."""

    images: int
    left_out: int
    generation: int


def reencode(
    folder: Path,
    checkpoint: Checkpoint,
    source: ImageSource,
    progress: ProgressCallback = lambda done, total: None,
    *,
    leave_out_missing: bool = False,
) -> ReencodeResult | None:
    """Replace all points of an index by those of another model; its rows stay the same.

    Pictures are read from their files. An image whose picture cannot be read is left out with its
    captions, one line each. Where a whole folder is missing, for example on a disk that is not
    connected, nothing is done unless `leave_out_missing`. Searches use the old points until all
    new ones are there. A repeated call continues an unfinished one. Returns None if the points of
    the index are of this model already.

    Raises:
        HasseIndexError: there is no index, no room, or another process is writing.
        DatasetError: a folder of pictures is missing, or no picture can be read.
    """
    folder = folder.resolve()
    with closing(open_catalog(folder)) as catalog:
        refuse_unfinished(folder, catalog.generation())
        dataset = _dataset_of(folder.name, catalog.locations(folder), *catalog.all_rows())
        if catalog.model().fingerprint == checkpoint.fingerprint:
            return None
    if not leave_out_missing:
        _require_folders(dataset)
    rows = _DatasetEncoder(dataset, checkpoint, source)
    generation = index_build.reencode(
        folder,
        identity_of(checkpoint),
        rows.make_changes,
        source=_fingerprint(dataset, source),
        total=_count_rows(dataset),
        progress=progress,
    )
    return ReencodeResult(len(rows.encoded_ids), len(dataset) - len(rows.encoded_ids), generation)


class _DatasetEncoder:
    """Encodes a dataset into changes of an index, from where an earlier run stopped.

    Attributes:
        encoded_ids: the images that were encoded so far.
    """

    def __init__(self, dataset: Dataset, checkpoint: Checkpoint, source: ImageSource) -> None:
        self._dataset = dataset
        self._model = checkpoint.model
        self._source = source
        self.encoded_ids: set[int] = set()

    def make_changes(self, done: Mapping[Kind, Ids]) -> Iterator[Change]:
        """Yield the images after those that are done, each with its captions."""
        self.encoded_ids = set(done["image"].tolist())
        images = self._dataset.images
        ids = [image.id for image in images]
        first = ids.index(done["image"][-1]) + 1 if self.encoded_ids else 0
        for block in self._source.encode_blocks(self._model, images[first:], IMAGES_PER_CHANGE):
            self.encoded_ids.update(image.id for image in block.images)
            if block.images:
                yield self._make_change(block)
        if images and not self.encoded_ids:
            raise self._source.no_images_error(self._dataset)

    def _make_change(self, block: EncodedImages) -> Change:
        draft = Draft()
        for image, facts, point in zip(block.images, block.facts, block.points, strict=True):
            draft.add_image(image.id, image.file_name, str(image.path), image.split, facts, point)
        captions = [caption for image in block.images for caption in image.captions]
        if captions:
            points = self._model.encode_captions([caption.text for caption in captions])
            for caption, point in zip(captions, points, strict=True):
                draft.add_caption(caption.image_id, caption.text, point, caption_id=caption.id)
        return draft.make_change()


def _folder_rows(dataset: Dataset, index_folder: Path) -> list[FolderRow]:
    """Return the folders of the pictures, so that they can move with or without the index."""
    return [
        FolderRow(path, path, os.path.relpath(path, index_folder))
        for path in folders_of(str(image.path) for image in dataset.images)
    ]


def _dataset_of(
    name: str, locations: Locations, images: list[ImageRow], captions: list[CaptionRow]
) -> Dataset:
    """Return the rows of an index as a dataset."""
    image_captions: dict[int, list[Caption]] = {row.id: [] for row in images}
    for caption in captions:
        image_captions[caption.image_id].append(Caption(caption.id, caption.image_id, caption.text))
    return Dataset(
        name,
        tuple(
            Image(
                row.id,
                row.file_name,
                Path(locations.absolute(row.path)),
                row.split,
                row.width,
                row.height,
                tuple(image_captions[row.id]),
            )
            for row in images
        ),
    )


def _require_folders(dataset: Dataset) -> None:
    """Raise DatasetError if a folder of pictures is missing: its disk may be disconnected."""
    for folder in sorted({image.path.parent for image in dataset.images}):
        if not folder.is_dir():
            count = sum(image.path.parent == folder for image in dataset.images)
            raise DatasetError(
                f"the folder {folder} is not there, with {count:,} pictures of the index: connect "
                "its disk, or give --leave-out-missing to remove these images and their captions"
            )


def _count_rows(dataset: Dataset) -> int:
    return len(dataset) + sum(len(image.captions) for image in dataset.images)


def _fingerprint(dataset: Dataset, source: ImageSource) -> str:
    """Return a fingerprint of a build: its images and captions, and the source of their points."""
    digest = hashlib.sha256(source.identity.encode())
    for image in dataset.images:
        captions = [[caption.id, caption.text] for caption in image.captions]
        row = [image.id, image.file_name, str(image.path), image.split, captions]
        digest.update(json.dumps(row).encode())
    return f"{dataset.name} {digest.hexdigest()}"
