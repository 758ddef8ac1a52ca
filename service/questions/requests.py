"""Requests: one model for each question, read from JSON, forms, the command line and programs.

A client sends a picture as the file of a form. It takes the place of one field: see
`hasse.service.questions.table`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from hasse.models.captioning import DRAWS
from hasse.service.schemas import CaptionText, ImageId, Instant, Near, Request

K_MAXIMUM = 1000
REACH_MAXIMUM = 10_000  # hits that pages of an answer can reach, which bounds what one costs
CANDIDATES_MAXIMUM = 1_000_000
SELECTED_MAXIMUM = 1000
TOGETHER_MAXIMUM = 32
TOGETHER_K_MAXIMUM = 100  # hits for each caption, which bounds the size of the answer
PARTS_MAXIMUM = 16
PAIRS_MAXIMUM = 64
TEXTS_MAXIMUM = 256  # bounds the size of the answer: about 3 MB
DRAWS_MAXIMUM = 1000
WRITTEN_MAXIMUM = 100

Mode = Literal["certified", "exact", "fast"]
Versions = Literal["one", "all"]
Evidence = Literal["any", "shows", "says"]
Likeness = Literal["alike", "more_specific", "more_general"]

# A caption, the id of an image of the collection, or the bytes of a picture.
Part: TypeAlias = str | int | bytes


def _one_of(*types: type, otherwise: str = "") -> WrapValidator:
    """Report what is wrong with a value as the type it has, not as all types it could have."""

    def read_one(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(given)
        except ValidationError as error:
            messages = [str(row["msg"]) for row in error.errors()]
        reasons = dict(zip(types, messages, strict=False))
        reason = reasons.get(type(given), otherwise or messages[0])
        raise PydanticCustomError("one_of", "{reason}", {"reason": reason})

    return WrapValidator(read_one)


# A picture that was sent is bytes, which JSON cannot hold.
AnyPart = Annotated[
    CaptionText | ImageId | SkipJsonSchema[bytes],
    _one_of(str, int, otherwise="this is neither a caption nor the id of an image"),
]
Parts = Annotated[list[AnyPart], Field(min_length=1, max_length=PARTS_MAXIMUM)]
SomeParts = Annotated[list[AnyPart], Field(max_length=PARTS_MAXIMUM)]
Picture = Annotated[ImageId | SkipJsonSchema[bytes], _one_of(int)]
TextOrPicture = Annotated[CaptionText | SkipJsonSchema[bytes], _one_of(str)]

A_PART = "A text is a caption, a number the id of an image of the collection."


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class QuestionRequest(Request):
    """What a question asks. `parts` names the fields that hold what is encoded."""

    parts: ClassVar[tuple[str, ...]] = ()
    needs_known_words: ClassVar[bool] = True  # whether the model must know a word of each caption


class SearchOptions(QuestionRequest):
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
        le=REACH_MAXIMUM - 1,
        description=f"Skip so many of the best; at most the best {REACH_MAXIMUM:,} can be reached.",
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
            "Search only pictures taken at this time or later, by the clock on the wall there: the "
            "date in the picture, or else that of its file. The zone given here is ignored."
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

    camera: str | None = Field(
        default=None,
        max_length=200,
        pattern=r"^[^\u0000]*$",
        description="Search only pictures taken with a camera whose name has this in it.",
    )
    rating: int | None = Field(
        default=None,
        ge=0,
        le=5,
        description="Search only pictures rated with so many stars or more.",
    )
    near: Near | None = Field(
        default=None,
        description=(
            "Search only pictures taken near a place: its latitude, longitude and a distance in "
            "kilometres, as in 52.52,13.40,5."
        ),
    )
    has_place: bool | None = Field(
        default=None, description="Search only pictures whose place is known, or only the others."
    )
    has_captions: bool | None = Field(
        default=None,
        description="Search only pictures with captions of people, or only the others.",
    )


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
            "Whether generated captions are searched too; null searches them only where the "
            "collection has no human captions."
        ),
    )


class ImageOptions(SearchOptions):
    """How to search for images."""

    versions: Versions = Field(
        default="one",
        description=(
            "one: versions of one picture (other sizes, formats, compression, rotations) that "
            "'hasse duplicates' found are one hit, the largest; `versions` lists the others. all: "
            "each is a hit."
        ),
    )


class ImageQuery(ImageOptions):
    """Find the images that a caption is true of, or that say it.

    Quotation marks ask for a text as it stands. -word and "without ..." leave out what says it, and
    what surely shows it.
    """

    model_config = _example(caption="a dog runs on the beach", k=10, mode="certified")
    parts = ("caption",)
    needs_known_words = False

    caption: CaptionText
    evidence: Evidence = Field(
        default="any",
        description=(
            "shows: search by what pictures show. says: by captions, names, metadata and text in "
            "pictures. any: by both; hits that say all words come first."
        ),
    )


class ImagesQuery(ImageOptions):
    """Find the images that each of several captions is true of."""

    model_config = _example(captions=["a dog runs on the beach", "an animal"], k=3)
    parts = ("captions",)

    captions: list[CaptionText] = Field(
        min_length=1, max_length=TOGETHER_MAXIMUM, description="They are answered in this order."
    )
    k: int = Field(
        default=10, ge=1, le=TOGETHER_K_MAXIMUM, description="Most hits wanted for each caption."
    )


class SimilarQuery(ImageOptions):
    """Find images like a picture."""

    parts = ("image",)

    image: Picture
    similar: Likeness = Field(
        default="alike",
        description=(
            "alike: at the least distance. more_specific: what shows all that the picture shows, "
            "and more. more_general: what shows nothing else, and less."
        ),
    )


class CaptionQuery(DistinctOptions):
    """Find the captions that are true of a picture."""

    parts = ("image",)

    image: Picture


class AllOfQuery(ImageOptions):
    """Find images that every part is true of. An image as a part stands for all that it shows."""

    model_config = _example(all_of=["a dog", "a beach", "a sunny day"], k=10)
    parts = ("all_of",)

    all_of: Parts = Field(description=f"The parts. {A_PART}")


class CommonQuery(DistinctOptions):
    """Find captions that are true of every part; of a caption, those that follow from it."""

    model_config = _example(common=["a poodle", "a cat"])
    parts = ("common",)

    common: Parts = Field(description=f"The parts. {A_PART}")


class LikeQuery(ImageOptions):
    """Find images like one or several, with something put in or taken out."""

    model_config = _example(like="a dog on a beach", plus=["a cat"], minus=["a dog"], k=10)
    parts = ("like", "also", "less", "plus", "minus")

    like: AnyPart = Field(description=f"What to start from. {A_PART} Not among the hits itself.")
    also: SomeParts = Field(
        default=[],
        description=f"What hits should be like too; named twice, it counts twice. {A_PART}",
    )
    less: SomeParts = Field(
        default=[], description=f"What hits should be less like; it counts likewise. {A_PART}"
    )
    plus: SomeParts = Field(default=[], description=f"What to put in. {A_PART}")
    minus: SomeParts = Field(default=[], description=f"What to take out. {A_PART}")

    @property
    def similar(self) -> Likeness | None:
        """How hits are compared; where something is put in, they have to have it all."""
        return None if self.plus else "alike"


class PairQuery(QuestionRequest):
    """A premise, and a hypothesis that may follow from it."""

    model_config = _example(premise="a poodle runs on a beach", hypothesis="an animal")
    parts = ("premise", "hypothesis")
    needs_known_words = False

    premise: AnyPart = Field(description=f"What is given. {A_PART}")
    hypothesis: CaptionText = Field(description="The caption that may be true of it.")


class EntailsQuery(PairQuery):
    """Tell whether a hypothesis follows from a premise."""

    where: bool = Field(
        default=False,
        description="Whether to say where in the picture the things are that the caption names.",
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
    """Draw the Hasse diagram around a caption, or around an image of the collection."""

    parts = ("middle",)

    middle: AnyPart = Field(description=f"What is in the middle. {A_PART}")


class DescribeQuery(QuestionRequest):
    """Describe an image of the collection, or a picture."""

    parts = ("image_id",)

    image_id: Picture
    k: int = Field(default=5, ge=1, le=WRITTEN_MAXIMUM, description="Most captions wanted.")
    draws: int = Field(
        default=DRAWS,
        ge=1,
        le=DRAWS_MAXIMUM,
        description="Texts that are drawn, of which the best are returned; more take longer.",
    )


class EmbedQuery(QuestionRequest):
    """Return the embeddings of texts, or of a picture."""

    model_config = _example(texts=["a dog runs on the beach", "an animal"])
    parts = ("texts",)
    needs_known_words = False

    texts: list[TextOrPicture] = Field(
        min_length=1, max_length=TEXTS_MAXIMUM, description="They are answered in this order."
    )
