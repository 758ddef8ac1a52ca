"""Add more pictures to an index while others may change it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from index.errors import BadRowsError
from index.store import Index
from index.types import Kind
from models.checkpoints.checkpoint import Checkpoint
from models.datasets import Caption, Dataset, Image
from models.model import Points
from service.pipelines.dataset_encoding import ImageSource
from service.pipelines.indexing import ProgressCallback, caption_row, image_row, sha256

IMAGES_PER_ADDITION = 1024


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
    progress: ProgressCallback = lambda done, total: None,
    known: Known | None = None,
) -> Added:
    """Add the pictures that are not in the index yet.

    They get ids after the largest there is. Each block is searchable when it is done, so a call
    that is stopped and repeated goes on with what is missing. Others may write meanwhile. `known`
    saves reading what the index holds, as long as that is not changed.

    Raises:
        HasseIndexError: there is no room, or another process is writing.
    """
    known = _up_to_date(known, index)
    fresh = [image for image in dataset.images if str(image.path) not in known.paths]
    added, there = 0, len(dataset) - len(fresh)
    for part, points in source.blocks(checkpoint.model, fresh, IMAGES_PER_ADDITION):
        sentences = [caption.text for image in part for caption in image.captions]
        block = _Block(part, points, checkpoint.model.encode_captions(sentences))
        while True:
            known = _up_to_date(known, index)
            block = block.without(known.paths)
            try:
                _add(index, known.numbered(block.images), block, source)
            except BadRowsError:
                # Another process may have taken an id since; the next ones are free.
                if index.catalog.generation() == known.generation:
                    raise
            else:
                break
        known = known.after(block.images)
        added += len(block.images)
        there += len(part) - len(block.images)
        progress(added, len(fresh))
    return Added(added, there)


@dataclass(frozen=True, slots=True)
class _Block:
    """Images with their points (B, N) and those of their captions (C, N), in order."""

    images: list[Image]
    points: Points
    caption_points: Points

    def without(self, paths: AbstractSet[str]) -> _Block:
        """Return what is left without the images of some pictures."""
        fresh = np.array([str(image.path) not in paths for image in self.images], np.bool_)
        captions = np.repeat(fresh, [len(image.captions) for image in self.images])
        images = [image for image in self.images if str(image.path) not in paths]
        return _Block(images, self.points[fresh], self.caption_points[captions])


@dataclass(frozen=True, slots=True)
class Known:
    """What a generation of an index holds: where its pictures are, and the largest ids."""

    generation: int
    largest: dict[Kind, int]
    paths: frozenset[str]

    @classmethod
    def of(cls, index: Index) -> Known:
        """Read the visible generation, or a slightly newer one."""
        # In this order: a picture that is added after the paths were read takes one of the ids.
        generation, largest = index.catalog.generation(), index.catalog.largest_ids()
        paths = index.catalog.all_paths()
        absolute = frozenset(os.path.normpath(index.folder / row.path) for row in paths)
        return cls(generation, largest, absolute)

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
            [image_row(image, index.folder, sha256(image, source)) for image in images],
            block.points,
            [caption_row(caption) for image in images for caption in image.captions],
            block.caption_points,
        )
