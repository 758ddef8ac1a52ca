"""Put a dataset into a new index, or bring an index over to another model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hasse.index import build as index_build
from hasse.index.catalog.locations import Locations, folders_of
from hasse.index.creation import open_catalog
from hasse.index.segments.change import Change
from hasse.index.segments.compaction import ROWS_PER_SEGMENT
from hasse.index.segments.staging import refuse_unfinished
from hasse.index.store import Index
from hasse.index.types import CaptionRow, FolderRow, Ids, ImageRow, Kind, ModelIdentity
from hasse.models.checkpoints.checkpoint import Checkpoint
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.service.writing.draft import IMAGES_PER_CHANGE, Draft
from hasse.service.writing.image_source import EncodedImages, ImageSource

ProgressCallback = Callable[[int, int], None]  # told how many are done, of how many


def identity_of(checkpoint: Checkpoint) -> ModelIdentity:
    """Return which model made the points, as an index remembers it."""
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
    """Index a dataset; what was finished before a kill is not encoded again.

    Images that cannot be read are left out with their captions, one line each.

    Raises:
        HasseIndexError: the folder holds an index already, or there is no room.
        FeaturesError: the features are not those of this model.
        DatasetError: every image was left out.
    """
    return index_build.build(
        folder,
        identity_of(checkpoint),
        _EncodedDataset(dataset, checkpoint, source).changes,
        source=_fingerprint(dataset, source),
        total=_count(dataset),
        folders=_folders(dataset, folder.resolve()),
        progress=progress,
        rows_per_segment=rows_per_segment or ROWS_PER_SEGMENT,
    )


@dataclass(frozen=True, slots=True)
class Reencoded:
    """How many images of an index were encoded anew, how many were left out, its generation."""

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
) -> Reencoded | None:
    """Replace all points of an index by those of another model; the rows stay as they are.

    Pictures are read from their files. An image whose picture cannot be read is left out with its
    captions, one line each. But where a whole folder is missing, as on a disk that is not
    connected, nothing is done unless `leave_out_missing`. Searches see the old points until all
    new ones are there. A call that was stopped goes on when it is repeated. None is returned where
    the index is one of this model already.

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
    rows = _EncodedDataset(dataset, checkpoint, source)
    generation = index_build.reencode(
        folder,
        identity_of(checkpoint),
        rows.changes,
        source=_fingerprint(dataset, source),
        total=_count(dataset),
        progress=progress,
    )
    return Reencoded(len(rows.encoded), len(dataset) - len(rows.encoded), generation)


class _EncodedDataset:
    """A dataset as changes of an index, from where an earlier run stopped.

    Attributes:
        encoded: the ids of the images so far; all others are left out.
    """

    def __init__(self, dataset: Dataset, checkpoint: Checkpoint, source: ImageSource) -> None:
        self._dataset = dataset
        self._model = checkpoint.model
        self._source = source
        self.encoded: set[int] = set()

    def changes(self, done: Mapping[Kind, Ids]) -> Iterator[Change]:
        """Yield the images after those that are done, each with its captions."""
        self.encoded = set(done["image"].tolist())
        every = self._dataset.images
        ids = [image.id for image in every]
        first = ids.index(done["image"][-1]) + 1 if self.encoded else 0
        for block in self._source.blocks(self._model, every[first:], IMAGES_PER_CHANGE):
            self.encoded.update(image.id for image in block.images)
            if block.images:
                yield self._change(block)
        if every and not self.encoded:
            raise self._source.none_of(self._dataset)

    def _change(self, block: EncodedImages) -> Change:
        draft = Draft()
        for image, facts, point in zip(block.images, block.facts, block.points, strict=True):
            draft.add_image(image.id, image.file_name, str(image.path), image.split, facts, point)
        captions = [caption for image in block.images for caption in image.captions]
        if captions:
            points = self._model.encode_captions([caption.text for caption in captions])
            for caption, point in zip(captions, points, strict=True):
                draft.add_caption(caption.image_id, caption.text, point, caption_id=caption.id)
        return draft.change()


def _folders(dataset: Dataset, index_folder: Path) -> list[FolderRow]:
    """Return the folders of the pictures, so that they can move with the index or without."""
    return [
        FolderRow(path, path, os.path.relpath(path, index_folder))
        for path in folders_of(str(image.path) for image in dataset.images)
    ]


def _dataset_of(
    name: str, locations: Locations, images: list[ImageRow], captions: list[CaptionRow]
) -> Dataset:
    """Return the rows of an index as a dataset."""
    own: dict[int, list[Caption]] = {row.id: [] for row in images}
    for caption in captions:
        own[caption.image_id].append(Caption(caption.id, caption.image_id, caption.text))
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
                tuple(own[row.id]),
            )
            for row in images
        ),
    )


def _require_folders(dataset: Dataset) -> None:
    """Refuse to leave out all pictures of a folder that may only be out of reach (DatasetError)."""
    for place in sorted({image.path.parent for image in dataset.images}):
        if not place.is_dir():
            count = sum(image.path.parent == place for image in dataset.images)
            raise DatasetError(
                f"the folder {place} is not there, with {count:,} pictures of the index: connect "
                "its disk, or give --leave-out-missing to remove these images and their captions"
            )


def _count(dataset: Dataset) -> int:
    return len(dataset) + sum(len(image.captions) for image in dataset.images)


def _fingerprint(dataset: Dataset, source: ImageSource) -> str:
    """Tell one build from another: the same images and captions, read the same way."""
    digest = hashlib.sha256(str(source.features).encode())
    for image in dataset.images:
        captions = [[caption.id, caption.text] for caption in image.captions]
        row = [image.id, image.file_name, str(image.path), image.split, captions]
        digest.update(json.dumps(row).encode())
    return f"{dataset.name} {digest.hexdigest()}"
