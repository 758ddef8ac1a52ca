"""Makes the encoders of a model of some shape, with random weights."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from hasse.lab.encoders.image_encoder import ImageEncoder
from hasse.lab.encoders.registry import build_backbone
from hasse.lab.encoders.text_encoder import CaptionEncoder
from hasse.models.encoders.model_config import ModelConfig


@runtime_checkable
class StudiedShape(Protocol):
    """The shape of a study's model, which makes encoders of its own."""

    def caption_encoder(self, words: int, member: int) -> CaptionEncoder: ...
    def image_encoder(self) -> ImageEncoder | None: ...


def caption_encoder(config: ModelConfig, words: int, member: int) -> CaptionEncoder:
    """Make a member of the ensemble, for a number of words."""
    if isinstance(config, StudiedShape):
        return config.caption_encoder(words, member)
    return CaptionEncoder(
        words,
        config.word_dimension,
        config.dimension // config.ensemble,
        config.word_range,
        pooling=config.caption_pooling,
        signed=config.score == "cosine",
        length=config.length,
        backwards=config.reads_backwards(member),
    )


def image_encoder(config: ModelConfig) -> ImageEncoder | None:
    """Make the encoder of pictures; None if a model has none."""
    return config.image_encoder() if isinstance(config, StudiedShape) else of_backbone(config)


def of_backbone(config: ModelConfig) -> ImageEncoder:
    """Make an encoder of pictures of the backbone that a shape names."""
    return ImageEncoder(
        build_backbone(config.backbone),
        config.dimension,
        pooling=config.image_pooling,
        signed=config.score == "cosine",
    )
