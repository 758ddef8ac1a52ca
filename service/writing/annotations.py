"""Adds human captions and keywords to images of the collection, and removes them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from hasse.index.catalog import documents
from hasse.index.segments.change import Change
from hasse.index.store import Index
from hasse.index.text.sources import SourcedText, TextSource
from hasse.index.types import CaptionRow, Points
from hasse.service.errors import ServiceError, no_image
from hasse.service.writing.draft import Draft

AnnotationOperation: TypeAlias = Literal["annotate", "unannotate"]


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """Texts to add to images or to remove; removing needs no `caption_points` (C, N)."""

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
        self._captions: dict[int, list[CaptionRow]] = {}  # human captions before the batch
        self._texts: dict[int, set[str]] = {}  # their texts after the batch
        self._removed_captions: set[int] = set()
        self._keywords_before: dict[int, list[str]] = {}  # human keywords before the batch
        self._keywords: dict[int, list[str]] = {}  # human keywords after the batch
        self._given_before: dict[str, list[SourcedText]] = {}  # by SHA-256
        self._given: dict[str, list[SourcedText]] = {}  # after the batch

    def apply(self, operation: AnnotationOperation, annotation: Annotation) -> ServiceError | None:
        """Apply an annotation to all its images, or to none if one of them is missing."""
        rows = self._index.catalog.images(annotation.image_ids)
        for image_id in annotation.image_ids:
            if image_id not in rows:
                return no_image(image_id)
        self._load_texts([image_id for image_id in rows if image_id not in self._texts])
        self._load_given([row.sha256 for row in rows.values()])
        texts = [SourcedText("caption", text) for text in annotation.captions]
        texts += [SourcedText("added keyword", text) for text in annotation.keywords]
        for sha256 in dict.fromkeys(row.sha256 for row in rows.values() if row.sha256):
            others = [text for text in self._given[sha256] if text not in texts]
            self._given[sha256] = others + texts if operation == "annotate" else others
        for image_id in rows:
            if operation == "annotate":
                self._add_texts(image_id, annotation)
            else:
                self._remove_texts(image_id, annotation)
        return None

    def make_change(self) -> Change | None:
        """Return the change, or None if nothing changes."""
        keywords = {
            image_id: texts
            for image_id, texts in self._keywords.items()
            if texts != self._keywords_before[image_id]
        }
        given = {
            sha256: texts
            for sha256, texts in self._given.items()
            if set(texts) != set(self._given_before[sha256])
        }
        if not (self._draft.captions or self._removed_captions or keywords or given):
            return None
        texts: Mapping[TextSource, Mapping[int, list[str]]] = {"added keyword": keywords}
        removed = sorted(self._removed_captions)
        change = self._draft.make_change()
        return replace(change, texts=texts, removed_captions=removed, given=given)

    def _load_given(self, sha256s: Sequence[str]) -> None:
        new = [sha256 for sha256 in sha256s if sha256 not in self._given]
        stored = self._index.catalog.given_texts(new)
        for sha256 in new:
            self._given_before[sha256] = self._given[sha256] = stored.get(sha256, [])

    def _load_texts(self, image_ids: Sequence[int]) -> None:
        catalog = self._index.catalog
        with catalog.reading() as connection:
            texts = documents.texts_of(connection, image_ids)
        for image_id, rows in catalog.captions_of(image_ids).items():
            self._captions[image_id] = [row for row in rows if row.written_by is None]
            self._texts[image_id] = {row.text for row in self._captions[image_id]}
            keywords = [text.text for text in texts[image_id] if text.source == "added keyword"]
            self._keywords_before[image_id], self._keywords[image_id] = keywords, list(keywords)

    def _add_texts(self, image_id: int, annotation: Annotation) -> None:
        texts, keywords = self._texts[image_id], self._keywords[image_id]
        for text, point in zip(annotation.captions, annotation.caption_points, strict=True):
            if text not in texts:
                texts.add(text)
                self._draft.add_caption(image_id, text, point)
        keywords += [text for text in annotation.keywords if text not in keywords]

    def _remove_texts(self, image_id: int, annotation: Annotation) -> None:
        rows = self._captions[image_id]
        self._removed_captions |= {row.id for row in rows if row.text in annotation.captions}
        keywords = self._keywords[image_id]
        self._keywords[image_id] = [text for text in keywords if text not in annotation.keywords]
