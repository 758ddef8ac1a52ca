"""Rows of the catalog as answers show them."""

from __future__ import annotations

from datetime import UTC, datetime

from hasse.index.types import CaptionRow, DescribedImage
from hasse.service.addresses import image_url, thumbnail_url
from hasse.service.core.searching import Places
from hasse.service.schemas import AddedImage, CaptionRecord, ImageRecord


def caption_record(row: CaptionRow) -> CaptionRecord:
    """Return a caption as it goes over the wire."""
    return CaptionRecord(
        caption_id=row.id, image_id=row.image_id, caption=row.text, written_by=row.written_by
    )


def image_record(image: DescribedImage, places: Places) -> ImageRecord:
    """Return an image as it goes over the wire."""
    row = image.row
    paths = places.shown(row.file_name, [(file.path, file.folder) for file in image.paths])
    return ImageRecord(
        image_id=row.id,
        file_name=row.file_name,
        path=paths[0],
        paths=paths,
        width=row.width,
        height=row.height,
        split=row.split,
        added=instant(row.added or 0),
        captions=[caption_record(caption) for caption in image.captions],
        image_url=image_url(row.id),
        thumbnail_url=thumbnail_url(row.id),
    )


def added_image(image: DescribedImage, places: Places, *, created: bool) -> AddedImage:
    """Return an image that was uploaded as it goes over the wire."""
    return AddedImage(**dict(image_record(image, places)), created=created)


def instant(milliseconds: int) -> str:
    """Return a time since 1970 as RFC 3339 has it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
