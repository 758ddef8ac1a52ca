"""The shape of a model, without its weights: what config.json of a checkpoint says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from hasse.models.encoders.units.registry import text_units
from hasse.models.score import SCORES, Score

ImagePooling = Literal["average", "max", "regions"]
CaptionPooling = Literal["last", "max"]
PointLength = Literal["unit", "learned"]
Directions = Literal["forward", "both"]
WordTable = Literal["learned", "fixed"]
ImageMap = Literal["linear", "identity", "none"]

WIDEST = 1000  # largest word_range that training makes progress from
MOST_COORDINATES = 65_536  # of a point or a word: the GRU has three times their square of weights

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

    @property
    def is_packable(self) -> bool:
        """Whether captions are encoded without torch: by a GRU whose states are the points."""
        has_head = self.states and self.has_images
        return self.text_encoder == "gru" and self.word_vectors == "learned" and not has_head

    def reads_backwards(self, member: int) -> bool:
        """Tell whether a member of the ensemble reads captions from the last word to the first."""
        return self.directions == "both" and member % 2 == 1
