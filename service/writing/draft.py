"""Collects new images and captions into one change of an index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.schema import FAR_IDS
from hasse.index.segments.change import Change
from hasse.index.types import KINDS, CaptionRow, ImageRow, Kind, Metadata, Points, VersionRow
from hasse.models.images.inspection import PictureFacts
from hasse.service.writing.metadata import metadata_of

IMAGES_PER_CHANGE = 1024  # of a folder or a dataset: bounds the memory of their captions' points


class Draft:
    """New images and captions with their points.

    `add_image` puts each fact that `inspect` returns into the change: into a column of the image's
    row, or an entry of another field of `Change`.

    Attributes:
        images: the rows of the new images, by id.
        metadata: the metadata of the new images, by id.
        versions: the image hashes of the new images.
        captions: the rows of the new captions.
    """

    def __init__(self, catalog: Catalog | None = None) -> None:
        """Begin a change; `catalog` gives ids to rows whose source has none."""
        self.images: dict[int, ImageRow] = {}
        self.metadata: dict[int, Metadata] = {}
        self.versions: list[VersionRow] = []
        self.captions: list[CaptionRow] = []
        self._image_points: list[Points] = []
        self._caption_points: list[Points] = []
        self._catalog = catalog
        if catalog is not None:
            self._largest_ids = catalog.largest_ids()
            self._ids = {kind: self._free_ids(catalog, kind) for kind in KINDS}

    def new_image_id(self) -> int:
        """Return an id that no image has or had."""
        image_id = next(id_ for id_ in self._ids["image"] if id_ not in self.images)
        self._largest_ids["image"] = max(
            self._largest_ids["image"], image_id if image_id < FAR_IDS else 0
        )
        return image_id

    def add_image(
        self,
        image_id: int,
        file_name: str,
        path: str,
        split: str,
        facts: PictureFacts,
        point: Points,
        *,
        added: int | None = None,
        metadata: Metadata | None = None,
    ) -> ImageRow:
        """Add an image with its point (N,); return its row.

        `path` is as the catalog stores it. For an image that is replaced, `added` is when it was
        added first. Without `metadata`, that of `facts` is used.
        """
        row = ImageRow(
            image_id,
            file_name,
            path,
            facts.width,
            facts.height,
            split,
            facts.sha256,
            added,
            facts.taken,
        )
        self.images[image_id] = row
        self.metadata[image_id] = metadata or metadata_of(facts.metadata)
        if facts.hash is not None:
            self.versions.append(VersionRow(image_id, facts.hash, image_id))
        self._image_points.append(point)
        if self._catalog is not None and self._largest_ids["image"] < image_id < FAR_IDS:
            self._largest_ids["image"] = image_id
            self._ids["image"] = self._free_ids(self._catalog, "image")
        return row

    def add_caption(
        self,
        image_id: int,
        text: str,
        point: Points,
        *,
        caption_id: int | None = None,
        written_by: str | None = None,
    ) -> None:
        """Add a caption with its point (N,) to an image of the index or of this change."""
        new_id = next(self._ids["caption"]) if caption_id is None else caption_id
        self.captions.append(CaptionRow(new_id, image_id, text, written_by))
        self._caption_points.append(point)

    def make_change(self) -> Change:
        """Return the change that adds all of them."""
        return Change(
            list(self.images.values()),
            np.stack(self._image_points) if self.images else None,
            self.captions,
            np.stack(self._caption_points) if self.captions else None,
            metadata=self.metadata,
            versions=self.versions,
        )

    def _free_ids(self, catalog: Catalog, kind: Kind) -> Iterator[int]:
        return catalog.free_ids(kind, self._largest_ids[kind])
