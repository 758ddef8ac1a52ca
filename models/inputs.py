"""What training reads of an image: cached features, or pixels when the backbone learns too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.model import OrderEmbedding
from models.pictures import standardised
from models.pixels import PixelCache

Rows = NDArray[np.int64]


class ImageInput(Protocol):
    """Images in a fixed order that a model can turn into points.

    Attributes:
        image_ids: (n,), the ids of the images there are.
        learns_backbone: whether the points depend on the backbone's weights.
    """

    @property
    def image_ids(self) -> NDArray[np.int64]: ...

    @property
    def learns_backbone(self) -> bool: ...

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Return what there is of some images, on the CPU: (B,) -> (B, ...); varied if told how."""
        ...

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Return the points of what was read, on the model's device: (B, ...) -> (B, N)."""
        ...


@dataclass(frozen=True, slots=True)
class FeatureInput:
    """Features of a frozen backbone.

    Attributes:
        features: (n, F) of any float type.
        views: (n, 1 + views, F), of the picture and of random cuts of it; training takes any.
    """

    image_ids: NDArray[np.int64]
    features: NDArray[np.floating]
    views: NDArray[np.floating] | None = None
    learns_backbone: bool = False

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Take features (B, F), in training those of the picture or of one of its views."""
        if augment is None or self.views is None:
            chosen = self.features[rows]
        else:
            chosen = self.views[rows, augment.integers(self.views.shape[1], size=len(rows))]
        return torch.from_numpy(np.asarray(chosen, dtype=np.float32))

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Project features."""
        return model.feature_points(batch)


@dataclass(frozen=True, slots=True)
class PixelInput:
    """Pictures cut at random places and mirrored in training, in the centre otherwise.

    Attributes:
        mirror: whether left and right may be exchanged.
        bfloat16: run the backbone in mixed precision.
    """

    cache: PixelCache
    mirror: bool = True
    bfloat16: bool = False
    learns_backbone: bool = True

    @property
    def image_ids(self) -> NDArray[np.int64]:
        """The images of the cache, in its order: (n,)."""
        return self.cache.image_ids

    def read(self, rows: Rows, augment: np.random.Generator | None = None) -> Tensor:
        """Cut pictures: -> (B, crop, crop, 3) uint8."""
        crop = self.cache.preprocessing.crop
        spare = self.cache.preprocessing.resize - crop
        if augment is None:
            offsets = np.full((len(rows), 2), spare // 2)
            mirrored = np.zeros(len(rows), dtype=np.bool_)
        else:
            offsets = augment.integers(0, spare + 1, size=(len(rows), 2))
            mirrored = (augment.random(len(rows)) < 0.5) & self.mirror
        out = np.empty((len(rows), crop, crop, 3), dtype=np.uint8)
        for at, (row, (top, left), turn) in enumerate(zip(rows, offsets, mirrored, strict=True)):
            cut = self.cache.pixels[row, top : top + crop, left : left + crop]
            out[at] = cut[:, ::-1] if turn else cut
        return torch.from_numpy(out)

    def points(self, model: OrderEmbedding, batch: Tensor) -> Tensor:
        """Normalise and encode pictures."""
        looks = self.cache.preprocessing
        pixels = standardised(batch, looks.mean, looks.std)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self.bfloat16):
            features = model.images.features(pixels[:, None])
        return model.feature_points(features.float())
