"""One change of an index in the making: new images and captions get their ids here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hasse.index.catalog.catalog import Catalog
from hasse.index.catalog.free_ids import free_ids
from hasse.index.catalog.schema import FAR_IDS
from hasse.index.segments.change import Change
from hasse.index.types import KINDS, CaptionRow, ImageRow, Kind, Metadata, Points
from hasse.models.images.inspection import PictureFacts


class Draft:
    """New images and captions with their points, whatever source they come from.

    Attributes:
        images: their rows, by id.
        captions: their rows.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.images: dict[int, ImageRow] = {}
        self.metadata: dict[int, Metadata] = {}
        self.captions: list[CaptionRow] = []
        self._image_points: list[Points] = []
        self._caption_points: list[Points] = []
        self._catalog = catalog
        self._largest = catalog.largest_ids()
        self._ids = {kind: self._free(kind) for kind in KINDS}

    def new_image_id(self) -> int:
        """Return an id that no image has or had."""
        found = next(id_ for id_ in self._ids["image"] if id_ not in self.images)
        self._largest["image"] = max(self._largest["image"], found if found < FAR_IDS else 0)
        return found

    def add_image(self, row: ImageRow, point: Points, metadata: Metadata) -> None:
        """Add an image with its point (N,), under an id that its source chose or got here."""
        self.images[row.id] = row
        self.metadata[row.id] = metadata
        self._image_points.append(point)
        if self._largest["image"] < row.id < FAR_IDS:
            self._largest["image"] = row.id
            self._ids["image"] = self._free("image")

    def add_caption(
        self, image_id: int, text: str, point: Points, written_by: str | None = None
    ) -> None:
        """Add a caption with its point (N,) to an image of the index or of this change."""
        self.captions.append(CaptionRow(next(self._ids["caption"]), image_id, text, written_by))
        self._caption_points.append(point)

    def change(self) -> Change:
        """Return the change that adds all of them."""
        return Change(
            list(self.images.values()),
            np.stack(self._image_points) if self.images else None,
            self.captions,
            np.stack(self._caption_points) if self.captions else None,
            metadata=self.metadata,
        )

    def _free(self, kind: Kind) -> Iterator[int]:
        return free_ids(self._catalog, kind, self._largest[kind])


def image_row(
    image_id: int, file_name: str, path: str, split: str, facts: PictureFacts
) -> ImageRow:
    """Return the catalog's row of a picture."""
    return ImageRow(
        image_id,
        file_name,
        path,
        facts.width,
        facts.height,
        split,
        facts.sha256,
        taken=facts.taken,
    )
