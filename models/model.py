"""The order-embedding: one encoder for captions, one for pictures, one space."""

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

from hasse.models.embedding_model import (
    EncodesPictures,
    Points,
    Ungrounded,
    encode_blocks,
    encode_pixel_blocks,
    in_full_batches,
)
from hasse.models.encoders.hubness import HubnessCorrection, Kind
from hasse.models.encoders.hubness_weights import HubnessWeights
from hasse.models.encoders.image_encoder import ImageEncoder
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.text_encoder import (
    CaptionEncoder,
    Ensemble,
    encode_captions,
    padded,
    text_inference,
)
from hasse.models.encoders.text_inference import TextInference
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.models.encoders.backbone import Backbone


class OrderEmbedding(EncodesPictures, Ungrounded, nn.Module):
    """Both encoders of a model, its words, and the preprocessing of its pictures.

    Points have unit length. Captions whose length is learned are shorter, and in evaluation mode
    hubness correction changes lengths. For the order scores coordinates are non-negative (the
    absolute value is taken); cosine needs the signs and keeps them.

    Attributes:
        images: missing where the model was made without, or has none.
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
        """Make both encoders with random weights, or that of captions alone."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.preprocessing = preprocessing
        encoders = [
            config.caption_encoder(len(vocabulary), member) for member in range(config.ensemble)
        ]
        self.captions: CaptionEncoder | Ensemble = (
            Ensemble(encoders) if config.ensemble > 1 else encoders[0]
        )
        images = config.image_encoder() if with_pictures else None
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

    def for_inference(self, dtype: torch.dtype = torch.float32, *, one_off: bool = False) -> None:
        """Prepare to encode only: weights and device may not change any longer.

        The network of pictures computes in `dtype`. With `one_off` it is prepared to encode few.
        """
        if self.has_images:
            self.images.backbone = self.images.backbone.for_inference(dtype)
        self._pack_texts = partial(text_inference, self.captions, one_off=one_off)
        self._correction = None
        if self.hubness is not None:
            self._correction = self.hubness.correction(one_off=one_off)

    @property
    def has_images(self) -> bool:
        """Whether it has an encoder of pictures."""
        return hasattr(self, "images")

    @property
    def references(self) -> Points | None:
        """Points of training images that correct hubness: (R, N), or None."""
        if self.hubness is None or not bool(self.hubness.inverse_temperature):
            return None
        found: Points = self.hubness.images.cpu().numpy()
        return found

    @property
    def backbone(self) -> Backbone:
        """The network from pictures to features."""
        return self.images.backbone

    def set_matmul_dtype(self, dtype: torch.dtype) -> None:
        """Choose the type in which the encoders multiply matrices."""
        self.captions.matmul_dtype = dtype
        if self.has_images:
            self.images.matmul_dtype = dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.captions.encoders[0].embedding.weight.device

    def to_points(self, encoded: Tensor) -> Tensor:
        """Put raw encodings into the embedding space: (..., N) -> (..., N), unit length."""
        shares = encoded.reshape(*encoded.shape[:-1], self.config.ensemble, -1)
        unit = normalize(shares, dim=-1).flatten(-2) / math.sqrt(self.config.ensemble)
        return unit if self.config.score == "cosine" else unit.abs()

    def split_ensemble(self, points: Tensor) -> tuple[Tensor, ...]:
        """Split points (..., N) into those of each member of the ensemble: (..., N / ensemble)."""
        return (points * math.sqrt(self.config.ensemble)).chunk(self.config.ensemble, -1)

    def heaviest_first(self, points: Points) -> Tensor:
        """Return the order (N,) of coordinates by falling mean square over `points` (B, N).

        It is for `renumber`: each member of the ensemble keeps its coordinates.
        """
        mean = torch.from_numpy(np.square(points).mean(0))
        weights = mean.reshape(self.config.ensemble, -1)
        order = torch.argsort(weights, dim=1, descending=True, stable=True)
        first = torch.arange(0, points.shape[1], weights.shape[1])[:, None]
        return (order + first).flatten()

    def renumber(self, order: Tensor) -> None:
        """Give the coordinates of all points a new order (N,), in place: i becomes order[i].

        No violation depends on it, except by rounding. Members of an ensemble keep theirs.
        """
        self.images.renumber(order.to(self.device))
        self.captions.renumber(order.to(self.device))
        if self.hubness is not None:
            self.hubness.renumber(order.to(self.device))

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Number the words of captions: -> (B, T) padded, (B,) lengths with the end mark."""
        return padded([torch.tensor(numbers) for numbers in self._numbered(texts)])

    def _numbered(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.encode(text, self.config.max_words) for text in texts]

    def caption_points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode numbered captions: (B, T), (B,) -> (B, N)."""
        return self._corrected(self.captions.points(tokens.to(self.device), lengths), "caption")

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        return in_full_batches(self.feature_points, self.images.features(pixels))

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode backbone features: (B, F), or (B, cells, F) of cells or regions, -> (B, N)."""
        return self._corrected(self.to_points(self.images.project(features)), "image")

    def _corrected(self, points: Tensor, kind: Kind) -> Tensor:
        if self.hubness is None or self.training:
            return points
        correction = self._correction or self.hubness.correction()
        if correction is None:
            return points
        corrected = correction.correct(points.detach().cpu().numpy(), kind)
        return torch.from_numpy(corrected).to(points.device)

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32; see `TextInference`."""
        numbered = self._numbered(texts)
        # Who only adds pictures needs no packed weights, nor the compiled kernels that read them.
        self._text_inference = self._text_inference or self._pack_texts()
        if self._text_inference is not None:
            points = self._text_inference.points(numbered, batch_size)
        else:
            points = encode_captions(self.captions, numbered, batch_size)
        corrected: Points = self._corrected(torch.from_numpy(points), "caption").numpy()
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
        encode = partial(in_full_batches, self.feature_points)
        return encode_blocks(self, encode, features, batch_size)
