"""Rows of the index and of the catalog, put into the shapes that go over the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice, repeat
from typing import Any

import numpy as np

from index.types import CaptionRow, ImageRow
from service.core.searching import Found
from service.schemas import (
    AddedImage,
    CaptionRecord,
    ImageRecord,
    image_url,
    thumbnail_url,
)


def image_hits(found: Found) -> list[dict[str, Any]]:
    """Return the fields of an `ImageHit` for each image that was found.

    An answer makes all its hits of their fields at once, which takes less than one by one.
    """
    hits: list[dict[str, Any]] = []
    for image_id, violation, probability in _wanted(found):
        row = found.images.get(image_id)
        if row is not None:
            hits.append(
                {
                    "rank": found.offset + len(hits) + 1,
                    "image_id": row.id,
                    "file_name": row.file_name,
                    "violation": plain(violation),
                    "probability": probability,
                    "captions": row.captions,
                    "image_url": image_url(row.id),
                    "thumbnail_url": thumbnail_url(row.id),
                }
            )
    return hits


def caption_hits(found: Found, knows: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return the fields of a `CaptionHit` for each caption that was found.

    A caption of which the model `knows` no word lies where all such do: that says nothing of it.
    """
    hits: list[dict[str, Any]] = []
    for caption_id, violation, probability in _wanted(found):
        row = found.captions.get(caption_id)
        if row is not None:
            hits.append(
                {
                    "rank": found.offset + len(hits) + 1,
                    "caption_id": row.id,
                    "image_id": row.image_id,
                    "caption": row.text,
                    "violation": plain(violation),
                    "probability": (
                        probability if probability is not None and knows(row.text) else None
                    ),
                }
            )
    return hits


def facts(found: Found, model: str) -> dict[str, Any]:
    """Return what every answer of a search by the model of that name says beside its hits."""
    answer = found.answer
    return {
        "mode": answer.mode,
        "certified": answer.certified,
        "searched": answer.searched,
        "rescored": answer.rescored,
        "plan": answer.plan,
        "touched": answer.touched._asdict(),
        "model": model,
        "generation": answer.generation,
    }


def _wanted(found: Found) -> Iterator[tuple[int, np.float32, float | None]]:
    answer, probabilities = found.answer, found.probabilities or repeat(None)
    every = zip(answer.ids.tolist(), answer.violations, probabilities, strict=False)
    return islice(every, found.offset, None)


def plain(violation: np.float32) -> float:
    """Return a violation as the decimal that a person would write."""
    # The shortest decimal that names the float32: 0.0123, not 0.012299999594688416.
    return float(str(violation))


def caption_record(row: CaptionRow) -> CaptionRecord:
    """Return a caption as it goes over the wire."""
    return CaptionRecord(caption_id=row.id, image_id=row.image_id, caption=row.text)


def image_record(row: ImageRow, captions: Sequence[CaptionRow]) -> ImageRecord:
    """Return an image as it goes over the wire."""
    return ImageRecord(
        image_id=row.id,
        file_name=row.file_name,
        width=row.width,
        height=row.height,
        split=row.split,
        added=instant(row.added or 0),
        captions=[caption_record(caption) for caption in captions],
        image_url=image_url(row.id),
        thumbnail_url=thumbnail_url(row.id),
    )


def added_image(row: ImageRow, captions: Sequence[CaptionRow], created: bool) -> AddedImage:
    """Return an image that was uploaded as it goes over the wire."""
    record = image_record(row, captions)
    return AddedImage(**dict(record), created=created)


def instant(milliseconds: int) -> str:
    """Return a time since 1970 as RFC 3339 has it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
