"""Base classes and field types of all requests and answers, records, and problems."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

SPLIT_CHARACTERS = 64
UPLOAD_CAPTIONS_MAXIMUM = 32
ANNOTATED_MAXIMUM = 1000
ANNOTATIONS_MAXIMUM = 8  # bounds the points of one request: 1000 images have 8,000
UPLOAD_ID_MAXIMUM = 2**53 - 1  # the largest integer that JSON carries exactly in all languages
ID_MAXIMUM = 2**63 - 1  # the largest SQL BIGINT

ImageId = Annotated[
    int, Field(ge=0, le=ID_MAXIMUM, description="Id of an image, as in the collection.")
]
# The file of a multipart form.
PictureFile = Annotated[
    bytes,
    Field(
        description=(
            "A JPEG, PNG, WebP, GIF (its first frame), AVIF, TIFF, BMP or JPEG 2000; HEIC or RAW "
            "where the service has their packages."
        ),
        json_schema_extra={"format": "binary"},
    ),
]


CAPTION_PATTERN = r"^[^\u0000]*[^\s\u0000\u001c-\u001f\u0085][^\u0000]*$"
CaptionText = Annotated[
    str,
    Field(min_length=1, description="What should be true of the images."),
    # What `service.core.encoding.check_caption` accepts. For Python a few control characters are
    # blank, which \s of JSON Schema does not match.
    Field(json_schema_extra={"pattern": CAPTION_PATTERN}),
]


_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:(\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(instant: str) -> int:
    """Return the milliseconds since 1970 of an RFC 3339 date and time; ValueError for another."""
    match = _INSTANT.fullmatch(instant)
    if not match:
        raise ValueError
    if match[1] == "60":  # a leap second counts as the last second of its minute
        instant = f"{instant[: match.start(1)]}59{instant[match.end(1) :]}"
    # In integers, because as floats some instants round to the previous millisecond.
    return (datetime.fromisoformat(instant.upper()) - _EPOCH) // timedelta(milliseconds=1)


def _instant(text: str) -> str:
    try:
        milliseconds(text)
    except ValueError:
        raise PydanticCustomError(
            "instant", "this is not a date and time with its zone, such as 2026-11-20T09:00:00Z"
        ) from None
    return text


Instant = Annotated[str, AfterValidator(_instant), Field(json_schema_extra={"format": "date-time"})]


_DECIMALS = r"(\.[0-9]{1,12})?"
_LATITUDE = rf"-?([0-8]?[0-9]{_DECIMALS}|90(\.0{{1,12}})?)"
_LONGITUDE = rf"-?((1[0-7][0-9]|[0-9]{{1,2}}){_DECIMALS}|180(\.0{{1,12}})?)"
_PLACE_PATTERN = rf"^{_LATITUDE},{_LONGITUDE},[0-9]{{1,5}}{_DECIMALS}$"


def place_of(text: str) -> tuple[float, float, float]:
    """Return the latitude, longitude and kilometres of a `Near`; ValueError for another text."""
    if not re.fullmatch(_PLACE_PATTERN, text):
        raise ValueError
    latitude, longitude, kilometres = map(float, text.split(","))
    return latitude, longitude, kilometres


def _near(text: str) -> str:
    try:
        place_of(text)
    except ValueError:
        raise PydanticCustomError(
            "near", "this is not a latitude, a longitude and kilometres, such as 52.52,13.40,5"
        ) from None
    return text


Near = Annotated[str, AfterValidator(_near), Field(json_schema_extra={"pattern": _PLACE_PATTERN})]


def kind_of(field: FieldInfo) -> Any:
    """Return the type of a field without None: a plain type, `list[int]`, or list for texts."""
    choices = get_args(field.annotation) if _is_union(field.annotation) else [field.annotation]
    kind = next(_plain(choice) for choice in choices if choice is not NoneType)
    if get_origin(kind) is list:
        return list[int] if _plain(get_args(kind)[0]) is int else list
    return str if get_origin(kind) is Literal else kind


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def is_instant(field: FieldInfo) -> bool:
    """Return whether a field of a model holds an `Instant`, or nothing."""
    return Instant in (field.annotation, *get_args(field.annotation))


class Request(BaseModel):
    """A request: types are strict, unknown fields are refused."""

    # Each model is built when it is first used, because a command needs few of them.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Answer(BaseModel):
    """An answer: every field is always present."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_serialization_defaults_required=True,
        defer_build=True,
    )


