"""The order-embedding: one encoder for captions, one for pictures, one space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.encoders.hubness import Crowd, Kind
from models.encoders.image_encoder import ImageEncoder, Pooling
from models.encoders.text_encoder import (
    MOST_COORDINATES,
    WIDEST,
    CaptionEncoder,
    Members,
    Reading,
    padded,
)
from models.encoders.text_inference import Reader
from models.images.preprocessing import Preprocessing
from models.score import SCORES, Score
from models.vocabulary import Vocabulary

Points = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What must be known, beside weights and words, to encode a picture or a caption.

    Attributes:
        score: how an image is compared with a caption; see `models.score`.
        backbone: the name of a torchvision classification network.
        pooling: of the backbone's last grid: "average" its features, as torchvision's networks
            are trained; "join" the points of its cells, which lets small things count, where the
            network learns too; or add the join and the mean of the points of the whole and of
            nine "parts" of it, which features of a frozen network may have.
        dimension: N, the dimension of a point; also the width of the GRU.
        word_dimension: the dimension of a word vector.
        reading: of a caption's states, "last" is the paper's; "join" keeps the largest of all.
        max_words: words of a caption beyond this many are not read.
        word_range: word vectors start uniform between minus and plus this. The paper's 0.1 makes
            all words nearly alike at first: fine where a caption's words point to its image
            together, slow where a single one (a colour) has to.
        length: of a caption's point: "unit", as an image's, or "learned", between 0 and 1, so that
            captions can follow from captions; see `CaptionEncoder`.
        members: models that learn side by side, each with N / members coordinates, in which its
            points have one length. Of all coordinates together the violation (or the cosine) is
            the mean of theirs: an ensemble that is stored and searched as one.
        directions: in which captions are read: "forward" by all members, or "both": every second
            member reads from the last word to the first, so that members err in different ways.
        crowd: images, and captions, of the training that even out the lengths of points; see
            `models.encoders.hubness`. 0: none, and points have the length that `length` says.
    """

    score: Score = "order"
    backbone: str = "vgg19"
    pooling: Pooling = "average"
    dimension: int = 1024
    word_dimension: int = 300
    max_words: int = 100
    word_range: float = 0.1
    reading: Reading = "last"
    length: Literal["unit", "learned"] = "unit"
    members: int = 1
    directions: Literal["forward", "both"] = "forward"
    crowd: int = 0

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise ValueError(f"score is one of {', '.join(SCORES)}, not '{self.score}'")
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling is average, join or parts, not '{self.pooling}'")
        if self.reading not in get_args(Reading):
            raise ValueError(f"reading is last or join, not '{self.reading}'")
        if self.length not in {"unit", "learned"}:
            raise ValueError(f"length is unit or learned, not '{self.length}'")
        if self.length == "learned" and self.score != "order":
            raise ValueError("length is learned for the score order only")
        if self.crowd < 0:
            raise ValueError("crowd is at least 0")
        if self.crowd and self.length != "unit":
            raise ValueError("a crowd evens out points of unit length: leave length at unit")
        if min(self.dimension, self.word_dimension, self.max_words, self.members) < 1:
            raise ValueError("dimension, word_dimension, max_words and members are at least 1")
        if max(self.dimension, self.word_dimension) > MOST_COORDINATES:
            raise ValueError(f"dimension and word_dimension are at most {MOST_COORDINATES:,}")
        if self.dimension % self.members:
            raise ValueError(
                f"{self.members} members cannot share {self.dimension} coordinates equally"
            )
        if self.directions not in {"forward", "both"}:
            raise ValueError(f"directions is forward or both, not '{self.directions}'")
        if not 0 < self.word_range <= WIDEST:
            raise ValueError(f"word_range is above 0 and at most {WIDEST}")


