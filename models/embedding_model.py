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
    from PIL import Image

    from hasse.models.encoders.model_config import ImagePooling

Points = NDArray[np.float32]


class Words(Protocol):
    """The vocabulary of a model."""

    @property
    def words(self) -> Sequence[str]:
        """The known words, frequent ones first; empty if they are not listed."""
        ...

    def knows(self, text: str) -> bool:
        """Return whether any word is known; the model cannot tell texts without one apart."""
        ...

    def unknown_words(self, text: str) -> list[str]:
        """List the unknown words, each once, in order."""
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
    """A network from pictures to features; see `PictureNetwork`."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> object:
        """The type of the computation."""
        ...

    def fingerprint(self) -> str:
        """Return the SHA-256, in hexadecimal, of the name and the weights."""
        ...


class EmbeddingModel(Protocol):
    """Encodes captions and pictures: `PictureModel`, `GroundedModel` or `DualEncoder`."""

    preprocessing: Preprocessing

    @property
    def references(self) -> Points | None:
        """Points of training pictures (R, N), to measure how specific a text is, or None."""
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
    def device(self) -> object:
        """Where pictures are encoded; its text is \"cpu\" on a processor."""
        ...

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N)."""
        ...

    def as_premises(self, points: Points) -> Points:
        """Return the points of captions as premises of other captions: (B, N)."""
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

    def as_premises(self, points: Points) -> Points:
        """Return the points unchanged: (B, N)."""
        return points


def parallel_encoders(model: EmbeddingModel) -> tuple[int, Callable[[], object]]:
    """Return the number of threads that encode batches in parallel, and their initializer.

    Threads that share the layers of a small network mostly wait for each other: on two busy cores,
    two batches in parallel take a third of the processor time of two batches one after the other.
    """
    if not on_processor(model):
        return 1, lambda: None
    encoders = encoder_threads()
    if (torch := sys.modules.get("torch")) is None:
        return encoders, lambda: None
    # The initializer sets the number of threads of the calling thread alone.
    return encoders, partial(torch.set_num_threads, processor_threads() // encoders)


def on_processor(model: EmbeddingModel) -> bool:
    """Return whether a model encodes on the processor, not on a card."""
    return str(model.device) == "cpu"
