"""Ways to train that are known to work, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hasse.models.encoders.mixed_precision import supports_bfloat16
from hasse.models.images.preprocessing import Preprocessing
from hasse.models.model import ModelConfig
from hasse.models.training.config import TrainingConfig


@dataclass(frozen=True, slots=True)
class Preset:
    """A training, for any number of images.

    Attributes:
        config: what to train and how.
        steps: that an epoch should have at least; see `suited`.
    """

    config: TrainingConfig
    steps: int = 0

    def on(self, device: str, supported: Callable[[str], bool] = supports_bfloat16) -> Preset:
        """Return the preset for a device: one without products in bfloat16 does without."""
        if supported(device):
            return self
        return replace(self, config=replace(self.config, precision="float32"))

    def suited(self, images: int) -> TrainingConfig:
        """Return the training for so many images: of few, in smaller batches at a lower rate.

        Both are halved until an epoch has enough steps, but batches of 32 stay.
        """
        config = self.config
        while images < self.steps * config.batch_size and config.batch_size >= 64:
            config = replace(
                config,
                batch_size=config.batch_size // 2,
                learning_rate=config.learning_rate / 2,
            )
        return config


_MNLM = TrainingConfig(
    model=ModelConfig(
        score="cosine", dimension=300, word_dimension=300, word_range=0.08, text_encoder="lstm"
    ),
    epochs=150,
    batch_size=40,
    optimizer="sgd",
    learning_rate=1.0,
    schedule="exponential",
    margin=0.2,
    patience=150,
)

_CAP2IMG = TrainingConfig(
    model=ModelConfig(
        score="cosine",
        text_encoder="bilstm",
        states=1024,
        word_vectors="fixed",
        image_map="identity",
    ),
    margin=0.2,
    dropout=0.5,
    min_word_count=3,
    saved_dtype="float16",
)
_DECODING = replace(_CAP2IMG, decoding=1.0, captions_per_image=2)

PRESETS: Mapping[str, Preset] = {
    # Vendrov et al., section 4.4 and Table 2, on cached features of a frozen network; the
    # features bring one crop or ten.
    "order": Preset(TrainingConfig()),
    "order-reversed": Preset(TrainingConfig(model=ModelConfig(score="order-reversed"))),
    "cosine": Preset(TrainingConfig(model=ModelConfig(score="cosine"), margin=0.2)),
    # Kiros et al. (2014), section 3.1, and the linear encoder of section 3.2. Their word vectors
    # are fixed ones of another corpus; these are learned. The decay of the rate is not given.
    "mnlm": Preset(_MNLM),
    "mnlm-linear": Preset(replace(_MNLM, model=replace(_MNLM.model, text_encoder="sum"))),
    # Kiela et al. (2018): sentences grounded in fixed features, in other captions of the same
    # image, or in both; and in the order, for which features are mapped as always here. Rate and
    # margin are not given there.
    "cap2img": Preset(_CAP2IMG),
    "cap2cap": Preset(replace(_DECODING, model=replace(_CAP2IMG.model, image_map="none"))),
    "cap2both": Preset(_DECODING),
    "cap2order": Preset(
        replace(
            _CAP2IMG,
            model=replace(_CAP2IMG.model, score="order", image_map="linear"),
            margin=0.05,
        )
    ),
    # Better with the same network (docs/training.md): max pooling of a caption's states, a
    # contrastive loss in large batches, a rate that falls to zero, features of regions and random
    # crops of a picture where there are some, an ensemble of two of which one reads backwards,
    # and hubness correction.
    "hasse": Preset(
        TrainingConfig(
            model=ModelConfig(
                image_pooling="regions",
                caption_pooling="max",
                ensemble=2,
                directions="both",
                hubness=2000,
            ),
            epochs=32,
            batch_size=512,
            learning_rate=8e-3,
            loss="contrastive",
            inverse_temperature=45.0,
            schedule="cosine",
            warm_up=20,
            weight_decay=0.1,
            patience=32,
            views=True,
            unknown_rate=0.15,
            precision="bfloat16",
        ),
        steps=8,
    ),
    # The built-in model of photographs: `hasse` with a caption encoder that also learns from texts
    # without images, in words that no caption has (models.training.texts).
    "photographs": Preset(
        TrainingConfig(
            model=ModelConfig(
                image_pooling="regions",
                word_dimension=128,
                caption_pooling="max",
                ensemble=2,
                directions="both",
                hubness=1000,
            ),
            epochs=55,
            batch_size=512,
            learning_rate=3e-3,
            loss="contrastive",
            inverse_temperature=45.0,
            schedule="cosine",
            warm_up=50,
            weight_decay=0.1,
            distillation=10.0,
            classes=0.6,
            validate_every=11,
            patience=55,
            min_word_count=2,
            views=True,
            unknown_rate=0.05,
            precision="bfloat16",
            saved_dtype="int8",
        ),
    ),
    # The built-in model of scenes: a small network learns from scratch, with the caption encoder.
    # Small things decide what is true of a scene and of a caption, hence max pooling; images are
    # the costly part of a step, hence four captions to each. Which captions follow from which
    # is known, so they learn from each other too.
    "scenes": Preset(
        TrainingConfig(
            model=ModelConfig(
                backbone="torchvision/regnet_x_400mf",
                image_pooling="max",
                dimension=512,
                word_dimension=128,
                max_words=64,
                word_range=1.0,
                caption_pooling="max",
                length="learned",
            ),
            preprocessing=Preprocessing(
                resize=140, crop=128, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
            ),
            epochs=14,
            batch_size=64,
            captions_per_image=4,
            learning_rate=2e-3,
            entailment=2.0,
            schedule="cosine",
            warm_up=200,
            weight_decay=1e-4,
            patience=14,
            unknown_rate=0.005,
            precision="bfloat16",
            saved_dtype="float16",
        ),
    ),
}
