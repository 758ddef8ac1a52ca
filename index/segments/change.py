"""A change of an index: the rows that one generation adds, replaces and removes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from hasse.index.catalog.validation import check_texts, checked_ids, checked_points
from hasse.index.text.sources import SourcedText, TextSource
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
    """Rows that `Writer.change` writes in one transaction.

    For a further kind of row that comes with new images, add a field here and a statement in
    `Writer.change`.

    Generated captions are removed when their image gets other captions, or another picture.

    Attributes:
        images, image_points: new images and their points (R, N). An image whose id is in
            `replaced_images` exists, and gets this row and this point; its human captions stay.
        captions, caption_points: new captions and their points (S, N).
        rows: new facts of existing images, whose points stay.
        paths: all files of an image, by image id; for new images too.
        removed_images: ids of images, which are removed with their captions and paths.
        removed_by_name: the same, for images that a user removes: their files are stored, so that
            a followed folder does not add them again.
        removed_captions: ids of captions.
        folders: folders to store.
        gone_paths: paths of files that a user removed and that no longer exist.
        unreadable: files that could not be decoded, by path; None deletes one.
        metadata: of images, by image id; for new images too.
        versions: hashes of pictures and the images that show the same one; for new images too.
        texts: all texts of an image from one source, by source and image id.
        given: all that people gave to pictures, by SHA-256: see `index.catalog.given`. Keywords
            of a picture that is added come back without it; its captions need points.
    """

    images: Sequence[ImageRow] = ()
    image_points: ArrayLike | None = None
    captions: Sequence[CaptionRow] = ()
    caption_points: ArrayLike | None = None
    replaced_images: frozenset[int] = frozenset()
    rows: Sequence[ImageRow] = ()
    paths: Mapping[int, Sequence[PathRow]] = field(default_factory=dict)
    removed_images: Sequence[int] = ()
    removed_by_name: Sequence[int] = ()
    removed_captions: Sequence[int] = ()
    folders: Sequence[FolderRow] = ()
    gone_paths: Collection[str] = ()
    unreadable: Mapping[str, UnreadableFile | None] = field(default_factory=dict)
    metadata: Mapping[int, Metadata] = field(default_factory=dict)
    versions: Sequence[VersionRow] = ()
    texts: Mapping[TextSource, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    given: Mapping[str, Sequence[SourcedText]] = field(default_factory=dict)

    def additions(self, kind: Kind) -> tuple[Sequence[ImageRow | CaptionRow], ArrayLike | None]:
        """Return the new rows of a kind, and their points."""
        if kind == "image":
            return self.images, self.image_points
        return self.captions, self.caption_points

    def checked_additions(self, kind: Kind, model: ModelIdentity) -> tuple[Ids, Points]:
        """Return the ids (R,) and the points (R, N) of the new rows of a kind.

        Raises:
            BadPointsError, BadRowsError: one cannot be stored; the message names the row.
        """
        rows, points = self.additions(kind)
        check_texts(rows)
        ids = checked_ids(kind, [row.id for row in rows])
        if points is None:
            points = np.empty((0, model.dimension), np.float32)
        return ids, checked_points(kind, ids, points, model.dimension, model.score)
