"""The order-embedding: one encoder for captions, one for pictures, one space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize

from hasse.models.embedding_model import Points, encode_blocks, encode_pictures
from hasse.models.encoders.hubness import HubnessCorrection, Kind
from hasse.models.encoders.image_encoder import ImageEncoder, ImagePooling
from hasse.models.encoders.text_encoder import (
    MOST_COORDINATES,
    WIDEST,
    CaptionEncoder,
    CaptionPooling,
    Ensemble,
    padded,
)
from hasse.models.encoders.text_inference import TextInference
from hasse.models.encoders.units.registry import text_units
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.score import SCORES, Score
from hasse.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hasse.models.encoders.backbone import Backbone

PointLength = Literal["unit", "learned"]
Directions = Literal["forward", "both"]
WordTable = Literal["learned", "fixed"]
ImageMap = Literal["linear", "identity", "none"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "score": SCORES,
    "image_pooling": get_args(ImagePooling),
    "caption_pooling": get_args(CaptionPooling),
    "length": get_args(PointLength),
    "directions": get_args(Directions),
    "word_vectors": get_args(WordTable),
    "image_map": get_args(ImageMap),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a model: with its weights and words, enough to encode pictures and captions.

    Attributes:
        score: how an image is compared with a caption; see `models.score`.
        backbone: the name of an encoder of pictures, as of `hasse.models.encoders.registry`.
        image_pooling: of the backbone's last grid. "average" its features, as torchvision's
            networks are trained. "max" takes the largest of the cells' points in each coordinate,
            which lets small things count where the network learns too. "regions" adds the largest
            and the mean of the points of the whole and of nine regions of it, which features of a
            frozen network may have.
        dimension: N, the dimension of a point; also the width of the text encoder.
        text_encoder: the unit that reads the words of a caption: "gru", as in the paper, or
            another one that is registered; see `hasse.models.encoders.units.registry`.
        word_dimension: the dimension of a word vector.
        caption_pooling: of a caption's states: "last" is the paper's; "max" keeps the largest of
            all in each coordinate.
        max_words: words of a caption beyond this many are ignored.
        word_range: word vectors start uniform between minus and plus this. The paper's 0.1 makes
            all words nearly alike at first: fine where a caption's words point to its image
            together, slow where a single one (a colour) has to.
        length: of a caption's point: "unit", as an image's, or "learned", between 0 and 1, so that
            captions can follow from captions; see `CaptionEncoder`.
        ensemble: models that learn side by side, each with N / ensemble coordinates, in which its
            points have one length. The violation (or the cosine) over all coordinates is the mean
            of theirs, so they are stored and searched as one.
        directions: in which captions are read: "forward" by all members of the ensemble, or
            "both": every second one reads backwards, so that they err in different ways.
        hubness: images, and captions, of the training that points are compared with to correct
            hubness; see `hasse.models.encoders.hubness`. 0: no correction.
        states: width of the text encoder where it is not N: one map and an ELU lead from its state
            to the point (Kiela et al., 2018). 0: the state is the point.
        word_vectors: "learned", or "fixed" ones of a file, which one learned map adapts; then all
            words of the file are known.
        image_map: "linear", from features to points; "identity", where features are the points;
            or "none", of a model that has no points of images. The last has no projection of
            captions either: N is `states`.
    """

    score: Score = "order"
    backbone: str = "torchvision/vgg19"
    image_pooling: ImagePooling = "average"
    dimension: int = 1024
    word_dimension: int = 300
    max_words: int = 100
    word_range: float = 0.1
    caption_pooling: CaptionPooling = "last"
    length: PointLength = "unit"
    ensemble: int = 1
    directions: Directions = "forward"
    hubness: int = 0
    text_encoder: str = "gru"
    states: int = 0
    word_vectors: WordTable = "learned"
    image_map: ImageMap = "linear"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(choices)
                raise ValueError(f"{name} is one of {known}, not '{getattr(self, name)}'")
        if self.text_encoder != "gru" and self.text_encoder not in text_units():
            raise ValueError(
                f"text_encoder is one of {', '.join(text_units())}, not '{self.text_encoder}'"
            )
        if self.length == "learned" and self.score != "order":
            raise ValueError("length is learned for the score order only")
        if min(self.hubness, self.states) < 0:
            raise ValueError("hubness and states are at least 0")
        if self.hubness and self.length != "unit":
            raise ValueError("hubness correction needs points of unit length: leave length at unit")
        if min(self.dimension, self.word_dimension, self.max_words, self.ensemble) < 1:
            raise ValueError("dimension, word_dimension, max_words and ensemble are at least 1")
        if max(self.dimension, self.word_dimension, self.states) > MOST_COORDINATES:
            raise ValueError(
                f"dimension, word_dimension and states are at most {MOST_COORDINATES:,}"
            )
        if self.image_map == "identity" and (self.ensemble > 1 or self.image_pooling != "average"):
            raise ValueError("image_map identity needs ensemble 1 and image_pooling average")
        if self.image_map == "none" and (self.score != "cosine" or self.hubness):
            raise ValueError("image_map none needs the score cosine and hubness 0")
        if self.dimension % self.ensemble:
            raise ValueError(
                f"an ensemble of {self.ensemble} cannot share {self.dimension} coordinates equally"
            )
        if not 0 < self.word_range <= WIDEST:
            raise ValueError(f"word_range is above 0 and at most {WIDEST}")

    @property
    def has_images(self) -> bool:
        """Whether the model has points of images."""
        return self.image_map != "none"


