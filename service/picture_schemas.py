"""Schemas of what is asked of a picture: captions, images like it, a description."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hasse.models.captioning import DRAWS
from hasse.service.schemas import (
    Answer,
    ImageId,
    PictureFile,
    Probability,
    Request,
    SearchFacts,
    SearchOptions,
    WrittenBy,
)

DRAWS_MAXIMUM = 1000
WRITTEN_MAXIMUM = 100
Prefer = Literal["least_violation", "specific"]
Relation = Literal["alike", "more_specific", "more_general"]


class SimilarOptions(SearchOptions):
    """How to search for images like a picture."""

    similar: Relation = Field(
        default="alike",
        description=(
            "alike: at the least distance. more_specific: what shows all that the picture shows, "
            "and more. more_general: what shows nothing else, and less."
        ),
    )


class SimilarQuery(SimilarOptions):
    """Find images like a picture. The fields of a multipart form."""

    image: PictureFile


class DistinctOptions(SearchOptions):
    """How to search for captions."""

    distinct: bool = Field(
        default=True,
        description=(
            "Whether captions that read the same (but for case, spacing and a full stop) are one "
            "hit, the one with the smallest id; `same` lists the others."
        ),
    )
    written: bool | None = Field(
        default=None,
        description=(
            "Whether captions that a model wrote are found too; null finds them only where the "
            "collection has none of people."
        ),
    )


class CaptionOptions(DistinctOptions):
    """How to search for the captions of a picture."""

    prefer: Prefer = Field(
        default="least_violation",
        description=(
            "least_violation: by ascending violation. specific: captions likely to be true first, "
            "those that are true of fewest reference images leading; then the others by violation. "
            "Likely: the violation is within the threshold of the model's calibration; without a "
            "calibration no caption is."
        ),
    )


class PictureQuery(CaptionOptions):
    """Find the captions that are true of a picture. The fields of a multipart form."""

    image: PictureFile


class SameCaption(Answer):
    """Another caption that reads the same."""

    caption_id: int
    image_id: int


class CaptionHit(Answer):
    """A caption and its violation: 0 means that it is true of the picture."""

    rank: int = Field(ge=1)
    caption_id: int
    image_id: int
    path: str = Field(description="Where the file of its image lies.")
    paths: list[str] = Field(description="All files of its image.")
    caption: str
    written_by: WrittenBy
    violation: float
    probability: Probability
    same: list[SameCaption] = Field(
        description="Other captions that read the same, the first 100; empty without `distinct`."
    )


class CaptionAnswer(SearchFacts):
    """Captions by ascending violation, ties by id."""

    hits: list[CaptionHit]


class DescribeOptions(Request):
    """How to describe a picture."""

    k: int = Field(default=5, ge=1, le=WRITTEN_MAXIMUM, description="Most captions wanted.")
    draws: int = Field(
        default=DRAWS,
        ge=1,
        le=DRAWS_MAXIMUM,
        description="Texts that are drawn, of which the best are returned; more take longer.",
    )


class DescribeQuery(DescribeOptions):
    """Describe an image of the collection."""

    image_id: ImageId


class DescribeForm(DescribeOptions):
    """Describe a picture. The fields of a multipart form."""

    image: PictureFile


class WrittenCaption(Answer):
    """A caption that a model wrote."""

    text: str
    violation: float = Field(description="How far the picture falls short of it.")
    probability: float | None = Field(
        description="How likely it is true of the picture; null where the model is not calibrated."
    )
    in_training: bool = Field(
        description="Whether a caption that the model has learned from has the same words."
    )


class Description(Answer):
    """Captions written for a picture, the best first."""

    captions: list[WrittenCaption]
