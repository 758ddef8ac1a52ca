"""The options of a training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from hasse.lab.encoders.mixed_precision import supports_bfloat16
from hasse.models.checkpoints.weights import WeightDtype
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.images.preprocessing import Preprocessing

Schedule = Literal["constant", "cosine", "exponential"]

# Largest factor of a step. The product of two such numbers is still a float32.
LARGEST_FACTOR = 1e18
_SMALLEST_BATCH = 32  # of `TrainingConfig.for_images`


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How to train; the defaults are the paper's (section 4.4).

    Attributes:
        preprocessing: how pictures become pixels.
        epochs: maximum number of passes over the images.
        batch_size: images in a batch.
        least_steps: with fewer steps in an epoch the batch is smaller; see `for_images`.
        captions_per_image: random captions of each image in a batch; an image with fewer
            gives them all. More than one pays where the images take most of the time.
        optimizer: "adam", or "sgd": plain gradient descent, without momentum, on the mean of the
            loss over captions.
        learning_rate: the highest learning rate.
        schedule: "constant"; "cosine", from the highest to zero over all epochs; or "exponential",
            to a hundredth.
        warm_up: steps over which the learning rate rises from zero.
        weight_decay: decoupled, on every weight.
        loss: "ranking", the paper's hinge, or "contrastive"; see `models.training.loss`.
        margin: the margin of the ranking loss.
        inverse_temperature: factor of the penalty in the contrastive loss.
        entailment: weight of the same loss between captions, where the dataset knows which
            caption follows from which. Premises take the place of images.
        clip_norm: the longest gradient of one weight tensor; longer ones are scaled down.
        validate_every: epochs between two validations; the last epoch always has one.
        patience: epochs without a better validation before stopping early.
        min_word_count: rarer words of the training captions are unknown.
        views: also read the features of random crops, where features have them.
        unknown_rate: share of words that training replaces by the unknown word.
        precision: "bfloat16" multiplies matrices of the GRU and of the images' projection in
            that type, and trains a backbone in mixed precision. Weights, states and points stay
            float32.
        saved_dtype: type of the checkpoint's matrices (`models.checkpoints.weights`).
        seed: random seed.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    epochs: int = 30
    batch_size: int = 128
    least_steps: int = 0
    captions_per_image: int = 1
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "constant"
    warm_up: int = 0
    weight_decay: float = 0.0
    loss: Literal["ranking", "contrastive"] = "ranking"
    margin: float = 0.05
    inverse_temperature: float = 30.0
    entailment: float = 0.0
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
        """Refuse impossible options (ValueError)."""
        counts = (
            *(self.epochs, self.patience, self.captions_per_image, self.min_word_count),
            self.validate_every,
        )
        if min(counts) < 1 or self.batch_size < 2:
            raise ValueError(
                "epochs, patience, captions_per_image, min_word_count and validate_every are at "
                "least 1, batch_size at least 2"
            )
        positive = (self.learning_rate, self.margin, self.inverse_temperature, self.clip_norm)
        at_most = f"and at most {LARGEST_FACTOR:g}"
        if not all(0 < value <= LARGEST_FACTOR for value in positive):
            raise ValueError(
                f"learning_rate, margin, inverse_temperature and clip_norm are above 0 {at_most}"
            )
        not_negative = (self.entailment, self.weight_decay, self.warm_up, self.least_steps)
        if not all(0 <= value <= LARGEST_FACTOR for value in not_negative):
            raise ValueError(
                f"entailment, weight_decay, warm_up and least_steps are at least 0 {at_most}"
            )
        if not 0 <= self.unknown_rate <= 1:
            raise ValueError("unknown_rate is a share, from 0 to 1")
        if not 0 <= self.seed < 2**63:
            raise ValueError("seed is a whole number from 0 to 2^63 - 1")

    def for_device(
        self, device: str, supported: Callable[[str], bool] = supports_bfloat16
    ) -> TrainingConfig:
        """Return the options for a device: float32 where it cannot multiply bfloat16."""
        return self if supported(device) else replace(self, precision="float32")

    def for_images(self, images: int) -> TrainingConfig:
        """Return the options for a number of images: for few, smaller batches at a lower rate.

        Both are halved until an epoch has `least_steps`, or the batch has 32 images.
        """
        config = self
        while images < self.least_steps * config.batch_size:
            if config.batch_size < 2 * _SMALLEST_BATCH:
                break
            config = replace(
                config,
                batch_size=config.batch_size // 2,
                learning_rate=config.learning_rate / 2,
            )
        return replace(config, least_steps=0)


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
