"""How to train a model of images and captions: all that can be chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from hasse.models.checkpoints.weight_quantization import WeightDtype
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.model import ModelConfig

Schedule = Literal["constant", "cosine", "exponential"]

# Of whatever scales a step: the product of two such numbers is still a float32.
LARGEST = 1e18


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How to train; the defaults are the paper's (section 4.4).

    Attributes:
        preprocessing: how pictures become pixels.
        epochs: passes over the images.
        batch_size: images in a batch.
        captions_per_image: random captions of each image in a batch; an image with fewer
            gives them all. More than one pays where the images are the costly part.
        optimizer: "adam", or "sgd": plain gradient descent, without momentum, on the mean of the
            loss over captions.
        learning_rate: the optimiser's, at its highest.
        schedule: "constant"; "cosine", from the highest to zero over all epochs; or "exponential",
            to a hundredth.
        warm_up: steps over which the learning rate rises from zero.
        weight_decay: decoupled, on every weight.
        loss: "ranking", the paper's hinge; "hardest", that of the nearest false pair alone, with
            which little is learned from nothing; or "contrastive"; see `models.training.loss`.
        margin: of the ranking and the hardest loss.
        inverse_temperature: of the contrastive loss, in inverse units of the penalty.
        entailment: weight of the same loss of captions among themselves, premises in the place of
            images, where it is known which caption follows from which.
        distillation: weight of what the caption encoder misses of the teacher's points of texts,
            where there are features of texts; see `hasse.studies.photographs.lesson`.
        other_texts: texts without images in a batch, likewise.
        derived: weight of the same loss of images and texts derived from their captions.
        classes: weight of the same loss of pictures of classes and names of theirs.
        class_pictures: of those in a batch.
        clip_norm: the longest gradient of one weight tensor; longer ones are scaled down.
        validate_every: epochs between two validations; the last epoch always has one.
        patience: epochs without a better validation before stopping early.
        dropout: share of a caption's state that a step leaves out before its projection.
        decoding: weight of the loss of a decoder which writes a caption, given the state after
            another one of the same image; `captions_per_image` is at least 2 then. A model without
            images learns from it alone.
        min_word_count: rarer words of the training captions are unknown; where word vectors are
            fixed, they are only not written by a decoder.
        views: read the features of random crops too, where features have them.
        unknown_rate: share of words read as unknown in training, so that "unknown" is learned.
        precision: "bfloat16" multiplies the matrices of the GRU and of the projection of images
            in that type, and runs a backbone that learns in mixed precision; weights, states and
            points stay float32. With "float32", a GPU multiplies the GRU's matrices in TF32.
        saved_dtype: of the matrices in the checkpoint (`models.checkpoints.weight_quantization`).
        seed: of everything random.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    epochs: int = 30
    batch_size: int = 128
    captions_per_image: int = 1
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    warm_up: int = 0
    weight_decay: float = 0.0
    loss: Literal["ranking", "hardest", "contrastive"] = "ranking"
    margin: float = 0.05
    inverse_temperature: float = 30.0
    entailment: float = 0.0
    distillation: float = 4.0
    other_texts: int = 768
    derived: float = 0.5
    classes: float = 0.3
    class_pictures: int = 128
    dropout: float = 0.0
    decoding: float = 0.0
    clip_norm: float = 2.0
    validate_every: int = 1
    patience: int = 5
    min_word_count: int = 1
    views: bool = False
    unknown_rate: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    saved_dtype: WeightDtype = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with (ValueError)."""
        counts = (
            *(self.epochs, self.patience, self.captions_per_image, self.min_word_count),
            *(self.validate_every, self.other_texts, self.class_pictures),
        )
        if min(counts) < 1 or self.batch_size < 2:
            raise ValueError(
                "epochs, patience, captions_per_image, min_word_count, validate_every, other_texts "
                "and class_pictures are at least 1, batch_size at least 2"
            )
        above = (self.learning_rate, self.margin, self.inverse_temperature, self.clip_norm)
        most = f"and at most {LARGEST:g}"
        if not all(0 < each <= LARGEST for each in above):
            raise ValueError(
                f"learning_rate, margin, inverse_temperature and clip_norm are above 0 {most}"
            )
        weights = (self.entailment, self.distillation, self.derived, self.classes, self.decoding)
        if not all(0 <= each <= LARGEST for each in (*weights, self.weight_decay, self.warm_up)):
            raise ValueError(
                f"entailment, distillation, derived, classes, decoding, weight_decay and warm_up "
                f"are at least 0 {most}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout is a share, at least 0 and below 1")
        if (self.dropout or self.decoding) and self.model.ensemble > 1:
            raise ValueError("dropout and decoding need ensemble 1")
        if self.decoding and self.captions_per_image < 2:
            raise ValueError("decoding needs captions_per_image of at least 2")
        if not (self.decoding or self.model.has_images):
            raise ValueError("a model without images learns from decoding alone: it is above 0")
        if not 0 <= self.unknown_rate <= 1:
            raise ValueError("unknown_rate is a share, from 0 to 1")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")


def learning_rate(highest: float, schedule: Schedule, step: int, steps: int, warm_up: int) -> float:
    """Return the learning rate of a step (from 0) of `steps`.

    It rises over `warm_up` steps, then stays, or falls to zero along a cosine (Loshchilov and
    Hutter, "SGDR", without restarts), or exponentially to a hundredth.
    """
    rate = highest
    if schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / steps))
    elif schedule == "exponential":
        rate *= 0.01 ** (step / steps)
    return rate * min(1.0, (step + 1) / warm_up) if warm_up else rate