class OrderEmbedding(nn.Module):
    """Both encoders of a model, its words and how it looks at pictures.

    Points have unit length, but for those of captions whose length is learned, which are shorter,
    and where a crowd evens them out, once nothing is learned any more.
    For the order scores their coordinates are non-negative (the absolute value is taken); cosine
    needs the signs and keeps them.

    Attributes:
        images: missing where the model was made without.
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
        signed = config.score == "cosine"
        encoders = [
            CaptionEncoder(
                len(vocabulary),
                config.word_dimension,
                config.dimension // config.members,
                config.word_range,
                reading=config.reading,
                signed=signed,
                length=config.length,
                backwards=config.directions == "both" and member % 2 == 1,
            )
            for member in range(config.members)
        ]
        self.captions: CaptionEncoder | Members = (
            Members(encoders) if config.members > 1 else encoders[0]
        )
        if with_pictures:
            # Of torchvision, which takes longer to import than all that captions need.
            from models.encoders.backbone import build_backbone

            self.images = ImageEncoder(
                build_backbone(config.backbone),
                config.dimension,
                pooling=config.pooling,
                signed=signed,
            )
        self.crowd = Crowd(config.crowd, config.dimension, config.score) if config.crowd else None
        self._reader: Reader | None = None

    def for_inference(self) -> None:
        """Prepare to encode, and for no more: weights and device may not change any longer."""
        if hasattr(self, "images"):
            self.images.backbone = self.images.backbone.for_inference()
        self._reader = Reader(self.captions)
        if self.crowd is not None:
            self.crowd.for_inference()

    def multiply_in(self, product: torch.dtype) -> None:
        """Choose the type in which the GRU and the projection of images multiply matrices."""
        self.captions.product = self.images.product = product

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.captions.encoders[0].embedding.weight.device

    def to_points(self, encoded: Tensor) -> Tensor:
        """Put raw encodings into the embedding space: (..., N) -> (..., N), unit length."""
        parts = encoded.reshape(*encoded.shape[:-1], self.config.members, -1)
        unit = normalize(parts, dim=-1).flatten(-2) / math.sqrt(self.config.members)
        return unit if self.config.score == "cosine" else unit.abs()

    def parts(self, points: Tensor) -> tuple[Tensor, ...]:
        """Take points (..., N) apart into those of each member: (..., N / members)."""
        return (points * math.sqrt(self.config.members)).chunk(self.config.members, -1)

    def heaviest_first(self, points: Points) -> Tensor:
        """Return the order of coordinates (N,), for `renumber`, in which `points` (B, N) fall.

        In the mean of their squares, each member's among themselves.
        """
        mean = torch.from_numpy(np.square(points).mean(0))
        weights = mean.reshape(self.config.members, -1)
        order = torch.argsort(weights, dim=1, descending=True, stable=True)
        first = torch.arange(0, points.shape[1], weights.shape[1])[:, None]
        return (order + first).flatten()

    def renumber(self, order: Tensor) -> None:
        """Give the coordinates of all points a new order (N,), in place: i becomes order[i].

        Nothing that the model says of a caption and an image depends on it, but for rounding.
        Coordinates stay with their member.
        """
        self.images.renumber(order.to(self.device))
        self.captions.renumber(order.to(self.device))
        if self.crowd is not None:
            self.crowd.renumber(order.to(self.device))

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Number the words of captions: -> (B, T) padded, (B,) lengths with the end mark."""
        return padded([torch.tensor(numbers) for numbers in self._numbered(texts)])

    def _numbered(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.encode(text, self.config.max_words) for text in texts]

    def caption_points(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode numbered captions: (B, T), (B,) -> (B, N)."""
        return self._evened(self.captions.points(tokens.to(self.device), lengths), "caption")

    def pixel_points(self, pixels: Tensor) -> Tensor:
        """Encode preprocessed pictures: (B, crops, 3, H, W) -> (B, N)."""
        return self._evened(self.to_points(self.images(pixels)), "image")

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode backbone features: (B, F), or (B, cells, F) of cells or parts, -> (B, N)."""
        return self._evened(self.to_points(self.images.project(features)), "image")

    def _evened(self, points: Tensor, kind: Kind) -> Tensor:
        return points if self.crowd is None or self.training else self.crowd.even(points, kind)

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32; see `Reader`."""
        reader = self._reader or Reader(self.captions)
        points = reader.points(self._numbered(texts), batch_size)
        if self.crowd is None:
            return points
        with torch.inference_mode():
            unit = torch.from_numpy(points).to(self.device)
            evened: Points = self._evened(unit, "caption").cpu().numpy()
        return evened

    @torch.inference_mode()
    def encode_images(self, pictures: Sequence[Image.Image], batch_size: int = 32) -> Points:
        """Return the points of pictures, in their order: (B, N) float32."""
        points = np.empty((len(pictures), self.config.dimension), dtype=np.float32)
        for start in range(0, len(pictures), batch_size):
            batch = pictures[start : start + batch_size]
            pixels = torch.stack([self.preprocessing.apply(picture) for picture in batch])
            points[start : start + batch_size] = self.pixel_points(pixels.to(self.device)).cpu()
        return points

    @torch.inference_mode()
    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of cached features: (B, F), or (B, PARTS, F), -> (B, N) float32."""
        points = np.empty((len(features), self.config.dimension), dtype=np.float32)
        for start in range(0, len(features), batch_size):
            block = np.asarray(features[start : start + batch_size], dtype=np.float32)
            points[start : start + batch_size] = self.feature_points(
                torch.from_numpy(block).to(self.device)
            ).cpu()
        return points
