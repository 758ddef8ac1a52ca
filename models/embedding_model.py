"""Protocol of every model that search can use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hasse.models.images.preprocessing import Pixels, Preprocessing
from hasse.models.kernels.compiled import encoder_threads, processor_threads
from hasse.models.score import Score

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor

    from hasse.models.encoders.model_config import ImagePooling

Points = NDArray[np.float32]
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


class Network(Protocol):
    """A network from pictures to features: a `Backbone`, or a `CompiledNetwork`."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> object:
        """The type that it computes in."""
        ...

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, over the name and all that features depend on."""
        ...


class EmbeddingModel(Protocol):
    """Captions and pictures to points: `OrderEmbedding`, or `DualEncoder` of another library.

    `PictureModel` is the first without torch.
    """

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
    def backbone(self) -> Network:
        """The network from pictures to features."""
        ...

    @property
    def device(self) -> torch.device | str:
        """Where the weights are."""
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

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (crops, 3, H, W): (B, N)."""
        ...


class EncodesPictures:
    """Base class of models that encode preprocessed pictures."""

    def encode_images(
        self: EmbeddingModel, pictures: Sequence[Image.Image], batch_size: int = 32
    ) -> Points:
        """Return the points of pictures, in their order, batch by batch: (B, N) float32."""
        points = np.empty((len(pictures), self.config.dimension), np.float32)
        for start in range(0, len(pictures), batch_size):
            batch = pictures[start : start + batch_size]
            pixels = [self.preprocessing.apply(picture) for picture in batch]
            points[start : start + batch_size] = self.encode_pixels(pixels)
        return points


class Ungrounded:
    """Base class of models whose coordinates do not stand for things."""

    def mass(self, text: str) -> float:
        """Return 0, as no text is known to only name things."""
        return 0.0

    def as_premises(self, points: Points) -> Points:
        """Return points of captions as they are: (B, N)."""
        return points


def encoders_beside_each_other(model: EmbeddingModel) -> tuple[int, Callable[[], object]]:
    """Return how many threads should encode batches at a time, and what each calls first.

    The layers of small networks are too short to be shared by threads, which wait for each other:
    on two busy cores two batches side by side take a third of the processor time of two in turn.
    """
    if not on_processor(model):
        return 1, lambda: None
    encoders = encoder_threads()
    if (torch := sys.modules.get("torch")) is None:
        return encoders, lambda: None
    # Of the calling thread.
    return encoders, partial(torch.set_num_threads, processor_threads() // encoders)


def in_full_batches(encode: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    """Return the points that `encode` makes of features: (B, ...) -> (B, N).

    Products of matrices with few rows round otherwise, so it is given TOGETHER pictures at least:
    a picture has the same bits alone and among others.
    """
    filled = features.new_zeros(max(TOGETHER, len(features)), *features.shape[1:])
    filled[: len(features)] = features
    return encode(filled)[: len(features)]


def encode_pixel_blocks(
    model: EmbeddingModel, encode: Callable[[Tensor], Tensor], pixels: Sequence[Pixels]
) -> Points:
    """Return what `encode` makes of preprocessed pictures, as many at a time as are quickest."""
    return encode_blocks(model, encode, pixels, TOGETHER if on_processor(model) else len(pixels))


def on_processor(model: EmbeddingModel) -> bool:
    """Tell whether a model encodes on the processor, and not on a card."""
    return str(model.device) == "cpu"


def encode_blocks(
    model: EmbeddingModel,
    encode: Callable[[Tensor], Tensor],
    items: NDArray[np.floating] | Sequence[Pixels],
    batch_size: int,
) -> NDArray[np.float32]:
    """Return what `encode` makes of arrays of one shape, block by block: (B, ...) float32."""
    import torch

    if not len(items):
        return np.empty((0, model.config.dimension), np.float32)
    encoded = []
    with torch.inference_mode():
        for start in range(0, len(items), batch_size):
            block = np.asarray(items[start : start + batch_size], np.float32)
            encoded.append(encode(torch.from_numpy(block).to(model.device)).cpu().numpy())
    return np.concatenate(encoded)
