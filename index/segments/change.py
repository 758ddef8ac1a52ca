"""What one generation adds, replaces and removes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from hasse.index.catalog.validation import check_texts, checked, checked_ids
from hasse.index.types import (
    CaptionRow,
    FolderRow,
    Ids,
    ImageRow,
    Kind,
    Metadata,
    ModelIdentity,
    PathRow,
    Points,
    UnreadableFile,
    VersionRow,
)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What `Writer.change` makes visible at once.

    A further kind of row that comes with new images is a field here, and a statement in
    `Writer.change`, whose transaction holds all rows of a change.

    Captions that a model wrote go when their image gets other captions, or another picture.

    Attributes:
        images, image_points: new images and their points (R, N). An image whose id is in
            `replaced` is there already and gets this row and this point; its captions of people
            stay.
        captions, caption_points: new captions and their points (S, N).
        rows: images that get another row and keep their point.
        paths: the files of images from now on, by image id; for new images too.
        removed_images: they go with their captions and paths.
        removed_by_name: images that go likewise, and whose files are remembered, so that a
            followed folder does not bring them back.
        removed_captions: others that go.
        folders: folders that are remembered as they are now.
        lapsed: paths of files that were removed by name and are gone.
        unreadable: files that could not be decoded, by path; None forgets one.
        metadata: of images, from now on, by image id; for new images too.
        versions: what tells which images show the same picture; for new images too.
        keywords: those that people gave images here, all of them from now on, by image id.
    """

    images: Sequence[ImageRow] = ()
    image_points: ArrayLike | None = None
    captions: Sequence[CaptionRow] = ()
    caption_points: ArrayLike | None = None
    replaced: frozenset[int] = frozenset()
    rows: Sequence[ImageRow] = ()
    paths: Mapping[int, Sequence[PathRow]] = field(default_factory=dict)
    removed_images: Sequence[int] = ()
    removed_by_name: Sequence[int] = ()
    removed_captions: Sequence[int] = ()
    folders: Sequence[FolderRow] = ()
    lapsed: Collection[str] = ()
    unreadable: Mapping[str, UnreadableFile | None] = field(default_factory=dict)
    metadata: Mapping[int, Metadata] = field(default_factory=dict)
    versions: Sequence[VersionRow] = ()
    keywords: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def added(self, kind: Kind) -> tuple[Sequence[ImageRow | CaptionRow], ArrayLike | None]:
        """Return the new rows of a kind, and their points."""
        if kind == "image":
            return self.images, self.image_points
        return self.captions, self.caption_points

    def checked(self, kind: Kind, model: ModelIdentity) -> tuple[Ids, Points]:
        """Return the ids (R,) and the points (R, N) of the new rows of a kind.

        Raises:
            BadPointsError, BadRowsError: one cannot be stored; the message names the row.
        """
        rows, given = self.added(kind)
        check_texts(rows)
        ids = checked_ids(kind, [row.id for row in rows])
        points = np.empty((0, model.dimension), np.float32) if given is None else given
        return ids, checked(kind, ids, points, model.dimension, model.score)
