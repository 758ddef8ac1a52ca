"""Schemas of searches by a picture: the captions that are true of it, the images like it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.schemas import PictureFile, SearchOptions

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
