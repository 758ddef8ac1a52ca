"""A published encoder of pictures and one of texts with a common space, as ONNX graphs.

Their points are compared by the cosine, as in their training.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hasse.models.embedding_model import EncodesPictures, Ungrounded
from hasse.models.kernels.compiled import encoder_threads
from hasse.models.networks.network import Network
from hasse.models.score import Score
from hasse.models.tokenizer import Tokenizer

if TYPE_CHECKING:
    from hasse.models.embedding_model import Points
    from hasse.models.encoders.model_config import ImagePooling
    from hasse.models.images.preprocessing import Pixels, Preprocessing


@dataclass(frozen=True, slots=True)
class DualEncoderConfig:
    """The source of the encoders, and fields of `ModelConfig`.

    Attributes:
        encoder: the source, such as a repository of the Hugging Face hub.
    """

    encoder: str
    dimension: int
    score: Score = "cosine"
    image_pooling: ImagePooling = "average"
    length: str = "unit"


@dataclass(frozen=True, slots=True)
class PictureEncoder:
    """The graph that encodes pictures.

    Attributes:
        name: of the encoder.
        network: the graph.
        input: the name of its pixels.
        output: the name of its points.
        identity: the SHA-256 of its file, or the fingerprint of the network it was exported from.
    """

    name: str
    network: Network
    input: str
    output: str
    identity: str = ""

    @property
    def dtype(self) -> str:
        """The type of the computation and the runtime."""
        return self.network.dtype

    def fingerprint(self) -> str:
        """Return the SHA-256 that identifies the network."""
        return self.identity

    def features(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the points of pictures before normalisation: (B, 3, H, W) -> (B, N)."""
        rows = [self.network.run({self.input: row[None]})[self.output] for row in pixels]
        return np.concatenate(rows).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """The graph that encodes texts.

    Attributes:
        network: the graph.
        tokenizer: of texts.
        tokens: the name of the graph's tokens.
        mask: the name of the input that tells tokens from padding, or None.
        output: the name of its points.
        dtype: numpy's name of the type of tokens.
    """

    network: Network
    tokenizer: Tokenizer
    tokens: str
    mask: str | None
    output: str
    dtype: str = "int64"

    def features(self, text: str) -> NDArray[np.float32]:
        """Return the point of a text before normalisation: (N,)."""
        tokens, mask = self.tokenizer(text)
        inputs: dict[str, NDArray[Any]] = {self.tokens: tokens.astype(self.dtype)}
        if self.mask is not None:
            inputs[self.mask] = mask.astype(self.dtype)
        (point,) = self.network.run(inputs)[self.output]
        return np.asarray(point, np.float32)


class DualEncoder(EncodesPictures, Ungrounded):
    """An encoder of pictures and one of captions; points have unit length and keep their signs.

    Every picture and caption goes through its graph alone: its point does not depend on others.

    Attributes:
        config: the source of the encoders.
        preprocessing: of pictures.
        backbone: the encoder of pictures.
        references: None, because the training pictures are unknown.
    """

    references = None

    def __init__(
        self,
        config: DualEncoderConfig,
        preprocessing: Preprocessing,
        pictures: PictureEncoder | None,
        texts: TextEncoder,
    ) -> None:
        """Make a model; without `pictures` it encodes captions only."""
        self.config, self.preprocessing = config, preprocessing
        self._pictures, self._texts = pictures, texts

    @property
    def vocabulary(self) -> Tokenizer:
        """The words that the tokenizer knows."""
        return self._texts.tokenizer

    @property
    def backbone(self) -> PictureEncoder:
        """The encoder of pictures; raises RuntimeError for a model of captions only."""
        if self._pictures is None:
            raise RuntimeError("this model was loaded for captions only")
        return self._pictures

    @property
    def device(self) -> str:
        """Where the graphs run."""
        return self._texts.network.device

    def encode_pixels(self, pixels: Sequence[Pixels]) -> Points:
        """Return the points of preprocessed pictures, each (1, 3, H, W): (B, N)."""
        features = [self.backbone.features(picture) for picture in pixels]
        return unit(np.concatenate(features)) if features else self._no_points()

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32."""
        if not texts:
            return self._no_points()
        if len(texts) == 1:
            return unit(self._texts.features(texts[0])[None])
        with ThreadPoolExecutor(encoder_threads()) as threads:
            return unit(np.stack(list(threads.map(self._texts.features, texts))))

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of the cached features of pictures: (B, N) -> (B, N) float32."""
        return unit(np.asarray(features, np.float32))

    def _no_points(self) -> Points:
        return np.empty((0, self.config.dimension), np.float32)


def unit(vectors: NDArray[np.float32]) -> Points:
    """Scale vectors to unit length: (B, N) -> (B, N)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Points = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled
