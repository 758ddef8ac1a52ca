"""Ways to train that are known to work, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.model import ModelConfig
from models.pictures import Preprocessing
from models.trainer import TrainingConfig


@dataclass(frozen=True, slots=True)
class Preset:
    """A training and how it reads pictures when the backbone learns too.

    Attributes:
        config: what to train and how.
        mirror: whether a picture and its mirror image have the same captions.
        bfloat16: run the backbone in mixed precision.
    """

    config: TrainingConfig
    mirror: bool = True
    bfloat16: bool = False


PRESETS: Mapping[str, Preset] = {
    # Vendrov et al., section 4.4: on cached features of a frozen network.
    "paper": Preset(TrainingConfig()),
    # The built-in model: a small network learns from scratch, with the caption encoder.
    "scenes": Preset(
        TrainingConfig(
            model=ModelConfig(backbone="shufflenet_v2_x1_0", dimension=256, word_dimension=128),
            preprocessing=Preprocessing(resize=128, crop=112),
        )
    ),
}
