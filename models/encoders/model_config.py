"""The shape of a model, without its weights: "model" in config.json of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from hasse.models.score import SCORES, Score

if TYPE_CHECKING:
    from hasse.lab.encoders.image_encoder import ImageEncoder
    from hasse.lab.encoders.text_encoder import CaptionEncoder

ImagePooling = Literal["average", "max", "regions"]
CaptionPooling = Literal["last", "max"]
PointLength = Literal["unit", "learned"]
Directions = Literal["forward", "both"]

MAX_WORD_RANGE = 1000  # with larger ones, training makes no progress
MAX_COORDINATES = 65_536  # of a point or a word: the GRU has 3 x coordinates^2 weights

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "score": SCORES,
    "image_pooling": get_args(ImagePooling),
    "caption_pooling": get_args(CaptionPooling),
    "length": get_args(PointLength),
    "directions": get_args(Directions),
}
# Options that only models of studies have. Earlier versions wrote them, with these values, for all
# other models too (`dropout` among the options of the training).
_OF_STUDIES: Mapping[str, object] = {
    "text_encoder": "gru",
    "states": 0,
    "word_vectors": "learned",
    "image_map": "linear",
    "dropout": 0.0,
}
# Entry points: shapes of models of other packages, by their text encoder.
_SHAPES = "hasse.shapes"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a model: enough, with weights and words, to encode pictures and captions.

    Attributes:
        score: of images and captions; see `models.score`.
        backbone: the name of an encoder of pictures in `hasse.lab.encoders.registry`.
        image_pooling: of the backbone's last grid. "average": of its features, as torchvision's
            networks are trained. "max": the maximum of the cells' points in each coordinate, so
            small things count; for a backbone that learns. "regions": the maximum plus the mean of
            the points of the whole picture and of its nine regions, also for a frozen backbone.
        dimension: N, the dimension of a point; also the width of the text encoder.
        word_dimension: the dimension of a word vector.
        caption_pooling: of a caption's states: "last", as in the paper, or "max", the maximum of
            all states in each coordinate.
        max_words: words of a caption after this many are ignored.
        word_range: word vectors are initialised uniformly between minus and plus this. With the
            paper's 0.1 all words are nearly alike at first: fine if a caption's words identify its
            image together, slow if a single word (a colour) has to.
        length: of a caption's point: "unit", as of an image's, or "learned", between 0 and 1, so
            that captions can follow from captions; see `CaptionEncoder`.
        ensemble: number of models that learn side by side, each with N / ensemble coordinates and
            points of one length. The violation (or the cosine) over all coordinates is the mean of
            theirs, so they are stored and searched as one model.
        directions: of reading captions: "forward", or "both": every second member of the ensemble
            reads backwards, so that members make different errors.
        hubness: number of reference images, and captions, of the training for the hubness
            correction; see `hasse.models.encoders.hubness`. 0: no correction.
        is_packable: whether captions can be encoded without torch.
        has_free_order: whether a training may permute the coordinates.
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
                allowed = ", ".join(choices)
                raise ValueError(f"{name} is one of {allowed}, not '{getattr(self, name)}'")
        if self.length == "learned" and self.score != "order":
            raise ValueError("length is learned for the score order only")
        if self.hubness < 0:
            raise ValueError("hubness is at least 0")
        if self.hubness and self.length != "unit":
            raise ValueError("hubness correction needs points of unit length: leave length at unit")
        if min(self.dimension, self.word_dimension, self.max_words, self.ensemble) < 1:
            raise ValueError("dimension, word_dimension, max_words and ensemble are at least 1")
        if max(self.dimension, self.word_dimension) > MAX_COORDINATES:
            raise ValueError(f"dimension and word_dimension are at most {MAX_COORDINATES:,}")
        if self.dimension % self.ensemble:
            raise ValueError(
                f"an ensemble of {self.ensemble} cannot share {self.dimension} coordinates equally"
            )
        if not 0 < self.word_range <= MAX_WORD_RANGE:
            raise ValueError(f"word_range is above 0 and at most {MAX_WORD_RANGE}")

    def reads_backwards(self, member: int) -> bool:
        """Return whether a member of the ensemble reads captions backwards."""
        return self.directions == "both" and member % 2 == 1

    def caption_encoder(self, words: int, member: int) -> CaptionEncoder:
        """Make a member of the ensemble, for a number of words, with random weights."""
        from hasse.lab.encoders.text_encoder import CaptionEncoder  # needs torch

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
        """Make the encoder of pictures, with random weights; None if a model has none."""
        # Importing torchvision takes longer than everything that captions need.
        from hasse.lab.encoders.image_encoder import ImageEncoder
        from hasse.lab.encoders.registry import build_backbone

        return ImageEncoder(
            build_backbone(self.backbone),
            self.dimension,
            pooling=self.image_pooling,
            signed=self.score == "cosine",
        )


def without_options_of_studies(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model without those of studies, if all of these are the defaults."""
    if any(options.get(name, default) != default for name, default in _OF_STUDIES.items()):
        return dict(options)
    return {name: value for name, value in options.items() if name not in _OF_STUDIES}


def config_from_options(options: Mapping[str, Any]) -> ModelConfig:
    """Make the shape of a model, or of a study's model, from its options.

    An entry point of the group `hasse.shapes` names the class of each text encoder of a study.

    Raises:
        KeyError: the named text encoder is not installed.
        TypeError, ValueError: the options are not those of a model.
    """
    shape = without_options_of_studies(options)
    if shape.keys() <= {option.name for option in fields(ModelConfig)}:
        return ModelConfig(**shape)
    encoder = str(shape.get("text_encoder", "gru"))
    study: type[ModelConfig] = entry_points(group=_SHAPES)[encoder].load()
    return study(**shape)
