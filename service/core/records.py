"""Records, details and picture files of images and captions, by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hasse.index.types import CaptionRow, DescribedImage, ImageRow, Metadata
from hasse.service.addresses import image_url, thumbnail_url
from hasse.service.core.metadata import PictureDetails, picture_details
from hasse.service.core.pictures import picture_missing
from hasse.service.core.previews import ReducedSize
from hasse.service.core.searching import ShownPaths
from hasse.service.errors import ServiceError, no_image
from hasse.service.schemas import AddedImage, CaptionRecord, ImageRecord

if TYPE_CHECKING:
    from hasse.service.core.engine import Engine

Row = TypeVar("Row")


async def image(engine: Engine, image_id: int) -> ImageRecord:
    """Return the record of an image; raises ServiceError `not_found`."""
    rows = await engine.in_catalog(lambda: engine.index.catalog.described_images([image_id]))
    return _image_record(_row(rows, image_id), engine.paths)


async def caption(engine: Engine, caption_id: int) -> CaptionRecord:
    """Return the record of a caption; raises ServiceError `not_found`."""
    rows = await engine.in_catalog(lambda: engine.index.catalog.captions([caption_id]))
    if caption_id not in rows:
        raise ServiceError("not_found", f"there is no caption with the id {caption_id}")
    return _caption_record(rows[caption_id])


async def picture_file(engine: Engine, image_id: int) -> tuple[Path, str]:
    """Return the path of the picture file of an image, and its file name.

    Raises:
        ServiceError: `not_found`, or `picture_missing` if a link leads out of its folder.
    """
    rows = await engine.in_catalog(lambda: engine.index.catalog.images([image_id]))
    row = _row(rows, image_id)
    path = engine.index.path_of(row)
    if await asyncio.to_thread(engine.index.locations.leads_out, str(path)):
        raise picture_missing()
    return path, row.file_name


async def picture_source(engine: Engine, picture: bytes | int) -> bytes | Path:
    """Return the uploaded bytes, or the file of a stored image; raises as `picture_file`."""
    return picture if isinstance(picture, bytes) else (await picture_file(engine, picture))[0]


async def details(engine: Engine, record: ImageRecord) -> PictureDetails:
    """Return the details of an image; none if a link leads out of its folder."""
    catalog, image_id = engine.index.catalog, record.image_id

    def read() -> tuple[ImageRow, Metadata]:
        return _row(catalog.images([image_id]), image_id), catalog.metadata(image_id)

    row, metadata = await engine.in_catalog(read)

    def read_file() -> PictureDetails:
        path = engine.index.path_of(row)
        if engine.index.locations.leads_out(str(path)):
            return PictureDetails()
        return picture_details(row, path, record.path, metadata)

    # Not in a thread of the catalog: the disk of the picture may be slow.
    return await asyncio.to_thread(read_file)


async def reduced_picture(
    engine: Engine, image_id: int, size: ReducedSize, is_cached: Callable[[str], bool]
) -> tuple[str, bytes]:
    """Return the version of a thumbnail or a preview, and its bytes.

    There are no bytes if the client has this version already (`is_cached`).

    Raises:
        ServiceError: `not_found`, `picture_missing`, or `busy` when too many wait.
    """
    path, _ = await picture_file(engine, image_id)
    version = engine.pictures.version_of(image_id, path, size)
    if is_cached(version):
        return version, b""
    return version, await engine.pictures.reduced(path, size, version)


def _caption_record(row: CaptionRow) -> CaptionRecord:
    """Return the public record of a caption."""
    return CaptionRecord(
        caption_id=row.id, image_id=row.image_id, caption=row.text, written_by=row.written_by
    )


def _image_record(image: DescribedImage, paths: ShownPaths) -> ImageRecord:
    """Return the public record of an image."""
    row = image.row
    shown = paths.shown(row.file_name, [(file.path, file.folder) for file in image.paths])
    return ImageRecord(
        image_id=row.id,
        file_name=row.file_name,
        path=shown[0],
        paths=shown,
        width=row.width,
        height=row.height,
        split=row.split,
        added=instant(row.added or 0),
        captions=[_caption_record(caption) for caption in image.captions],
        image_url=image_url(row.id),
        thumbnail_url=thumbnail_url(row.id),
    )


def added_image(image: DescribedImage, paths: ShownPaths, *, created: bool) -> AddedImage:
    """Return the public record of an uploaded image."""
    return AddedImage(**dict(_image_record(image, paths)), created=created)


def instant(milliseconds: int) -> str:
    """Return milliseconds since 1970 as an RFC 3339 date and time."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _row(rows: Mapping[int, Row], image_id: int) -> Row:
    if image_id not in rows:
        raise no_image(image_id)
    return rows[image_id]
