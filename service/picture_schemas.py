"""Schemas of searches by a picture: the captions that are true of it, the images like it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.schemas import PictureFile, SearchOptions

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


class PictureQuery(SearchOptions):
    """Find the captions that are true of a picture. The fields of a multipart form."""

    image: PictureFile
