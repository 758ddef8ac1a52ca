"""Rows of the index and of the catalog, put into the shapes that go over the wire."""

from __future__ import annotations

import numpy as np

from index.terms import CaptionRow
from service.schemas import CaptionHit, CaptionRecord, ImageHit, image_url, thumbnail_url
from service.searching import Found


def image_hits(found: Found) -> list[ImageHit]:
    """Return the images that were found, as they go over the wire."""
    hits: list[ImageHit] = []
    for image_id, violation in zip(found.answer.ids, found.answer.violations, strict=True):
        row = found.images.get(int(image_id))
        if row is not None:
            hits.append(
                ImageHit.model_construct(
                    rank=len(hits) + 1,
                    image_id=row.id,
                    file_name=row.file_name,
                    violation=_plain(violation),
                    captions=[caption.text for caption in found.captions_of[row.id]],
                    image_url=image_url(row.id),
                    thumbnail_url=thumbnail_url(row.id),
                )
            )
    return hits


def caption_hits(found: Found) -> list[CaptionHit]:
    """Return the captions that were found, as they go over the wire."""
    hits: list[CaptionHit] = []
    for caption_id, violation in zip(found.answer.ids, found.answer.violations, strict=True):
        row = found.captions.get(int(caption_id))
        if row is not None:
            hits.append(
                CaptionHit.model_construct(
                    rank=len(hits) + 1,
                    caption_id=row.id,
                    image_id=row.image_id,
                    caption=row.text,
                    violation=_plain(violation),
                )
            )
    return hits


def _plain(violation: np.float32) -> float:
    # The shortest decimal that names the float32: 0.0123, not 0.012299999594688416.
    return float(str(violation))


def caption_record(row: CaptionRow) -> CaptionRecord:
    """Return a caption as it goes over the wire."""
    return CaptionRecord(caption_id=row.id, image_id=row.image_id, caption=row.text)
