"""Routes of images and captions of the collection, by id."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hasse.models.images.formats import FORMATS, Format
from hasse.service.core import records
from hasse.service.core.pictures import open_original, version_of
from hasse.service.core.previews import MEDIA_TYPES, PreviewSize, ReducedSize
from hasse.service.http.openapi import Id, problems
from hasse.service.http.services import Services, ServicesHere
from hasse.service.schemas import CaptionRecord, ImageRecord

router = APIRouter(tags=["collection"])

KnownVersion = Annotated[
    str | None, Header(alias="If-None-Match", description="The ETag of the version the client has.")
]
_PICTURE = {"schema": {"type": "string", "format": "binary"}}
# Answers without a picture, of operations that send one.
_NO_PICTURE: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client has this version"},
    **problems(
        "unauthorized",
        "not_found",
        "picture_missing",
        "invalid",
        "busy",
        "not_ready",
        "catalog_unreachable",
    ),
}

# The picture of an id may change (a rebuilt collection, a deleted image). So a client may cache a
# picture but must revalidate it, and gets 304 without the bytes.
_CACHE_CONTROL = "public, no-cache"
# Originals may come from strangers, so a browser that opens one must not run its scripts.
_ORIGINAL_POLICY = "default-src 'none'; sandbox"


@router.get(
    "/images/{image_id}",
    summary="Describe an image",
    response_model=ImageRecord,
    responses={
        200: {"description": "The image"},
        **problems("unauthorized", "not_found", "invalid", "not_ready", "catalog_unreachable"),
    },
)
async def image(image_id: Id, services: ServicesHere) -> Response:
    """Return the catalog's facts about an image, and its captions."""
    record = await records.image(services.engine, image_id)
    return Response(record.model_dump_json(), media_type="application/json")


@router.get(
    "/images/{image_id}/file",
    summary="Fetch the stored picture of an image",
    response_class=Response,
    responses={
        200: {
            "description": "The picture as it is stored",
            "content": dict.fromkeys(sorted(format_.media_type for format_ in FORMATS), _PICTURE),
        },
        **_NO_PICTURE,
    },
)
async def image_file(
    request: Request, image_id: Id, services: ServicesHere, if_none_match: KnownVersion = None
) -> Response:
    """Return the bytes of the picture. Files are served by id only."""
    path, name = await records.picture_file(services.engine, image_id)
    version = version_of(path)
    if _matches(if_none_match, version):
        return _not_modified(version)
    original = await services.engine.in_catalog(lambda: open_original(path))
    request.scope["hasse.in_pieces"] = True  # the answer is not in memory as a whole
    return StreamingResponse(
        original.pieces(),
        media_type=original.format.media_type,
        headers=_headers(version)
        | {
            "Content-Length": str(original.size),
            "Content-Disposition": _disposition(name, original.format),
            "Content-Security-Policy": _ORIGINAL_POLICY,
        },
    )


@router.get(
    "/images/{image_id}/thumbnail",
    summary="Fetch a small version of an image",
    response_class=Response,
    responses={
        200: {
            "description": "A JPEG no longer than `thumbnail_size` on either side",
            "content": {MEDIA_TYPES["thumbnail"]: _PICTURE},
        },
        **_NO_PICTURE,
    },
)
async def image_thumbnail(
    image_id: Id, services: ServicesHere, if_none_match: KnownVersion = None
) -> Response:
    """Return the thumbnail. It is made at the first request and cached in memory."""
    return await _send_reduced(services, image_id, "thumbnail", if_none_match)


@router.get(
    "/images/{image_id}/preview/{size}",
    summary="Fetch a version of an image for a screen",
    response_class=Response,
    responses={
        200: {
            "description": "A WebP of at most 1.2 (medium) or 8.3 (large) million pixels",
            "content": {MEDIA_TYPES["large"]: _PICTURE},
        },
        **_NO_PICTURE,
    },
)
async def image_preview(
    image_id: Id, size: PreviewSize, services: ServicesHere, if_none_match: KnownVersion = None
) -> Response:
    """Return a preview. It is made at the first request and cached on disk."""
    return await _send_reduced(services, image_id, size, if_none_match)


async def _send_reduced(
    services: Services, image_id: int, size: ReducedSize, if_none_match: str | None
) -> Response:
    version, content = await records.reduced_picture(
        services.engine, image_id, size, lambda version: _matches(if_none_match, version)
    )
    if not content:
        return _not_modified(version)
    return Response(content, headers=_headers(version), media_type=MEDIA_TYPES[size])


@router.get(
    "/captions/{caption_id}",
    summary="Describe a caption",
    response_model=CaptionRecord,
    responses={
        200: {"description": "The caption"},
        **problems("unauthorized", "not_found", "invalid", "not_ready", "catalog_unreachable"),
    },
)
async def caption(caption_id: Id, services: ServicesHere) -> Response:
    """Return a caption and the image it was written for."""
    record = await records.caption(services.engine, caption_id)
    return Response(record.model_dump_json(), media_type="application/json")


def _headers(version: str) -> dict[str, str]:
    return {"ETag": f'"{version}"', "Cache-Control": _CACHE_CONTROL}


def _disposition(name: str, format_: Format) -> str:
    """Return the header with the name of a file (RFC 6266), inline if browsers show the format."""
    kind = "inline" if format_.in_browsers else "attachment"
    name = name.rpartition("/")[2]
    plain = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in name)
    encoded = quote(name.encode(errors="replace"), safe="")
    return f'{kind}; filename="{plain}"' + (
        f"; filename*=UTF-8''{encoded}" if plain != name else ""
    )


def _matches(if_none_match: str | None, version: str) -> bool:
    if if_none_match is None:
        return False
    known_tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return f'"{version}"' in known_tags or "*" in known_tags


def _not_modified(version: str) -> Response:
    return Response(status_code=304, headers=_headers(version))
