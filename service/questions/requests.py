"""Requests: one model for each question, for JSON, forms, the command line and Python.

A client sends a picture as the file of a form, in place of one field: see
`hasse.service.questions.table`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from hasse.service.schemas import CAPTION_PATTERN, CaptionText, ImageId, Instant, Near, Request

K_MAXIMUM = 1000
REACH_MAXIMUM = 10_000  # last rank of a page of hits: bounds the cost of a page
OFFSET_MAXIMUM = 10_000_000  # of pictures without a question
SORTED_MAXIMUM = 100  # hits without a probability that are sorted otherwise than by rank
CANDIDATES_MAXIMUM = 1_000_000
IMAGE_IDS_MAXIMUM = 1000
BATCH_MAXIMUM = 32
BATCH_K_MAXIMUM = 100  # hits for each caption: bounds the size of the answer
PARTS_MAXIMUM = 16
PAIRS_MAXIMUM = 64
TEXTS_MAXIMUM = 256  # bounds the size of the answer: about 3 MB
DESCRIBE_K_MAXIMUM = 100

Mode = Literal["certified", "exact", "fast"]
Versions = Literal["one", "all"]
Sort = Literal["best", "newest", "oldest", "added", "rating", "folder"]
Evidence = Literal["any", "shows", "says"]
Likeness = Literal["alike", "more_specific", "more_general"]

# A caption, the id of an image of the collection, or the bytes of a picture.
Part: TypeAlias = str | int | bytes


def _one_of(*types: type, otherwise: str = "") -> WrapValidator:
    """Report only the error for the type that the value has, not those for the other types."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            messages = [str(row["msg"]) for row in error.errors()]
        reasons = dict(zip(types, messages, strict=False))
        reason = reasons.get(type(value), otherwise or messages[0])
        raise PydanticCustomError("one_of", "{reason}", {"reason": reason})

    return WrapValidator(validate)


# An uploaded picture is bytes, which JSON cannot hold.
PartField = Annotated[
    CaptionText | ImageId | SkipJsonSchema[bytes],
    _one_of(str, int, otherwise="this is neither a caption nor the id of an image"),
]
Parts = Annotated[list[PartField], Field(min_length=1, max_length=PARTS_MAXIMUM)]
OptionalParts = Annotated[list[PartField], Field(max_length=PARTS_MAXIMUM)]
Picture = Annotated[ImageId | SkipJsonSchema[bytes], _one_of(int)]
TextOrPicture = Annotated[CaptionText | SkipJsonSchema[bytes], _one_of(str)]

PART_HELP = "A text is a caption, a number the id of an image of the collection."


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class QuestionRequest(Request):
    """Base of all requests. `parts` names the fields with captions and pictures to encode."""

    parts: ClassVar[tuple[str, ...]] = ()
    needs_known_words: ClassVar[bool] = True  # whether the model must know a word of each caption


class SearchOptions(QuestionRequest):
    """Options of every search."""

    k: int = Field(default=10, ge=1, le=K_MAXIMUM, description="Maximum number of hits.")
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
        description="Number of candidates from the prefilter; null lets the index decide.",
    )
    max_violation: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Leave out hits with a greater violation; null is no limit.",
    )
    offset: int = Field(
        default=0,
        ge=0,
        le=OFFSET_MAXIMUM,
        description=(
            f"Number of best hits to skip. Pages end at hit {REACH_MAXIMUM:,}; only those without "
            "a caption go on."
        ),
    )
    split: str | None = Field(
        default=None,
        pattern=r"^[^\u0000]*$",
        description="Search only images of this split, and their captions.",
    )
    image_ids: list[ImageId] | None = Field(
        default=None,
        max_length=IMAGE_IDS_MAXIMUM,
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
            "Search only pictures taken at this time or later, by the clock of the place; a time "
            "zone is ignored."
        ),
    )
    taken_before: Instant | None = Field(
        default=None, description="Search only pictures taken before this time."
    )
    path_prefix: str | None = Field(
        default=None,
        pattern=r"^[^\u0000]*$",
        description=(
            "Search only images with a path, as in `paths`, that begins with this text; end it "
            "with / for a folder."
        ),
    )

    camera: str | None = Field(
        default=None,
        max_length=200,
        pattern=r"^[^\u0000]*$",
        description="Search only pictures of cameras with this in the name.",
    )
    rating: int | None = Field(
        default=None,
        ge=0,
        le=5,
        description="Search only pictures with at least this number of stars.",
    )
    near: Near | None = Field(
        default=None,
        description=(
            "Search only pictures taken near a place: latitude, longitude and kilometres, as in "
            "52.52,13.40,5."
        ),
    )
    has_place: bool | None = Field(
        default=None, description="Search only pictures with a known place, or only those without."
    )
    has_captions: bool | None = Field(
        default=None, description="Search only pictures with human captions, or only those without."
    )


class DistinctOptions(SearchOptions):
    """Options of a search for captions."""

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
            "Whether to search generated captions too; null searches them only if the collection "
            "has no human captions."
        ),
    )


class ImageOptions(SearchOptions):
    """Options of a search for images."""

    versions: Versions = Field(
        default="one",
        description=(
            "one: versions of one picture (other sizes, formats, compression, rotations) that "
            "'hasse duplicates' found are one hit, the largest; `versions` lists the others. all: "
            "each is a hit."
        ),
    )


