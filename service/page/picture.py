"""Pictures as screens show them: those of the collection, and those that visitors bring."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from service.core.pictures import THUMBNAIL_MEDIA_TYPE
from service.page.views import Link, Query
from service.schemas import ImageRecord


@dataclass(frozen=True, slots=True)
class Picture:
    """What a template shows of a picture; `file_url` and `link` are "" where there is none."""

    url: str
    name: str
    alt: str
    captions: tuple[Link, ...] = ()
    file_url: str = ""
    link: str = ""
    image_id: int | None = None


def brought(preview: bytes) -> Picture:
    """Return a visitor's picture as it is shown: within the page, because it is not kept."""
    data = base64.b64encode(preview).decode("ascii")
    url = f"data:{THUMBNAIL_MEDIA_TYPE};base64,{data}"
    return Picture(url=url, name="your picture", alt="Your picture")


def stored(record: ImageRecord, about: Query) -> Picture:
    """Return a picture of the collection as it is shown beside an answer about it."""
    return Picture(
        url=record.thumbnail_url,
        name=record.file_name,
        alt=record.captions[0].caption if record.captions else record.file_name,
        link=about.url(),
        image_id=record.image_id,
    )
