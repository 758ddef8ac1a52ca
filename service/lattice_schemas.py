"""Schemas of the searches that need an order: all of, common, like, entailment, diagram."""

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

from hasse.service.picture_schemas import CaptionAnswer, CaptionHit, DistinctOptions
from hasse.service.schemas import (
    Answer,
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

# A caption, the id of an image of the collection, or the bytes of a picture (in forms only).
Part: TypeAlias = str | int | bytes


def _of_one_kind(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Report what is wrong with a part as the type it has, not as both types it could have."""
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

# In a form, the parts beside the picture are captions, one field each.
Captions = Annotated[list[CaptionText], Field(max_length=PARTS_MAXIMUM - 1)]


class AllOfQuery(SearchOptions):
    """Find images that every part is true of. An image as a part stands for all that it shows."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"all_of": ["a dog", "a beach", "a sunny day"], "k": 10}]}
    )

    all_of: Parts = Field(description=f"The parts. {_PART}")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [*self.all_of]


class AllOfForm(SearchOptions):
    """Find images that have all that a picture has, and more. The fields of a multipart form."""

    image: PictureFile
    all_of: Captions = Field(default=[], description="Other parts; the field may be repeated.")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [self.image, *self.all_of]


class CommonQuery(DistinctOptions):
    """Find captions that are true of every part; of a caption, those that follow from it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"common": ["a poodle", "a cat"]}]})

    common: Parts = Field(description=f"The parts. {_PART}")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [*self.common]


class CommonForm(DistinctOptions):
    """Find captions that are true of a picture and of more. The fields of a multipart form."""

    image: PictureFile
    common: Captions = Field(default=[], description="Other parts; the field may be repeated.")

    def parts(self) -> list[Part]:
        """Return the parts in their order."""
        return [self.image, *self.common]


class LikeQuery(SearchOptions):
    """Find images like one, with something exchanged."""

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
    """Find images like a picture, with something exchanged. The fields of a multipart form."""

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
    """An image with the violation of the part that fits it worst."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


class JointCaptionHit(CaptionHit):
    """A caption with the violation of the part that it fits worst."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


class AllOfAnswer(ImageAnswer):
    """Images by ascending violation of their worst part, ties by id."""

    hits: list[JointImageHit]  # type: ignore[assignment]


class CommonAnswer(CaptionAnswer):
    """Captions by ascending violation of their worst part, ties by id."""

    hits: list[JointCaptionHit]  # type: ignore[assignment]
    unknown_words: list[str] = Field(description="Words of the parts the model never learned.")


class Pair(Request):
    """Ask whether a hypothesis follows from a premise."""

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
    """Ask whether a caption is true of a picture. The fields of a multipart form."""

    image: PictureFile
    hypothesis: CaptionText = Field(description="The caption that may be true of the picture.")

    def pair(self) -> tuple[Part, str]:
        """Return premise and hypothesis."""
        return self.image, self.hypothesis


class Entailment(Answer):
    """Whether a hypothesis follows from a premise, according to the model."""

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
    """A node directly above another one, as positions in `nodes`."""

    lower: int = Field(ge=0)
    upper: int = Field(ge=0)


class Diagram(Answer):
    """The Hasse diagram around a caption or an image: edges that others imply are left out."""

    nodes: list[DiagramNode]
    edges: list[DiagramEdge]
    model: str
    unknown_words: list[str] = Field(description="Words of the caption the model never learned.")


# `bodies` reads these, and not FastAPI: the OpenAPI document has to be told of them.
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
