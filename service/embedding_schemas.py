"""Schemas of embeddings that are given to other programs."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from hasse.service.schemas import Answer, CaptionText, PictureFile, Request

TEXTS_MAXIMUM = 256  # bounds the size of the answer: about 3 MB


class TextsToEmbed(Request):
    """Return the embeddings of texts."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"texts": ["a dog runs on the beach", "an animal"]}]}
    )

    texts: list[CaptionText] = Field(
        min_length=1, max_length=TEXTS_MAXIMUM, description="They are answered in this order."
    )


class PictureToEmbed(Request):
    """Return the embedding of a picture. The fields of a multipart form."""

    image: PictureFile


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


REQUESTS = (TextsToEmbed, PictureToEmbed)
