"""Answers: one model for each question, and the hits in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from hasse.service.questions.requests import ImageQuery, Mode
from hasse.service.schemas import Answer, WrittenBy

Probability = Annotated[
    float | None,
    Field(
        description=(
            "How often a pair of this violation is true, measured when the model was trained on "
            "pairs that it had not learned from; null for a model without calibration, and where "
            "it knows no word of a caption."
        ),
    ),
]


class PictureVersion(Answer):
    """Another version of a picture: of another size, format, compression or rotation."""

    image_id: int
    path: str = Field(description="Where its file lies.")


class Shows(Answer):
    """What the order tells of a picture and a caption: 0 means that the caption is true of it."""

    violation: float
    probability: Probability


class Says(Answer):
    """A text that says words of the query."""

    where: str = Field(
        description=(
            "caption, title, keyword, added keyword, description, file name, text in the picture, "
            "place, camera, folder or written caption."
        )
    )
    text: str = Field(description="The text, or the part of a long one around the words.")


class ImageHit(Answer):
    """An image, with what it shows and what it says of the query."""

    rank: int = Field(ge=1)
    image_id: int
    file_name: str
    path: str = Field(description="Where its file lies, relative to the folder that is followed.")
    paths: list[str] = Field(description="All its files: copies of one picture are one image.")
    width: int | None = Field(description="Its pixels as it is displayed; null if not known.")
    height: int | None
    violation: float | None = Field(
        description="0 means that the caption is true of it; null without a word the model knows."
    )
    probability: Probability
    shows: Shows | None = Field(
        description=(
            "The violation and the probability of the caption; null where it was not searched by "
            "what pictures show."
        )
    )
    says: list[Says] = Field(
        description=(
            "Texts that say the words of the query, for a hit that was found by them; empty "
            "where no text was searched."
        )
    )
    captions: list[str] = Field(description="The image's human captions.")
    written_captions: list[str] = Field(
        description="Generated captions, for an image without human captions."
    )
    versions: list[PictureVersion] = Field(
        description="Smaller versions of the picture, the largest first; empty with `versions=all`."
    )
    image_url: str
    thumbnail_url: str


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


class JointImageHit(ImageHit):
    """An image with the violation of the part that fits it worst."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


class JointCaptionHit(CaptionHit):
    """A caption with the violation of the part that it fits worst."""

    parts: list[float] = Field(description="The violation of each part, in the order given.")


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
    certified: bool = Field(
        description=(
            "Whether what the order found is proved to be the exact top k. Of hits by text alone "
            "nothing has to be proved."
        )
    )
    searched: int = Field(ge=0, description="Rows the search ran over: those selected.")
    rescored: int = Field(ge=0, description="Rows whose exact violation was computed.")
    plan: str = Field(description="How many segments were searched which way.")
    work: Work = Field(description="How many rows each stage of the search read.")
    model: str
    generation: int = Field(ge=0, description="The state of the collection that was searched.")


class ImageAnswer(SearchFacts):
    """Images, the best first: those that say the words, then by ascending violation and id."""

    hits: list[ImageHit]
    unknown_words: list[str] = Field(
        description="Words of the caption the model never learned, and no text that was searched."
    )
    did_you_mean: str | None = Field(
        description="The caption with words that texts say, for words that none says."
    )


class SavedSearch(Answer):
    """A search that is kept by its name, as it is answered now."""

    name: str
    search: ImageQuery
    looked: str = Field(
        description="When somebody last looked at what it finds.",
        json_schema_extra={"format": "date-time"},
    )
    count: int = Field(
        ge=0,
        description=(
            "Images that say it, show it or may show it, at most as many as an answer may have; "
            "0 where the model cannot answer it."
        ),
    )
    new: int = Field(ge=0, description="Of these, how many it did not find then.")


class SavedSearches(Answer):
    """All searches that are kept, in order of their names."""

    searches: list[SavedSearch]


class SavedAnswer(SavedSearch):
    """A search that is kept, with its hits."""

    new_image_ids: list[int] = Field(description="The images that are new, the best first.")
    answer: ImageAnswer


class ImageAnswers(Answer):
    """One answer for each caption, in their order, all over one generation."""

    answers: list[ImageAnswer]


class CaptionAnswer(SearchFacts):
    """Captions, the best first."""

    hits: list[CaptionHit]


class AllOfAnswer(ImageAnswer):
    """Images by ascending violation of their worst part, ties by id."""

    hits: list[JointImageHit]  # type: ignore[assignment]


class CommonAnswer(CaptionAnswer):
    """Captions by ascending violation of their worst part, ties by id."""

    hits: list[JointCaptionHit]  # type: ignore[assignment]
    unknown_words: list[str] = Field(description="Words of the parts the model never learned.")


class Place(Answer):
    """Where in a picture something is: a box, as shares of the picture's width and height."""

    text: str = Field(description="The words of the caption that name it.")
    left: float = Field(ge=0, le=1)
    top: float = Field(ge=0, le=1)
    right: float = Field(ge=0, le=1)
    bottom: float = Field(ge=0, le=1)


class Entailment(Answer):
    """Whether a hypothesis follows from a premise, according to the model."""

    violation: float = Field(description="By how much the premise falls short; 0: it follows.")
    probability: Probability
    entailed: bool | None = Field(
        description=(
            "Whether it is true more often than not: a probability of 0.5 or more; null where "
            "there is none."
        )
    )
    unknown_words: list[str] = Field(description="Words of the pair the model never learned.")
    where: list[Place] | None = Field(
        description=(
            "Where the named things are that the model can point at; empty where the caption is "
            "not true of the picture, or the premise is a text; null where it was not asked."
        )
    )
    model: str


class Entailments(Answer):
    """An answer for each pair, in their order."""

    answers: list[Entailment]


class DiagramNode(Answer):
    """Captions with the same meaning, or the image in the middle."""

    captions: list[str]
    image_id: int | None
    place: str = Field(description="focus, above, below or beside the middle.")
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


class Embedding(Answer):
    """The embedding of a text or of a picture."""

    embedding: list[float]
    known: bool = Field(
        description=(
            "Whether the model knows a word of the text. If not, the embedding is that of every "
            "text of unknown words and says nothing. Always true of a picture."
        )
    )
    unknown_words: list[str] = Field(description="Words of the text that the model never learned.")


class Embeddings(Answer):
    """Embeddings in the order of the texts, and what made them."""

    embeddings: list[Embedding]
    score: str = Field(
        description=(
            "How embeddings are compared. order: the squared length of max(0, text - picture) is 0 "
            "when the text is true. order-reversed: of max(0, picture - text). cosine: their "
            "product."
        )
    )
    dimension: int
    model: str
    fingerprint: str = Field(description="Only embeddings of one fingerprint can be compared.")
