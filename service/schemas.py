"""What goes over the wire: requests, answers and problems, with all bounds in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

K_MAXIMUM = 1000
CANDIDATES_MAXIMUM = 1_000_000
ID_MAXIMUM = 2**63 - 1  # what an SQL integer holds

Mode = Literal["certified", "exact", "fast"]
ImageId = Annotated[
    int, Field(ge=0, le=ID_MAXIMUM, description="Id of an image, as in the collection.")
]


def _sayable(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the caption is blank: say what the images show")
    if "\0" in text:
        raise PydanticCustomError("nul", "the caption holds a NUL character")
    return text


CaptionText = Annotated[
    str,
    Field(min_length=1, description="What should be true of the images."),
    AfterValidator(_sayable),
    # The same promise as `_sayable`, for those who read the document and not the sentence.
    Field(json_schema_extra={"pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$"}),
]


class Request(BaseModel):
    """A request: types are strict, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Answer(BaseModel):
    """An answer of ours, with every field always there."""

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


class ImageQuery(SearchOptions):
    """Which images is this caption true of?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"caption": "a dog runs on the beach", "k": 10, "mode": "certified"}]
        }
    )

    caption: CaptionText

    def options(self) -> SearchOptions:
        """Return the options alone."""
        return SearchOptions.model_construct(
            k=self.k,
            mode=self.mode,
            candidates=self.candidates,
            max_violation=self.max_violation,
        )


class PictureQuery(SearchOptions):
    """Which captions are true of this picture? The fields of a multipart form."""

    image: bytes = Field(
        description="A JPEG, PNG, WebP or GIF (its first frame).",
        json_schema_extra={"format": "binary"},
    )


class ImageHit(Answer):
    """An image, and by how much it falls short of the caption (0: it is true of it)."""

    rank: int = Field(ge=1)
    image_id: int
    file_name: str
    violation: float
    captions: list[str] = Field(description="The image's own captions.")
    image_url: str
    thumbnail_url: str


class CaptionHit(Answer):
    """A caption, and by how much the picture falls short of it (0: it is true of it)."""

    rank: int = Field(ge=1)
    caption_id: int
    image_id: int
    caption: str
    violation: float


class SearchFacts(Answer):
    """What both kinds of answers say."""

    hits: Sequence[Any]
    mode: Mode
    certified: bool = Field(description="Whether the hits are proved to be the exact top k.")
    searched: int = Field(ge=0, description="Rows the search ran over.")
    rescored: int = Field(ge=0, description="Rows whose exact violation was computed.")
    model: str
    generation: int = Field(ge=0, description="The state of the collection that was searched.")


class ImageAnswer(SearchFacts):
    """Images by ascending violation, ties by id."""

    hits: list[ImageHit]
    unknown_words: list[str] = Field(description="Words of the caption the model never learned.")


class CaptionAnswer(SearchFacts):
    """Captions by ascending violation, ties by id."""

    hits: list[CaptionHit]


class CaptionRecord(Answer):
    """A caption of the collection."""

    caption_id: int
    image_id: int
    caption: str


class ImageRecord(Answer):
    """An image of the collection."""

    image_id: int
    file_name: str
    width: int | None
    height: int | None
    split: str
    captions: list[CaptionRecord]
    image_url: str
    thumbnail_url: str


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


def image_url(image_id: int) -> str:
    """Return where the stored picture of an image is served."""
    return f"/images/{image_id}/file"


def thumbnail_url(image_id: int) -> str:
    """Return where the thumbnail of an image is served."""
    return f"/images/{image_id}/thumbnail"


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a reference to a request's schema in the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}
