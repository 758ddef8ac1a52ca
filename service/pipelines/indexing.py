"""Put a dataset, or more pictures, into an index: rows for the catalog, points for the segments."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import sqlalchemy as sql

from index import build as index_build
from index import durable
from index.catalog import schema
from index.errors import BadRowsError
from index.staging import STAGING
from index.store import Index
from index.types import CaptionRow, ImageRow, Kind, ModelIdentity
from models.checkpoints.checkpoint import Checkpoint
from models.datasets import Caption, Dataset, Image
from models.datasets.builder import Tally
from models.images.preprocessing import require_of_picture
from models.model import Points
from service.pipelines.dataset_encoding import ImageSource

SKIPPED = "skipped.txt"  # ids of images that an unfinished build has left out
CAPTIONS_AT_ONCE = 2048
# A block costs a few syncs of the disk, and a kill loses the block at hand.
SECONDS_PER_BLOCK = 2.0
ROWS_PER_BLOCK = 4096
IMAGES_PER_ADDITION = 1024


def identity_of(checkpoint: Checkpoint) -> ModelIdentity:
    """Say which model made the points, as an index remembers it."""
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
    progress: Tally = lambda done, total: None,
) -> Index:
    """Index a dataset; what was finished before a kill is not encoded again.

    Images that cannot be read are left out with their captions, one line each.

    Raises:
        HasseIndexError: the folder holds an index already, or there is no room.
        FeaturesError: the features are not those of this model.
        DatasetError: every image was left out.
    """
    folder = folder.resolve()
    total = len(dataset) + sum(len(image.captions) for image in dataset.images)
    note = folder / STAGING / SKIPPED
    left_out: set[int] = set()

    def images(done: int) -> Iterator[tuple[list[ImageRow], Points]]:
        if done:
            left_out.update(_read_ids(note))
        else:
            note.unlink(missing_ok=True)
        remaining = [image for image in dataset.images if image.id not in left_out][done:]
        position = 0
        for part, points in _gathered(source.points(checkpoint.model, remaining)):
            # A build that goes on counts finished rows, so it must know which images were not
            # among them. The note is written first: an image in it is never encoded again.
            there = {image.id for image in part}
            end = remaining.index(part[-1], position) + 1
            missing = [image.id for image in remaining[position:end] if image.id not in there]
            _append_ids(note, missing)
            left_out.update(missing)
            position = end
            yield [image_row(image, folder, _sha256(image, source)) for image in part], points
        missing = [image.id for image in remaining[position:]]
        _append_ids(note, missing)
        left_out.update(missing)
        if len(left_out) == len(dataset):
            raise source.none_of(dataset)

    def captions(done: int) -> Iterator[tuple[list[CaptionRow], Points]]:
        rows: Iterator[CaptionRow] = (
            caption_row(caption)
            for image in dataset.images
            if image.id not in left_out
            for caption in image.captions
        )
        rows = islice(rows, done, None)
        while part := list(islice(rows, CAPTIONS_AT_ONCE)):
            yield part, checkpoint.model.encode_captions([row.text for row in part])

    return index_build.build(
        folder,
        identity_of(checkpoint),
        images,
        captions,
        source=_fingerprint(dataset, source),
        total=total,
        progress=progress,
    )


@dataclass(frozen=True, slots=True)
class Added:
    """How many pictures of a dataset were added, and how many were there; no other can be read."""

    added: int
    known: int


def add(
    index: Index,
    dataset: Dataset,
    checkpoint: Checkpoint,
    source: ImageSource,
    progress: Tally = lambda done, total: None,
    known: Known | None = None,
) -> Added:
    """Add the pictures that are not in the index yet.

    They get ids after the largest there is. Each block is searchable when it is done, so a call
    that is stopped and repeated goes on with what is missing. Others may write meanwhile. What the
    index holds is read, where it is not `known` or not what the index holds any more.

    Raises:
        HasseIndexError: there is no room, or another process is writing.
    """
    known = _up_to_date(known, index)
    fresh = [image for image in dataset.images if str(image.path) not in known.paths]
    added, there = 0, len(dataset) - len(fresh)
    for part, points in _gathered(source.points(checkpoint.model, fresh), IMAGES_PER_ADDITION):
        sentences = [caption.text for image in part for caption in image.captions]
        block = _Block(part, points, checkpoint.model.encode_captions(sentences))
        while True:
            known = _up_to_date(known, index)
            block = block.without(known.paths)
            try:
                _add(index, known.numbered(block.images), block, source)
            except BadRowsError:
                # An id that another process took since is free no more: the next ones are.
                if index.catalog.generation() == known.generation:
                    raise
            else:
                break
        known = known.after(block.images)
        added += len(block.images)
        there += len(part) - len(block.images)
        progress(added, len(fresh))
    return Added(added, there)


def image_row(image: Image, folder: Path, sha256: str) -> ImageRow:
    """Return the catalog's row of an image; `sha256` is that of its picture, or "".

    A picture that lies beside the index is named relative to it, so that both can be moved.
    """
    near = image.path.is_relative_to(folder.parent)
    path = os.path.relpath(image.path, folder) if near else str(image.path)
    return ImageRow(image.id, image.file_name, path, image.width, image.height, image.split, sha256)


def _sha256(image: Image, source: ImageSource) -> str:
    """Return the SHA-256 of a picture that was read just now, so that it costs no disk.

    With it the service knows the picture when it is sent by POST. Where features stand for
    pictures none is read, and there is none ("").
    """
    if source.features is not None:
        return ""
    try:
        return durable.sha256(image.path)
    except OSError as error:  # it has gone since
        require_of_picture(error)
        return ""


def caption_row(caption: Caption) -> CaptionRow:
    """Return the catalog's row of a caption."""
    return CaptionRow(caption.id, caption.image_id, caption.text)