class OrderEmbedding(nn.Module):
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
        signed = config.score == "cosine"
        encoders = [
            CaptionEncoder(
                len(vocabulary),
                config.word_dimension,
                config.dimension // config.ensemble,
                config.word_range,
                unit=config.text_encoder,
                pooling=config.caption_pooling,
                signed=signed,
                length=config.length,
                backwards=config.directions == "both" and member % 2 == 1,
                states=config.states if config.has_images else 0,
                fixed_words=config.word_vectors == "fixed",
            )
            for member in range(config.ensemble)
        ]
        self.captions: CaptionEncoder | Ensemble = (
            Ensemble(encoders) if config.ensemble > 1 else encoders[0]
        )
        if with_pictures and config.has_images:
            # torchvision takes longer to import than all that captions need.
            from hasse.models.encoders.registry import build_backbone

            self.images = ImageEncoder(
                build_backbone(config.backbone),
                config.dimension,
                pooling=config.image_pooling,
                signed=signed,
                fixed=config.image_map == "identity",
            )
        self.hubness = (
            HubnessCorrection(config.hubness, config.dimension, config.score)
            if config.hubness
            else None
        )
        self._text_inference: TextInference | None = None

    def for_inference(self) -> None:
        """Prepare to encode only: weights and device may not change any longer."""
        if hasattr(self, "images"):
            self.images.backbone = self.images.backbone.for_inference()
        self._text_inference = TextInference(self.captions)
        if self.hubness is not None:
            self.hubness.for_inference()

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
        if self.config.has_images:
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
        return self._corrected(self.to_points(self.images(pixels)), "image")

    def feature_points(self, features: Tensor) -> Tensor:
        """Encode backbone features: (B, F), or (B, cells, F) of cells or regions, -> (B, N)."""
        return self._corrected(self.to_points(self.images.project(features)), "image")

    def _corrected(self, points: Tensor, kind: Kind) -> Tensor:
        return (
            points if self.hubness is None or self.training else self.hubness.correct(points, kind)
        )

    def encode_captions(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the points of captions, in their order: (B, N) float32; see `TextInference`."""
        inference = self._text_inference or TextInference(self.captions)
        points = inference.points(self._numbered(texts), batch_size)
        if self.hubness is None:
            return points
        with torch.inference_mode():
            unit = torch.from_numpy(points).to(self.device)
            corrected: Points = self._corrected(unit, "caption").cpu().numpy()
        return corrected

    def mass(self, text: str) -> float:
        """Return 0, as no text is known to only name things."""
        return 0.0

    def as_premises(self, points: Points) -> Points:
        """Return points of captions as they are: (B, N)."""
        return points

    @torch.inference_mode()
    def encode_sentences(self, texts: Sequence[str], batch_size: int = 256) -> Points:
        """Return the states of sentences, for tasks on top of them, in order: (B, S) float32.

        It is the state before the projection where there is one, as Kiela et al. have it, or else
        the point.
        """
        encoder, *more = self.captions.encoders
        if more or not self.config.states:
            return self.encode_captions(texts, batch_size)
        numbered = self._numbered(texts)
        by_length = sorted(range(len(texts)), key=lambda row: len(numbered[row]))
        found = np.empty((len(texts), self.config.states), np.float32)
        for start in range(0, len(texts), batch_size):
            rows = by_length[start : start + batch_size]
            tokens, lengths = padded([torch.tensor(numbered[row]) for row in rows])
            found[rows] = encoder(tokens.to(self.device), lengths).cpu().numpy()
        return found

    @torch.inference_mode()
    def encode_words(self, words: Sequence[str]) -> Points:
        """Return the mapped vectors of single words where these are fixed, or else their points."""
        encoder, *more = self.captions.encoders
        if more or encoder.word_map is None:
            return self.encode_captions(words)
        numbers = torch.tensor([self.vocabulary.encode(word, 1)[0] for word in words])
        found: Points = encoder.vectors(numbers.to(self.device)).cpu().numpy()
        return found

    def encode_images(self, pictures: Sequence[Image.Image], batch_size: int = 32) -> Points:
        """Return the points of pictures, in their order: (B, N) float32."""
        return encode_pictures(self, pictures, batch_size)

    def encode_features(self, features: NDArray[np.floating], batch_size: int = 1024) -> Points:
        """Return the points of cached features: (B, F), or (B, REGIONS, F), -> (B, N) float32."""
        return encode_blocks(self, self.feature_points, features, batch_size)
