"""Schemas of requests, answers and problems, with all bounds in one place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

K_MAXIMUM = 1000
CANDIDATES_MAXIMUM = 1_000_000
OFFSET_MAXIMUM = K_MAXIMUM - 1
SELECTED_MAXIMUM = 1000
TOGETHER_MAXIMUM = 32
TOGETHER_K_MAXIMUM = 100  # hits for each caption, which bounds the size of the answer
SPLIT_CHARACTERS = 64
UPLOAD_CAPTIONS_MAXIMUM = 32
UPLOAD_ID_MAXIMUM = 2**53 - 1  # the largest integer that JSON carries exactly in all languages
ID_MAXIMUM = 2**63 - 1  # the largest SQL BIGINT

Mode = Literal["certified", "exact", "fast"]
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


CaptionText = Annotated[
    str,
    Field(min_length=1, description="What should be true of the images."),
    # `service.core.encoding.check_caption` refuses others. Python calls blank what JSON Schema's \s
    # does not: a few control characters.
    Field(json_schema_extra={"pattern": r"^[^\u0000]*[^\s\u0000\u001c-\u001f\u0085][^\u0000]*$"}),
]


_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:(\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(instant: str) -> int:
    """Return an RFC 3339 date and time in milliseconds since 1970; ValueError if it is none."""
    found = _INSTANT.fullmatch(instant)
    if not found:
        raise ValueError
    if found[1] == "60":  # a leap second is the end of the minute before it
        instant = f"{instant[: found.start(1)]}59{instant[found.end(1) :]}"
    # In integers: as a float, some instants round to the millisecond before.
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


class Request(BaseModel):
    """A request: types are strict, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Answer(BaseModel):
    """An answer: every field is always present."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class SearchOptions(Request):
    """How to search: the same for captions and for pictures."""

    k: int = Field(default=10, ge=1, le=K_MAXIMUM, description="Most hits wanted.")
    mode: Mode = Field(
        default="certified",
        description=(
            "certified: provably the exact top k. exact: a full scan. fast: prefilter and "
            "re-rank only; `certified` in the answer says whether it happens to be proved."
        ),
    )
    candidates: int | None = Field(
        default=None,
        ge=1,
        le=CANDIDATES_MAXIMUM,
        description="How many candidates the prefilter hands on; null leaves it to the index.",
    )
    max_violation: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Leave out hits with a greater violation; null keeps them all.",
    )
    offset: int = Field(
        default=0,
        ge=0,
        le=OFFSET_MAXIMUM,
        description=f"Skip so many of the best; only the best {K_MAXIMUM:,} can be had.",
    )
    split: str | None = Field(
        default=None,
        pattern=r"^[^\u0000]*$",
        description="Search only images of this split, and their captions.",
    )
    image_ids: list[ImageId] | None = Field(
        default=None,
        max_length=SELECTED_MAXIMUM,
        description="Search only these images, and their captions.",
    )
    added_from: Instant | None = Field(
        default=None, description="Search only images added at this time or later."
    )
    added_before: Instant | None = Field(
        default=None, description="Search only images added before this time."
    )
    taken_from: Instant | None = Field(
        default=None,
        description=(
            "Search only pictures taken at this time or later: by the date in their EXIF, read as "
            "UTC where it has no zone, else by the time of their file."
        ),
    )
    taken_before: Instant | None = Field(
        default=None, description="Search only pictures taken before this time."
    )
    path_prefix: str | None = Field(
        default=None,
        pattern=r"^[^\u0000]*$",
        description=(
            "Search only images with a path, as `paths` shows them, that begins like this; end it "
            "with / for a folder."
        ),
    )


class ImageQuery(SearchOptions):
    """Find the images that a caption is true of."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"caption": "a dog runs on the beach", "k": 10, "mode": "certified"}]
        }
    )

    caption: CaptionText


