"""Captions and keywords that people give images of the collection, or take away from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from hasse.index.catalog import documents
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.types import CaptionRow, Points
from hasse.service.errors import ServiceError, no_image
from hasse.service.writing.draft import Draft

AnnotationOperation: TypeAlias = Literal["annotate", "unannotate"]


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """Texts for images; `caption_points` (C, N) are needed only where they are added."""

    image_ids: Sequence[int]
    captions: Sequence[str]
    keywords: Sequence[str]
    caption_points: Points
    queued_at: float = field(default_factory=time.monotonic)


class Annotations:
    """The change that a batch of annotations makes, while the index's lock is held."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._draft = Draft(index.catalog)
        self._captions: dict[int, list[CaptionRow]] = {}  # of people, as they were
        self._texts: dict[int, set[str]] = {}  # of captions, from now on
        self._removed: set[int] = set()
        self._before: dict[int, list[str]] = {}  # keywords that were added here
        self._keywords: dict[int, list[str]] = {}  # from now on

    def apply(self, operation: AnnotationOperation, one: Annotation) -> ServiceError | None:
        """Take one annotation up, for all its images or, where one is missing, for none."""
        known = self._index.catalog.images(one.image_ids)
        for image_id in one.image_ids:
            if image_id not in known:
                return no_image(image_id)
        self._read([image_id for image_id in known if image_id not in self._texts])
        for image_id in known:
            if operation == "annotate":
                self._add(image_id, one)
            else:
                self._remove(image_id, one)
        return None

    def change(self) -> Change | None:
        """Return the change, if there is any."""
        keywords = {
            image_id: texts
            for image_id, texts in self._keywords.items()
            if texts != self._before[image_id]
        }
        if not (self._draft.captions or self._removed or keywords):
            return None
        change = self._draft.change()
        return replace(change, keywords=keywords, removed_captions=sorted(self._removed))

    def _read(self, image_ids: Sequence[int]) -> None:
        catalog = self._index.catalog
        with catalog.reading() as connection:
            texts = documents.texts_of(connection, image_ids)
        for image_id, rows in catalog.captions_of(image_ids).items():
            self._captions[image_id] = [row for row in rows if row.written_by is None]
            self._texts[image_id] = {row.text for row in self._captions[image_id]}
            added = [one.text for one in texts[image_id] if one.source == "added keyword"]
            self._before[image_id], self._keywords[image_id] = added, list(added)

    def _add(self, image_id: int, one: Annotation) -> None:
        texts, keywords = self._texts[image_id], self._keywords[image_id]
        for text, point in zip(one.captions, one.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self._draft.add_caption(image_id, text, point)
        keywords += [text for text in one.keywords if text not in keywords]

    def _remove(self, image_id: int, one: Annotation) -> None:
        rows = self._captions[image_id]
        self._removed |= {row.id for row in rows if row.text in one.captions}
        keywords = self._keywords[image_id]
        self._keywords[image_id] = [text for text in keywords if text not in one.keywords]
