"""Protocol of every model that search can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.score import Score

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor

    from hasse.models.encoders.backbone import Backbone
    from hasse.models.encoders.model_config import ImagePooling

Points = NDArray[np.float32]
_MOST_ENCODERS = 4  # each takes a few hundred megabytes
# Pictures that go through a network together on a processor. The layers of 32 are too large for
# memory that is kept, and a third of the time goes into asking the system for it.
TOGETHER = 4


class Words(Protocol):
    """The words that a model knows."""

    def knows(self, text: str) -> bool:
        """Tell whether any word is known; texts without one are all alike to the model."""
        ...

    def unknown(self, text: str) -> list[str]:
        """List the words that are not known, each once, in order."""
        ...


class Shape(Protocol):
    """The fields of a configuration that describe points; see `ModelConfig`."""

    @property
    def score(self) -> Score: ...
    @property
    def dimension(self) -> int: ...
    @property
    def image_pooling(self) -> ImagePooling: ...
    @property
    def length(self) -> str: ...


class EmbeddingModel(Protocol):
    """Captions and pictures to points: `OrderEmbedding`, or `DualEncoder` of another library."""

    preprocessing: Preprocessing

    @property
    def references(self) -> Points | None:
        """Points of training pictures (R, N), which tell how specific a text is, or None."""
        ...

    @property
    def config(self) -> Shape: ...
    @property
    def vocabulary(self) -> Words: ...
    @property
    def backbone(self) -> Backbone:
        """The network from pictures to features."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    def to(self, device: str | torch.device) -> object:
        """Move the weights to a device."""
        ...

    def eval(self) -> object:
        """Prepare to encode."""
        ...

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N)."""
        ...

    def mass(self, text: str) -> float:
        """Return the largest violation of a text that only names things, else 0."""
        ...

    def as_premises(self, points: Points) -> Points:
        """Return points of captions as those that other captions may follow from: (B, N)."""
        ...

    def encode_images(self, pictures: Sequence[Image.Image], batch_size: int = 32) -> Points:
        """Return the points of pictures, in their order: (B, N)."""
        ...

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of the backbone's cached features: (B, F) -> (B, N)."""
        ...

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        ...


class Ungrounded:
    """Base class of models whose coordinates do not stand for things."""

    def mass(self, text: str) -> float:
        """Return 0, as no text is known to only name things."""
        return 0.0

    def as_premises(self, points: Points) -> Points:
        """Return points of captions as they are: (B, N)."""
        return points


def encode_pixels(model: EmbeddingModel, pixels: Sequence[Pixels]) -> Points:
    """Return the points of preprocessed pictures, each (crops, 3, H, W): (B, N)."""
    if not pixels:
        return np.empty((0, model.config.dimension), np.float32)
    size = TOGETHER if model.device.type == "cpu" else len(pixels)
    blocks = (np.stack(pixels[start : start + size]) for start in range(0, len(pixels), size))
    return np.concatenate([encode_blocks(model, model.pixel_points, b, size) for b in blocks])


def encoders_beside_each_other(model: EmbeddingModel) -> tuple[int, Callable[[], object]]:
    """Return how many threads should encode batches at a time, and what each calls first.

    The layers of small networks are too short to be shared by threads, which wait for each other:
    on two busy cores two batches side by side take a third of the processor time of two in turn.
    """
    import torch

    if model.device.type != "cpu":
        return 1, lambda: None
    threads = torch.get_num_threads()
    encoders = min(threads, _MOST_ENCODERS)
    return encoders, partial(torch.set_num_threads, threads // encoders)  # of the calling thread


def in_full_batches(encode: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    """Return the points that `encode` makes of features: (B, ...) -> (B, N).

    Products of matrices with few rows round otherwise, so it is given TOGETHER pictures at least:
    a picture has the same bits alone and among others.
    """
    filled = features.new_zeros(max(TOGETHER, len(features)), *features.shape[1:])
    filled[: len(features)] = features
    return encode(filled)[: len(features)]


def encode_pictures(
    model: EmbeddingModel, pictures: Sequence[Image.Image], batch_size: int
) -> Points:
    """Return the points of pictures, batch by batch: (B, N) float32."""
    points = np.empty((len(pictures), model.config.dimension), np.float32)
    for start in range(0, len(pictures), batch_size):
        batch = pictures[start : start + batch_size]
        pixels = [model.preprocessing.apply(picture) for picture in batch]
        points[start : start + batch_size] = encode_pixels(model, pixels)
    return points


def encode_blocks(
    model: EmbeddingModel,
    encode: Callable[[Tensor], Tensor],
    features: NDArray[np.floating],
    batch_size: int,
) -> Points:
    """Return the points (B, N) float32 that `encode` makes of features (B, ...), block by block."""
    import torch

    points = np.empty((len(features), model.config.dimension), np.float32)
    with torch.inference_mode():
        for start in range(0, len(features), batch_size):
            rows = slice(start, start + batch_size)
            block = torch.from_numpy(np.asarray(features[rows], np.float32))
            points[rows] = encode(block.to(model.device)).cpu()
    return points
