"""The shape of a model, without its weights: what config.json of a checkpoint says."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from hasse.models.score import SCORES, Score

if TYPE_CHECKING:
    from hasse.models.encoders.image_encoder import ImageEncoder
    from hasse.models.encoders.text_encoder import CaptionEncoder

ImagePooling = Literal["average", "max", "regions"]
CaptionPooling = Literal["last", "max"]
PointLength = Literal["unit", "learned"]
Directions = Literal["forward", "both"]

WIDEST = 1000  # largest word_range that training makes progress from
MOST_COORDINATES = 65_536  # of a point or a word: the GRU has three times their square of weights

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "score": SCORES,
    "image_pooling": get_args(ImagePooling),
    "caption_pooling": get_args(CaptionPooling),
    "length": get_args(PointLength),
    "directions": get_args(Directions),
}
# Options that only models of studies have. Earlier versions wrote these values of them for all
# other models, that of `dropout` among the options of the training.
_OF_STUDIES: Mapping[str, object] = {
    "text_encoder": "gru",
    "states": 0,
    "word_vectors": "learned",
    "image_map": "linear",
    "dropout": 0.0,
}
_STUDIES = "hasse.studies"


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
        is_packable: whether captions are encoded without torch.
        has_free_order: whether a training may give the coordinates any order.
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
    is_packable: ClassVar[bool] = True
    has_free_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(choices)
                raise ValueError(f"{name} is one of {known}, not '{getattr(self, name)}'")
        if self.length == "learned" and self.score != "order":
            raise ValueError("length is learned for the score order only")
        if self.hubness < 0:
            raise ValueError("hubness is at least 0")
        if self.hubness and self.length != "unit":
            raise ValueError("hubness correction needs points of unit length: leave length at unit")
        if min(self.dimension, self.word_dimension, self.max_words, self.ensemble) < 1:
            raise ValueError("dimension, word_dimension, max_words and ensemble are at least 1")
        if max(self.dimension, self.word_dimension) > MOST_COORDINATES:
            raise ValueError(f"dimension and word_dimension are at most {MOST_COORDINATES:,}")
        if self.dimension % self.ensemble:
            raise ValueError(
                f"an ensemble of {self.ensemble} cannot share {self.dimension} coordinates equally"
            )
        if not 0 < self.word_range <= WIDEST:
            raise ValueError(f"word_range is above 0 and at most {WIDEST}")

    def reads_backwards(self, member: int) -> bool:
        """Tell whether a member of the ensemble reads captions from the last word to the first."""
        return self.directions == "both" and member % 2 == 1

    def caption_encoder(self, words: int, member: int) -> CaptionEncoder:
        """Make a member of the ensemble, for a number of words, with random weights."""
        from hasse.models.encoders.text_encoder import CaptionEncoder  # needs torch

        return CaptionEncoder(
            words,
            self.word_dimension,
            self.dimension // self.ensemble,
            self.word_range,
            pooling=self.caption_pooling,
            signed=self.score == "cosine",
            length=self.length,
            backwards=self.reads_backwards(member),
        )

    def image_encoder(self) -> ImageEncoder | None:
        """Make the encoder of pictures, with random weights; None where a model has none."""
        # torchvision takes longer to import than all that captions need.
        from hasse.models.encoders.image_encoder import ImageEncoder
        from hasse.models.encoders.registry import build_backbone

        return ImageEncoder(
            build_backbone(self.backbone),
            self.dimension,
            pooling=self.image_pooling,
            signed=self.score == "cosine",
        )


def without_options_of_studies(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model without those of studies, unless one is not the usual one."""
    if any(options.get(name, usual) != usual for name, usual in _OF_STUDIES.items()):
        return dict(options)
    return {name: value for name, value in options.items() if name not in _OF_STUDIES}


def shape_of(options: Mapping[str, Any]) -> ModelConfig:
    """Return the shape with these options, which a study may have.

    `MODEL_CONFIGS` of the package of studies has the class of each text encoder there.

    Raises:
        KeyError: the text encoder, which is named, is not installed.
        TypeError, ValueError: the options are not those of a model.
    """
    own = without_options_of_studies(options)
    if own.keys() <= {one.name for one in fields(ModelConfig)}:
        return ModelConfig(**own)
    known: Mapping[str, str] = {}
    if find_spec(_STUDIES) is not None:
        known = pkgutil.resolve_name(f"{_STUDIES}:MODEL_CONFIGS")
    study: type[ModelConfig] = pkgutil.resolve_name(known[own.get("text_encoder", "gru")])
    return study(**own)