class UploadFields(Request):
    """The fields beside a new picture."""

    caption: list[CaptionText] = Field(
        default=[],
        max_length=UPLOAD_CAPTIONS_MAXIMUM,
        description="What is true of the picture; the field may be repeated.",
    )
    image_id: int | None = Field(
        default=None,
        ge=0,
        le=UPLOAD_ID_MAXIMUM,
        description="The image's id; when left out, one more than the largest id.",
    )
    split: str = Field(
        default="",
        max_length=SPLIT_CHARACTERS,
        pattern=r"^[^\u0000-\u001f]*$",
        description="The split that the image belongs to, for searches of one split.",
    )


class AnnotationFields(Request):
    """Captions and keywords of images of the collection."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"image_ids": [7, 8], "keywords": ["holidays"]}]}
    )

    image_ids: list[ImageId] = Field(
        min_length=1, max_length=ANNOTATED_MAXIMUM, description="Ids of images of the collection."
    )
    captions: list[CaptionText] = Field(
        default=[], max_length=ANNOTATIONS_MAXIMUM, description="What is true of each of them."
    )
    keywords: list[CaptionText] = Field(
        default=[],
        max_length=ANNOTATIONS_MAXIMUM,
        description="Names of people, events and the like: searched as text, not encoded.",
    )


class UploadForm(UploadFields):
    """A picture for the collection. The fields of a multipart form."""

    image: PictureFile


WrittenBy = Annotated[
    str | None,
    Field(description="The model that wrote it, and its captioner; null for a human caption."),
]


class CaptionRecord(Answer):
    """A caption of the collection."""

    caption_id: int
    image_id: int
    caption: str
    written_by: WrittenBy


class ImageRecord(Answer):
    """An image of the collection."""

    image_id: int
    file_name: str
    path: str = Field(description="The path of its file, relative to the followed folder.")
    paths: list[str] = Field(description="The paths of all its files: copies are one image.")
    width: int | None
    height: int | None
    split: str
    added: str = Field(
        description="When the image became searchable.", json_schema_extra={"format": "date-time"}
    )
    captions: list[CaptionRecord]
    image_url: str
    thumbnail_url: str


class AddedImage(ImageRecord):
    """The image of a picture that was added or existed already."""

    created: bool = Field(description="Whether the picture is new to the collection.")


class Alive(Answer):
    """The process answers."""

    status: Literal["alive"]


class Ready(Answer):
    """Both encoders and the index answered a probe; `following` is present with followed folders.

    `checksums` is "comparing" until the checksum of every file of the index was compared.
    """

    status: Literal["ready"]
    checks: dict[str, Literal["ok", "comparing", "restarting"]]


class Version(Answer):
    """The running release. All other fields are null while the model is being loaded."""

    name: Literal["hasse"]
    version: str
    model: str | None = None
    fingerprint: str | None = Field(default=None, description="SHA-256 over the model's files.")
    score: str | None = None
    dimension: int | None = None
    images: int | None = Field(default=None, description="Number of searchable images.")
    captions: int | None = Field(default=None, description="Number of searchable captions.")
    generation: int | None = None


class FieldError(Answer):
    """What is wrong with one field."""

    field: str
    reason: str


class Problem(Answer):
    """An error, as RFC 9457 describes it (`application/problem+json`)."""

    type: str = Field(description="The address of an explanation of the reason.")
    title: str
    status: int
    detail: str
    reason: str = Field(description="A short word for programs; see the table at /docs.")
    request_id: str
    errors: list[FieldError] = Field(description="The fields at fault, where there are any.")


def image_id_of(text: str) -> int | None:
    """Return the id of an image from a text; None if the text is not an id."""
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_number and int(text) <= ID_MAXIMUM else None