class SortedOptions(ImageOptions):
    """Options of a search for images that can be sorted."""

    sort: Sort = Field(
        default="best",
        description=(
            "By fit (best), date taken (newest, oldest), date added (added), stars (rating) or "
            "folder. All but best leave out what does not fit."
        ),
    )


class ImageQuery(SortedOptions):
    """Find the images that a caption is true of, or whose texts contain its words.

    Quotation marks require an exact text. -word and "without ..." leave out images that show it or
    whose texts contain it. Without a caption, all selected images are hits, the newest first.
    """

    model_config = _example(caption="a dog runs on the beach", k=10, mode="certified")
    parts = ("caption",)
    needs_known_words = False

    caption: str = Field(
        default="",
        description="What should be true of the images; empty selects all.",
        json_schema_extra={"pattern": rf"^({CAPTION_PATTERN[1:-1]})?$"},
    )
    evidence: Evidence = Field(
        default="any",
        description=(
            "shows: search the content of pictures. says: search captions, names, metadata and "
            "text in pictures. any: search both; hits with all words in their texts come first."
        ),
    )


class ImagesQuery(ImageOptions):
    """Find the images that each of several captions is true of."""

    model_config = _example(captions=["a dog runs on the beach", "an animal"], k=3)
    parts = ("captions",)

    captions: list[CaptionText] = Field(
        min_length=1, max_length=BATCH_MAXIMUM, description="The answers have the same order."
    )
    k: int = Field(
        default=10, ge=1, le=BATCH_K_MAXIMUM, description="Maximum number of hits for each caption."
    )


class SimilarQuery(SortedOptions):
    """Find images like a picture."""

    parts = ("image",)

    image: Picture
    similar: Likeness = Field(
        default="alike",
        description=(
            "alike: images at the smallest distance. more_specific: images that show everything in "
            "the picture, and more. more_general: images that show only a part of it."
        ),
    )


class CaptionQuery(DistinctOptions):
    """Find the captions that are true of a picture."""

    parts = ("image",)

    image: Picture


class AllOfQuery(SortedOptions):
    """Find images that every part is true of. An image as a part means everything it shows."""

    model_config = _example(all_of=["a dog", "a beach", "a sunny day"], k=10)
    parts = ("all_of",)

    all_of: Parts = Field(description=f"The parts. {PART_HELP}")


class CommonQuery(DistinctOptions):
    """Find captions that are true of every part. Of a caption, those are true that it implies."""

    model_config = _example(common=["a poodle", "a cat"])
    parts = ("common",)

    common: Parts = Field(description=f"The parts. {PART_HELP}")


class LikeQuery(SortedOptions):
    """Find images like one or several, with something added or removed."""

    model_config = _example(like="a dog on a beach", plus=["a cat"], minus=["a dog"], k=10)
    parts = ("like", "also", "less", "plus", "minus")

    like: PartField = Field(description=f"Where to start. {PART_HELP} It is not among the hits.")
    also: OptionalParts = Field(
        default=[],
        description=f"More examples of hits; a repeated example counts twice. {PART_HELP}",
    )
    less: OptionalParts = Field(
        default=[], description=f"Counterexamples of hits; a repeated one counts twice. {PART_HELP}"
    )
    plus: OptionalParts = Field(default=[], description=f"What to add. {PART_HELP}")
    minus: OptionalParts = Field(default=[], description=f"What to remove. {PART_HELP}")

    @property
    def similar(self) -> Likeness | None:
        """The comparison of hits: by distance, or by the order if something is added."""
        return None if self.plus else "alike"


class PairQuery(QuestionRequest):
    """A premise, and a hypothesis that may follow from it."""

    model_config = _example(premise="a poodle runs on a beach", hypothesis="an animal")
    parts = ("premise", "hypothesis")
    needs_known_words = False

    premise: PartField = Field(description=f"The premise. {PART_HELP}")
    hypothesis: CaptionText = Field(description="The caption that may follow from it.")


class EntailsQuery(PairQuery):
    """Judge whether a hypothesis follows from a premise."""

    where: bool = Field(
        default=False, description="Whether to return boxes of the things that the caption names."
    )


class PairsQuery(QuestionRequest):
    """Several premises, each with a hypothesis."""

    model_config = _example(
        pairs=[
            {"premise": "a poodle runs on a beach", "hypothesis": "an animal"},
            {"premise": "an animal", "hypothesis": "a poodle"},
        ]
    )
    parts = ("pairs",)
    needs_known_words = False

    pairs: list[PairQuery] = Field(min_length=1, max_length=PAIRS_MAXIMUM)


class DiagramQuery(QuestionRequest):
    """Draw the Hasse diagram of a caption, or of an image of the collection."""

    parts = ("middle",)

    middle: PartField = Field(description=f"The middle of the diagram. {PART_HELP}")


class DescribeQuery(QuestionRequest):
    """Describe an image of the collection, or a picture."""

    parts = ("image_id",)

    image_id: Picture
    k: int = Field(
        default=5, ge=1, le=DESCRIBE_K_MAXIMUM, description="Maximum number of captions."
    )


class EmbedQuery(QuestionRequest):
    """Return the embeddings of texts, or of a picture."""

    model_config = _example(texts=["a dog runs on the beach", "an animal"])
    parts = ("texts",)
    needs_known_words = False

    texts: list[TextOrPicture] = Field(
        min_length=1, max_length=TEXTS_MAXIMUM, description="The answers have the same order."
    )