class ImagesQuery(SearchOptions):
    """Find the images that each of several captions is true of."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"captions": ["a dog runs on the beach", "an animal"], "k": 3}]
        }
    )

    captions: list[CaptionText] = Field(
        min_length=1, max_length=TOGETHER_MAXIMUM, description="They are answered in this order."
    )
    k: int = Field(
        default=10, ge=1, le=TOGETHER_K_MAXIMUM, description="Most hits wanted for each caption."
    )


Probability = Annotated[
    float | None,
    Field(
        description=(
            "How often a pair of this violation is true, measured when the model was trained on "
            "pairs that it had not learned from; null for a model without calibration, and where "
            "it knows no word of a caption, asked for or found."
        ),
    ),
]


class UploadFields(Request):
    """What comes with a picture that is added."""

    caption: list[CaptionText] = Field(
        default=[],
        max_length=UPLOAD_CAPTIONS_MAXIMUM,
        description="What is true of the picture; the field may be repeated.",
    )
    image_id: int | None = Field(
        default=None,
        ge=0,
        le=UPLOAD_ID_MAXIMUM,
        description="The image's id; when left out, the next after the largest there is.",
    )
    split: str = Field(
        default="",
        max_length=SPLIT_CHARACTERS,
        pattern=r"^[^\u0000-\u001f]*$",
        description="The split that the image belongs to, for searches of one split.",
    )


class UploadForm(UploadFields):
    """A picture for the collection. The fields of a multipart form."""

    image: PictureFile


WrittenBy = Annotated[
    str | None,
    Field(description="The model that wrote it, and its captioner; null for a caption of people."),
]


class ImageHit(Answer):
    """An image and its violation: 0 means that the caption is true of it."""

    rank: int = Field(ge=1)
    image_id: int
    file_name: str
    path: str = Field(description="Where its file lies, relative to the folder that is followed.")
    paths: list[str] = Field(description="All its files: copies of one picture are one image.")
    violation: float
    probability: Probability
    captions: list[str] = Field(description="The image's own captions, by people.")
    written_captions: list[str] = Field(
        description="Captions that a model wrote, for an image that has none by people."
    )
    image_url: str
    thumbnail_url: str


class Work(Answer):
    """How many rows each stage of a search read, and how many bytes it read in all."""

    scanned: int = Field(description="Rows scored in a pass over a whole segment.")
    proposed: int = Field(description="Rows that the prefilter proposed, which were scored.")
    bounded: int = Field(description="Rows bounded from below by 4 bits of some coordinates.")
    checked: int = Field(description="Of these, rows bounded by 8 bits of every coordinate.")
    survivors: int = Field(description="Of these, rows that no bound rules out: they were scored.")
    bytes: int = Field(description="Bytes of points and codes that were read.")


class SearchFacts(Answer):
    """What the answers of all searches have in common."""

    hits: Sequence[Any]
    mode: Mode
    certified: bool = Field(description="Whether the hits are proved to be the exact top k.")
    searched: int = Field(ge=0, description="Rows the search ran over: those selected.")
    rescored: int = Field(ge=0, description="Rows whose exact violation was computed.")
    plan: str = Field(description="How many segments were searched which way.")
    work: Work = Field(description="How many rows each stage of the search read.")
    model: str
    generation: int = Field(ge=0, description="The state of the collection that was searched.")


class ImageAnswer(SearchFacts):
    """Images by ascending violation, ties by id."""

    hits: list[ImageHit]
    unknown_words: list[str] = Field(description="Words of the caption the model never learned.")


class ImageAnswers(Answer):
    """One answer for each caption, in their order, all over one generation."""

    answers: list[ImageAnswer]


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
    path: str = Field(description="Where its file lies, relative to the folder that is followed.")
    paths: list[str] = Field(description="All its files: copies of one picture are one image.")
    width: int | None
    height: int | None
    split: str
    added: str = Field(
        description="When the image became searchable.",
        json_schema_extra={"format": "date-time"},
    )
    captions: list[CaptionRecord]
    image_url: str
    thumbnail_url: str


class AddedImage(ImageRecord):
    """The image that a picture became, or was already."""

    created: bool = Field(description="Whether the picture is new to the collection.")


class Alive(Answer):
    """The process answers."""

    status: Literal["alive"]


class Ready(Answer):
    """Both encoders and the index answered a probe."""

    status: Literal["ready"]
    checks: dict[str, Literal["ok"]]


class Version(Answer):
    """What is running. Everything but the release is null while the model is being loaded."""

    name: Literal["hasse"]
    version: str
    model: str | None = None
    fingerprint: str | None = Field(default=None, description="SHA-256 over the model's files.")
    score: str | None = None
    dimension: int | None = None
    images: int | None = Field(default=None, description="Images that can be found.")
    captions: int | None = Field(default=None, description="Captions that can be found.")
    generation: int | None = None


class FieldError(Answer):
    """What is wrong with one field."""

    field: str
    reason: str


class Problem(Answer):
    """An error, as RFC 9457 describes it (`application/problem+json`)."""

    type: str = Field(description="Where the reason is explained.")
    title: str
    status: int
    detail: str
    reason: str = Field(description="A short word for programs; see the table at /docs.")
    request_id: str
    errors: list[FieldError] = Field(description="The fields at fault, where there are any.")


def image_id_of(text: str) -> int | None:
    """Return the id of an image that was written as text; None for what none can be."""
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_number and int(text) <= ID_MAXIMUM else None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a reference to a request's schema in the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}
