"""Questions that only an order can answer, and their answers, with all bounds.

What has all of these? What do they share? What is like this one, with something exchanged? Does one
thing follow from another?
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from service.schemas import (
    Answer,
    CaptionAnswer,
    CaptionHit,
    CaptionText,
    ImageAnswer,
    ImageHit,
    ImageId,
    PictureFile,
    Probability,
    Request,
    SearchOptions,
)

PARTS_MAXIMUM = 16
PAIRS_MAXIMUM = 64

# A caption, the id of an image of the collection, or the bytes of a picture, which JSON has not.
Part: TypeAlias = str | int | bytes


def _of_one_kind(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Say of a part at fault what is wrong with it as what it is, not as all that it could be."""
    try:
        return read(given)
    except ValidationError as error:
        as_caption, as_id = (str(row["msg"]) for row in error.errors())
    said = {str: as_caption, int: as_id}
    reason = said.get(type(given), "this is neither a caption nor the id of an image")
    raise PydanticCustomError("part", "{reason}", {"reason": reason})


JsonPart = Annotated[CaptionText | ImageId, WrapValidator(_of_one_kind)]
Parts = Annotated[list[JsonPart], Field(min_length=1, max_length=PARTS_MAXIMUM)]

_PART = "A text is a caption, a number the id of an image of the collection."

# In a form the parts beside the picture are captions, each a field of its own.
Captions = Annotated[list[CaptionText], Field(max_length=PARTS_MAXIMUM - 1)]


class AllOfQuery(SearchOptions):
    """Of which images is every part true? An image as a part: which have all that it has?"""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"all_of": ["a dog", "a beach", "a sunny day"], "k": 10}]}
    )

    all_of: Parts = Field(description=f"The parts. {_PART}")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [*self.all_of]


class AllOfForm(SearchOptions):
    """Which images have all that a picture has, and more? The fields of a multipart form."""

    image: PictureFile
    all_of: Captions = Field(default=[], description="Other parts; the field may be repeated.")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [self.image, *self.all_of]


class CommonQuery(SearchOptions):
    """Which captions are true of every part? Of a caption, those are true that it entails."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"common": ["a poodle", "a cat"]}]})

    common: Parts = Field(description=f"The parts. {_PART}")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [*self.common]


class CommonForm(SearchOptions):
    """Which captions are true of a picture and of more? The fields of a multipart form."""

    image: PictureFile
    common: Captions = Field(default=[], description="Other parts; the field may be repeated.")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [self.image, *self.common]


class LikeQuery(SearchOptions):
    """Which images are like this one, with something else in the place of something?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"like": "a dog on a beach", "plus": ["a cat"], "minus": ["a dog"], "k": 10}
            ]
        }
    )

    like: JsonPart = Field(description=f"What to start from. {_PART} Not among the hits itself.")
    plus: Parts = Field(description=f"What to put in. {_PART}")
    minus: list[JsonPart] = Field(
        default=[], max_length=PARTS_MAXIMUM, description=f"What to take out. {_PART}"
    )

    @property
    def start(self) -> Part:
        """What to start from."""
        return self.like

    @model_validator(mode="before")
    @classmethod
    def _minus_needs_plus(cls, given: Any) -> Any:
        if isinstance(given, dict) and "minus" in given and "plus" not in given:
            raise PydanticCustomError(
                "no_plus", "minus needs plus: say what takes the place of what you take out"
            )
        return given


class LikeForm(SearchOptions):
    """Which images are like this picture, but? The fields of a multipart form."""

    image: PictureFile
    plus: list[CaptionText] = Field(
        min_length=1, max_length=PARTS_MAXIMUM, description="What to put in; may be repeated."
    )
    minus: list[CaptionText] = Field(
        default=[], max_length=PARTS_MAXIMUM, description="What to take out; may be repeated."
    )

    @property
    def start(self) -> Part:
        """What to start from."""
        return self.image


class JointImageHit(ImageHit):
    """An image, and by how much it falls short of the part that it fits worst."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


class JointCaptionHit(CaptionHit):
    """A caption, and by how much the part that it fits worst falls short of it."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


class AllOfAnswer(ImageAnswer):
    """Images by ascending violation of their worst part, ties by id."""

    hits: list[JointImageHit]  # type: ignore[assignment]


class CommonAnswer(CaptionAnswer):
    """Captions by ascending violation of their worst part, ties by id."""

    hits: list[JointCaptionHit]  # type: ignore[assignment]
    unknown_words: list[str] = Field(description="Words of the parts the model never learned.")


class Pair(Request):
    """Does the hypothesis follow from the premise?"""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"premise": "a poodle runs on a beach", "hypothesis": "an animal"}]
        }
    )

    premise: JsonPart = Field(description=f"What is given. {_PART}")
    hypothesis: CaptionText = Field(description="The caption that may be true of it.")

    def pair(self) -> tuple[Part, str]:
        """Return premise and hypothesis."""
        return self.premise, self.hypothesis


class PairsQuery(Request):
    """Several premises, each with a hypothesis."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "pairs": [
                        {"premise": "a poodle runs on a beach", "hypothesis": "an animal"},
                        {"premise": "an animal", "hypothesis": "a poodle"},
                    ]
                }
            ]
        }
    )

    pairs: list[Pair] = Field(min_length=1, max_length=PAIRS_MAXIMUM)


class PictureClaim(Request):
    """Is this caption true of this picture? The fields of a multipart form."""

    image: PictureFile
    hypothesis: CaptionText = Field(description="The caption that may be true of the picture.")

    def pair(self) -> tuple[Part, str]:
        """Return premise and hypothesis."""
        return self.image, self.hypothesis


class Entailment(Answer):
    """Whether a hypothesis follows from a premise, as the model sees it."""

    violation: float = Field(description="By how much the premise falls short; 0: it follows.")
    probability: Probability
    entailed: bool | None = Field(
        description=(
            "Whether the violation is within the threshold; null where there is none, and where "
            "the model knows no word of a caption."
        )
    )
    threshold: float | None = Field(
        description="The violation below which the model's calibration calls a pair true."
    )
    unknown_words: list[str] = Field(description="Words of the pair the model never learned.")
    model: str


class Entailments(Answer):
    """An answer for each pair, in their order."""

    answers: list[Entailment]


class DiagramNode(Answer):
    """Captions that say the same, or the image that was asked about."""

    captions: list[str]
    image_id: int | None
    place: str = Field(description="focus, above, below or beside what was asked about.")
    depth: int = Field(ge=0, description="Longest way down from the top.")


class DiagramEdge(Answer):
    """One node right above another, as positions in `nodes`."""

    lower: int = Field(ge=0)
    upper: int = Field(ge=0)


class Diagram(Answer):
    """What lies around a caption or an image in the order, without what follows from the rest."""

    nodes: list[DiagramNode]
    edges: list[DiagramEdge]
    model: str
    unknown_words: list[str] = Field(description="Words of the caption the model never learned.")


# Read by us and not by FastAPI, which therefore has to be told of them.
REQUESTS = (
    AllOfQuery,
    AllOfForm,
    CommonQuery,
    CommonForm,
    LikeQuery,
    LikeForm,
    Pair,
    PairsQuery,
    PictureClaim,
)
