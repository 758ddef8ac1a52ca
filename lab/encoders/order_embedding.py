"""The order embedding: an encoder of captions and one of pictures, with a common space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from hasse.lab.encoders.blocks import encode_blocks, encode_padded, encode_pixel_blocks
from hasse.lab.encoders.hubness_weights import HubnessWeights
from hasse.lab.encoders.image_encoder import ImageEncoder
from hasse.lab.encoders.shapes import caption_encoder, image_encoder
from hasse.lab.encoders.text_encoder import (
    CaptionEncoder,
    Ensemble,
    encode_captions,
    pad_captions,
    text_inference,
)
from hasse.models.embedding_model import (
    EncodesPictures,
    Points,
    Ungrounded,
)
from hasse.models.encoders.hubness import HubnessCorrection, Kind
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.text_inference import TextInference
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.lab.encoders.backbone import Backbone


class OrderEmbedding(EncodesPictures, Ungrounded, nn.Module):
    """Both encoders of a model, its vocabulary, and the preprocessing of pictures.

    Points have unit length. Captions with a learned length are shorter, and in evaluation mode
    hubness correction changes lengths. For the order scores coordinates are non-negative, by their
    absolute value; the cosine keeps signs.

    Attributes:
        images: missing if the model has no encoder of pictures, or was made without it.
    """

    images: ImageEncoder

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        *,
        with_pictures: bool = True,
    ) -> None:
        """Make both encoders, or that of captions alone, with random weights."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.preprocessing = preprocessing
        encoders = [
            caption_encoder(config, len(vocabulary), member) for member in range(config.ensemble)
        ]
        self.captions: CaptionEncoder | Ensemble = (
            Ensemble(encoders) if config.ensemble > 1 else encoders[0]
        )
        images = image_encoder(config) if with_pictures else None
        if images is not None:
            self.images = images
        self.hubness = (
            HubnessWeights(config.hubness, config.dimension, config.score)
            if config.hubness
            else None
        )
        self._pack_texts: Callable[[], TextInference | None] = lambda: None
        self._text_inference: TextInference | None = None
        self._correction: HubnessCorrection | None = None

    def for_inference(self) -> None:
        """Prepare for encoding only: after this, weights and device may not change."""
        if self.has_images:
            self.images.backbone = self.images.backbone.for_inference()
        self._pack_texts = partial(text_inference, self.captions)
        self._correction = None if self.hubness is None else self.hubness.correction()

    @property
    def has_images(self) -> bool:
        """Whether the model has an encoder of pictures."""
        return hasattr(self, "images")

    @property
    def references(self) -> Points | None:
        """Points of training images in the hubness correction: (R, N), or None."""
        if self.hubness is None or not bool(self.hubness.inverse_temperature):
            return None
        points: Points = self.hubness.images.cpu().numpy()
        return points

    @property
    def backbone(self) -> Backbone:
        """The network from pictures to features."""
        return self.images.backbone

    def set_matmul_dtype(self, dtype: torch.dtype) -> None:
        """Set the type of the encoders' matrix products."""
        self.captions.matmul_dtype = dtype
        if self.has_images:
            self.images.matmul_dtype = dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.captions.encoders[0].embedding.weight.device

    def to_points(self, encoded: Tensor) -> Tensor:
        """Normalise raw encodings to points: (..., N) -> (..., N), of unit length."""
        parts = encoded.reshape(*encoded.shape[:-1], self.config.ensemble, -1)
        unit = normalize(parts, dim=-1).flatten(-2) / math.sqrt(self.config.ensemble)
        return unit if self.config.score == "cosine" else unit.abs()

    def split_ensemble(self, points: Tensor) -> tuple[Tensor, ...]:
        """Split points (..., N) into those of each member of the ensemble: (..., N / ensemble)."""
        return (points * math.sqrt(self.config.ensemble)).chunk(self.config.ensemble, -1)

    def heaviest_first(self, points: Points) -> Tensor:
        """Return the order (N,) of coordinates by decreasing mean square over `points` (B, N).

        Coordinates stay within their member of the ensemble, as `renumber` needs.
        """
        mean = torch.from_numpy(np.square(points).mean(0))
        weights = mean.reshape(self.config.ensemble, -1)
        order = torch.argsort(weights, dim=1, descending=True, stable=True)
        first = torch.arange(0, points.shape[1], weights.shape[1])[:, None]
        return (order + first).flatten()

    def renumber(self, order: Tensor) -> None:
        """Permute the coordinates of all points in place: new coordinate i is old order[i], (N,).

        Violations do not change, except by rounding. Coordinates stay within their member.
        """
        self.images.renumber(order.to(self.device))
        self.captions.renumber(order.to(self.device))
        if self.hubness is not None:
            self.hubness.renumber(order.to(self.device))

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the tokens of captions: -> (B, T) padded, (B,) lengths with the end mark."""
        return pad_captions([torch.tensor(numbers) for numbers in self._word_numbers(texts)])

    def _word_numbers(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.encode(text, self.config.max_words) for text in texts]

    def caption_points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode captions, as tokens: (B, T), (B,) -> (B, N)."""
        return self._correct(self.captions.points(tokens.to(self.device), lengths), "caption")

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        return encode_padded(self.feature_points, self.images.features(pixels))

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode features of the backbone: (B, F), or (B, cells, F), -> (B, N)."""
        return self._correct(self.to_points(self.images.project(features)), "image")

    def _correct(self, points: Tensor, kind: Kind) -> Tensor:
        if self.hubness is None or self.training:
            return points
        correction = self._correction or self.hubness.correction()
        if correction is None:
            return points
        corrected = correction.correct(points.detach().cpu().numpy(), kind)
        return torch.from_numpy(corrected).to(points.device)

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32; see `TextInference`."""
        numbered = self._word_numbers(texts)
        # Packed here, on demand: a process that only adds pictures needs no compiled kernels.
        self._text_inference = self._text_inference or self._pack_texts()
        if self._text_inference is not None:
            points = self._text_inference.points(numbered, batch_size)
        else:
            points = encode_captions(self.captions, numbered, batch_size)
        corrected: Points = self._correct(torch.from_numpy(points), "caption").numpy()
        return corrected

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (crops, 3, H, W): (B, N)."""
        return encode_pixel_blocks(self, self.pixel_points, pixels)

    def picture_features(self, pixels: Sequence[Pixels]) -> NDArray[np.float32]:
        """Return the features of preprocessed pictures: (B, F), or (B, REGIONS, F)."""
        return encode_pixel_blocks(self, self.images.features, pixels)

    def cells(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return the features of all cells of a picture of any size: (1, 3, H, W) -> (S * S, F)."""
        (cells,) = encode_blocks(self, self.backbone, pixels, 1)
        return np.asarray(cells)

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of features: (B, F), or (B, REGIONS, F), -> (B, N) float32."""
        encode = partial(encode_padded, self.feature_points)
        return encode_blocks(self, encode, features, batch_size)