def _gathered(
    encoded: Iterable[tuple[list[Image], Points]], limit: int = ROWS_PER_BLOCK
) -> Iterator[tuple[list[Image], Points]]:
    """Join batches into blocks that are worth a write."""
    images: list[Image] = []
    blocks: list[Points] = []
    started = time.monotonic()
    for part, points in encoded:
        images += part
        blocks.append(points)
        if len(images) >= limit or time.monotonic() - started > SECONDS_PER_BLOCK:
            yield images, np.concatenate(blocks)
            images, blocks, started = [], [], time.monotonic()
    if images:
        yield images, np.concatenate(blocks)


def _fingerprint(dataset: Dataset, source: ImageSource) -> str:
    """Tell one build from another: the same images and captions, read the same way."""
    digest = hashlib.sha256(str(source.features).encode())
    for image in dataset.images:
        captions = [[caption.id, caption.text] for caption in image.captions]
        row = [image.id, image.file_name, str(image.path), image.split, captions]
        digest.update(json.dumps(row).encode())
    return f"{dataset.name} {digest.hexdigest()}"


def _read_ids(path: Path) -> set[int]:
    """Return the ids in a note, from which a line that was left half written is taken away."""
    if not path.is_file():
        return set()
    # The image of such a line is met again, and noted behind the whole ones.
    whole, end, _ = path.read_bytes().rpartition(b"\n")
    os.truncate(path, len(whole + end))
    return {int(line) for line in whole.splitlines()}


def _append_ids(path: Path, ids: Iterable[int]) -> None:
    lines = "".join(f"{one}\n" for one in ids)
    if lines:
        with path.open("a", encoding="ascii") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class _Block:
    """Images with their points (B, N) and those of their captions (C, N), in order."""

    images: list[Image]
    points: Points
    caption_points: Points

    def without(self, paths: AbstractSet[str]) -> _Block:
        """Return what is left without the images of some pictures."""
        kept = np.array([str(image.path) not in paths for image in self.images], np.bool_)
        captions = np.repeat(kept, [len(image.captions) for image in self.images])
        left = [image for image, stays in zip(self.images, kept, strict=True) if stays]
        return _Block(left, self.points[kept], self.caption_points[captions])


@dataclass(frozen=True, slots=True)
class Known:
    """What a generation of an index holds: where its pictures are, and the largest ids."""

    generation: int
    largest: dict[Kind, int]
    paths: frozenset[str]

    @classmethod
    def of(cls, index: Index) -> Known:
        """Read the visible generation, or what is a little younger."""
        # In this order: whoever adds a picture after the paths were read takes one of the ids.
        generation, largest = index.catalog.generation(), index.catalog.largest_ids()
        with index.catalog.reading() as connection:
            rows = connection.execute(sql.select(schema.IMAGES.c.path)).scalars()
            paths = frozenset(os.path.normpath(index.folder / path) for path in rows)
        return cls(generation, largest, paths)

    def numbered(self, images: Sequence[Image]) -> list[Image]:
        """Give images and captions the ids after the largest there are."""
        numbered = []
        caption_id = self.largest["caption"]
        for image_id, image in enumerate(images, start=self.largest["image"] + 1):
            captions = tuple(
                Caption(at, image_id, caption.text)
                for at, caption in enumerate(image.captions, start=caption_id + 1)
            )
            caption_id += len(captions)
            numbered.append(replace(image, id=image_id, captions=captions))
        return numbered

    def after(self, images: Sequence[Image]) -> Known:
        """Return what the next generation holds if nobody else makes it."""
        if not images:
            return self
        largest: dict[Kind, int] = {
            "image": self.largest["image"] + len(images),
            "caption": self.largest["caption"] + sum(len(image.captions) for image in images),
        }
        return replace(self, generation=self.generation + 1, largest=largest)


def _up_to_date(known: Known | None, index: Index) -> Known:
    """Return what the index holds now, read where that is not known."""
    if known is None or known.generation != index.catalog.generation():
        return Known.of(index)
    return known


def _add(index: Index, images: Sequence[Image], block: _Block, source: ImageSource) -> None:
    if images:
        index.add(
            [image_row(image, index.folder, _sha256(image, source)) for image in images],
            block.points,
            [caption_row(caption) for image in images for caption in image.captions],
            block.caption_points,
        )
