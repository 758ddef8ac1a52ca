"""A trained model that encodes captions and pictures without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import EncodesPictures, Points
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.regions import REGIONS, region_means
from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.kernels.products import Product
from hasse.models.networks.picture_network import PictureNetwork
from hasse.models.text_model import TextModel
from hasse.models.vocabulary import Vocabulary

Features = NDArray[np.float32]


class PictureModel(EncodesPictures, TextModel):
    """Encodes as `OrderEmbedding` with the same weights, up to rounding of the network.

    Attributes:
        backbone: the network of pictures.
    """

    def __init__(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        weights: Mapping[str, Points],
        network: PictureNetwork,
        *,
        one_off: bool = False,
    ) -> None:
        """Make a model of the parts of a `TextModel`, and a network.

        Raises:
            ValueError: the weights are of another dimension.
        """
        super().__init__(config, vocabulary, preprocessing, weights, one_off=one_off)
        self.backbone = network
        rows = REGIONS if config.image_pooling == "regions" else 1
        self._projection = Product(weights["images.projection.weight"].T, rows)
        self._bias = weights["images.projection.bias"]
        if len(self._bias) != config.dimension:
            raise ValueError(f"points of {len(self._bias)} coordinates, not {config.dimension}")

    @property
    def device(self) -> str:
        """Where the network runs."""
        return self.backbone.device

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (crops, 3, H, W): (B, N)."""
        return self.encode_features(self.picture_features(pixels))

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of features, one by one: (B, F), or (B, REGIONS, F), -> (B, N)."""
        points = np.empty((len(features), self.config.dimension), np.float32)
        for row, picture in enumerate(features):
            points[row] = self._unit_point(np.atleast_2d(np.asarray(picture, np.float32)))
        return self._correct(points, "image")

    def picture_features(self, pixels: Sequence[Pixels]) -> Features:
        """Return the features of preprocessed pictures: (B, F), or (B, REGIONS, F)."""
        features = [self._features(picture) for picture in pixels]
        return np.stack(features) if features else np.empty((0, 1), np.float32)

    def cells(self, pixels: Pixels) -> Features:
        """Return the features of all cells of a picture of any size: (1, 3, H, W) -> (S * S, F)."""
        (cells,) = self.backbone.features(pixels)
        return np.asarray(cells)

    def _features(self, pixels: Pixels) -> Features:
        """Compute `ImageEncoder.features` of one picture: (crops, 3, H, W) -> (R, F) or (F,)."""
        features = self.backbone.features(pixels)
        if self.config.image_pooling == "regions":
            features = np.stack([region_means(cells) for cells in features])
        if self.config.image_pooling == "average":
            return np.asarray(features.mean(0))
        return features.reshape(-1, features.shape[-1])

    def _unit_point(self, features: Features) -> Points:
        """Compute `ImageEncoder.project` and `OrderEmbedding.to_points`: (R, F) -> (N,)."""
        raw = self._projection.of(unit(features)) + self._bias
        signed = self.config.score == "cosine"
        if self.config.image_pooling != "average" and not signed:
            raw = np.abs(raw)
        pooled = raw.max(0)
        if self.config.image_pooling == "regions":
            pooled = pooled + raw.mean(0)
        members = self.config.ensemble
        point = unit(pooled.reshape(members, -1)).ravel() / np.float32(math.sqrt(members))
        return point if signed else np.abs(point)


def unit(vectors: Features) -> Features:
    """Scale vectors to unit length: (B, N) -> (B, N)."""
    length = np.sqrt(np.square(vectors).sum(1, keepdims=True))
    scaled: Features = vectors / np.maximum(length, np.float32(1e-12))
    return scaled
