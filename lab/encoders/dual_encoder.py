"""A pretrained encoder of pictures and one of texts with a common space, without training.

Their points are compared by the cosine, as in their training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from hasse.lab.encoders.libraries import open_clip
from hasse.lab.encoders.libraries.open_clip import EncoderPair
from hasse.models.embedding_model import (
    EncodesPictures,
    Ungrounded,
    Words,
    encode_pixel_blocks,
)
from hasse.models.encoders.model_config import ImagePooling
from hasse.models.score import Score

if TYPE_CHECKING:
    from hasse.models.embedding_model import Points
    from hasse.models.images.preprocessing import Pixels


@dataclass(frozen=True, slots=True)
class DualEncoderConfig:
    """The names of the encoders, and fields of `ModelConfig`.

    Attributes:
        encoder: the name of both in `hasse.lab.encoders.registry`.
        weights: the SHA-256 of the file of their weights.
    """

    encoder: str
    weights: str
    dimension: int
    score: Score = "cosine"
    image_pooling: ImagePooling = "average"
    length: str = "unit"


class DualEncoder(EncodesPictures, Ungrounded, nn.Module):
    """An encoder of pictures and one of captions; points have unit length and keep their signs.

    Attributes:
        config: the names of the encoders.
        architecture: of both encoders.
        preprocessing: of pictures.
        references: None, because the training pictures are unknown.
    """

    references = None

    def __init__(self, config: DualEncoderConfig, pair: EncoderPair) -> None:
        super().__init__()
        self.config = config
        self.architecture = pair.architecture
        self.preprocessing = pair.images.preprocessing
        self.images = pair.images.freeze()
        self.texts = pair.texts.eval().requires_grad_(False)

    @classmethod
    def build(cls, config: dict[str, Any], architecture: open_clip.Architecture) -> DualEncoder:
        """Build both encoders with random weights."""
        shape = DualEncoderConfig(**config)
        return cls(shape, open_clip.build(shape.encoder, architecture))

    @property
    def vocabulary(self) -> Words:
        """The words that the tokenizer knows."""
        return self.texts

    @property
    def backbone(self) -> open_clip.OpenClipImages:
        """The encoder of pictures."""
        return self.images

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.texts.parameters()).device

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, 1, 3, H, W) -> (B, N)."""
        features = self.images(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2])
        return normalize(features.mean(1), dim=-1)

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (1, 3, H, W): (B, N)."""
        return encode_pixel_blocks(self, self.pixel_points, pixels)

    @torch.inference_mode()
    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        points = np.empty((len(texts), self.config.dimension), dtype=np.float32)
        for start in range(0, len(texts), batch_size):
            batch = self.texts(texts[start : start + batch_size])
            points[start : start + batch_size] = normalize(batch, dim=-1).cpu()
        return points

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of the cached features of pictures: (B, N) -> (B, N) float32."""
        block = torch.from_numpy(np.asarray(features, dtype=np.float32))
        points: Points = normalize(block, dim=-1).numpy()
        return points
