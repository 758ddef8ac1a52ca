"""Answers: one model for each question, and models of hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from hasse.service.questions.requests import ImageQuery, Mode
from hasse.service.schemas import Answer, WrittenBy

Probability = Annotated[
    float | None,
    Field(
        description=(
            "The share of true pairs among pairs of this violation, measured after training on "
            "others; null for a model without calibration, or if it knows no word of a caption."
        )
    ),
]


class PictureVersion(Answer):
    """Another version of a picture, with another size, format, compression or rotation."""

    image_id: int
    path: str = Field(description="The path of its file.")


class Shows(Answer):
    """The judgement of the model on a picture and a caption: violation 0 means true."""

    violation: float
    probability: Probability


class Says(Answer):
    """A text of the image that contains words of the query."""

    where: str = Field(
        description=(
            "caption, title, keyword, added keyword, description, file name, text in the picture, "
            "place, camera, folder or written caption."
        )
    )
    text: str = Field(description="The text; of a long text the part around the words.")


class ImageHit(Answer):
    """An image, with the evidence for the query in its content and in its texts."""

    rank: int = Field(ge=1)
    image_id: int
    file_name: str
    path: str = Field(description="The path of its file, relative to the followed folder.")
    paths: list[str] = Field(description="All its files: copies of one picture are one image.")
    width: int | None = Field(description="Pixels of the displayed picture; null if not known.")
    height: int | None
    taken: str | None = Field(
        description=(
            "When it was taken, in local time of the place, as in 2026-11-20T09:00:00; null if not "
            "known."
        )
    )
    dated_by: Literal["picture", "file"] | None = Field(
        description="Where this date is from: the picture, or its file if the picture has none."
    )
    violation: float | None = Field(
        description="0: the caption is true of it. Null if the model knows no word of the caption."
    )
    probability: Probability
    shows: Shows | None = Field(
        description=(
            "The violation and the probability of the caption; null if the content of pictures was "
            "not searched."
        )
    )
    says: list[Says] = Field(
        description=(
            "Texts that contain words of the query; empty if the content alone makes it a hit, or "
            "no text was searched."
        )
    )
    may_show: list[str] = Field(
        description="What the caption leaves out and the picture may show all the same."
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
    """Another caption with the same text."""

    caption_id: int
    image_id: int


class CaptionHit(Answer):
    """A caption and its violation; 0: it is true of the picture."""

    rank: int = Field(ge=1)
    caption_id: int
    image_id: int
    path: str = Field(description="The path of the file of its image.")
    paths: list[str] = Field(description="All files of its image.")
    caption: str
    written_by: WrittenBy
    violation: float
    probability: Probability
    same: list[SameCaption] = Field(
        description="The first 100 other captions with the same text; empty without `distinct`."
    )


class JointImageHit(ImageHit):
    """An image; its violation is the largest of those of the parts."""

    parts: list[float] = Field(description="The violation of each part, in the same order.")


class JointCaptionHit(CaptionHit):
    """A caption; its violation is the largest of those of the parts."""

    parts: list[float] = Field(description="The violation of each part, in the same order.")


class Work(Answer):
    """The number of rows that each stage of a search read, and of bytes in total."""

    scanned: int = Field(description="Rows scored by scans of whole segments.")
    proposed: int = Field(description="Rows from the prefilter, all scored.")
    bounded: int = Field(description="Rows with a lower bound from 4 bits of some coordinates.")
    checked: int = Field(description="Of these, rows with a bound from 8 bits of every coordinate.")
    survivors: int = Field(description="Of these, rows that no bound excludes, all scored.")
    bytes: int = Field(description="Bytes of points and codes read.")


class SearchFacts(Answer):
    """Fields of the answers to all searches."""

    hits: Sequence[Any]
    mode: Mode
    certified: bool = Field(
        description=(
            "Whether the hits by content are proved to be the exact top k. Hits by text need no "
            "proof."
        )
    )
    searched: int = Field(ge=0, description="Number of selected rows.")
    rescored: int = Field(ge=0, description="Number of rows with an exact violation.")
    plan: str = Field(description="The number of segments for each way to search.")
    work: Work = Field(description="The number of rows that each stage read.")
    model: str
    generation: int = Field(ge=0, description="The state of the collection.")


class ImageAnswer(SearchFacts):
    """Images, the best first: those whose texts contain the words, then by violation and id."""

    hits: list[ImageHit]
    unknown_words: list[str] = Field(
        description="Words of the caption that neither the model nor a searched text knows."
    )
    did_you_mean: str | None = Field(
        description="The caption with words of texts in place of words that no text contains."
    )


class SavedSearch(Answer):
    """A saved search, with the number of its current hits."""

    name: str
    search: ImageQuery
    looked: str = Field(
        description="When a user last looked at its hits.",
        json_schema_extra={"format": "date-time"},
    )
    count: int = Field(
        ge=0,
        description=(
            "Number of images that show it, may show it or contain its words, up to the maximum of "
            "an answer; 0 if the model cannot answer it."
        ),
    )
    new: int = Field(ge=0, description="Number of hits since that time.")


class SavedSearches(Answer):
    """All saved searches, in order of their names."""

    searches: list[SavedSearch]


class SavedAnswer(SavedSearch):
    """A saved search with its hits."""

    new_image_ids: list[int] = Field(description="The new images, the best first.")
    answer: ImageAnswer


class ImageAnswers(Answer):
    """One answer for each caption, in the same order, all of one generation."""

    answers: list[ImageAnswer]


class CaptionAnswer(SearchFacts):
    """Captions, the best first."""

    hits: list[CaptionHit]


class AllOfAnswer(ImageAnswer):
    """Images in ascending order of the violation of their worst part, then of id."""

    hits: list[JointImageHit]  # type: ignore[assignment]


class CommonAnswer(CaptionAnswer):
    """Captions in ascending order of the violation of their worst part, then of id."""

    hits: list[JointCaptionHit]  # type: ignore[assignment]
    unknown_words: list[str] = Field(description="Words of the parts unknown to the model.")


class Place(Answer):
    """The box of a thing in a picture, as fractions of its width and height."""

    text: str = Field(description="The words of the caption for it.")
    left: float = Field(ge=0, le=1)
    top: float = Field(ge=0, le=1)
    right: float = Field(ge=0, le=1)
    bottom: float = Field(ge=0, le=1)


class Entailment(Answer):
    """Whether a hypothesis follows from a premise, according to the model."""

    violation: float = Field(description="How far the premise falls short; 0: it follows.")
    probability: Probability
    entailed: bool | None = Field(
        description=("Whether the probability is 0.5 or more; null without a probability.")
    )
    unknown_words: list[str] = Field(description="Words of the pair unknown to the model.")
    where: list[Place] | None = Field(
        description=(
            "Boxes of the things that the model can find; empty if the caption is not true of the "
            "picture, or the premise is a text; null without `where` in the request."
        )
    )
    model: str


class Entailments(Answer):
    """One answer for each pair, in the same order."""

    answers: list[Entailment]


class DiagramNode(Answer):
    """Captions with the same meaning, or the image in the middle."""

    captions: list[str]
    image_id: int | None
    place: str = Field(description="focus, above, below or beside the middle.")
    depth: int = Field(ge=0, description="Length of the longest path from the top.")


class DiagramEdge(Answer):
    """A node directly above another one, as positions in `nodes`."""

    lower: int = Field(ge=0)
    upper: int = Field(ge=0)


class Diagram(Answer):
    """The Hasse diagram of a caption or an image, without edges that other edges imply."""

    nodes: list[DiagramNode]
    edges: list[DiagramEdge]
    model: str
    unknown_words: list[str] = Field(description="Words of the caption unknown to the model.")


class WrittenCaption(Answer):
    """A generated caption."""

    text: str
    violation: float = Field(description="How far the picture falls short of it.")
    probability: float = Field(description="The probability that it is true of the picture.")


class Description(Answer):
    """Generated captions of a picture, the best first."""

    captions: list[WrittenCaption]


class Embedding(Answer):
    """The embedding of a text or of a picture."""

    embedding: list[float]
    known: bool = Field(
        description=(
            "Whether the model knows a word of the text. If not, the embedding means nothing: all "
            "texts of unknown words have the same one. Always true for a picture."
        )
    )
    unknown_words: list[str] = Field(description="Words of the text unknown to the model.")


class Embeddings(Answer):
    """Embeddings in the order of the texts, and their model."""

    embeddings: list[Embedding]
    score: str = Field(
        description=(
            "How to compare embeddings. order: the squared length of max(0, text - picture), 0 if "
            "the text is true. order-reversed: that of max(0, picture - text). cosine: their inner "
            "product."
        )
    )
    dimension: int
    model: str
    fingerprint: str = Field(description="Compare only embeddings of the same fingerprint.")
