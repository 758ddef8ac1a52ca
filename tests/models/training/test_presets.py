from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from hasse.models.score import SCORES
from hasse.models.training.config import TrainingConfig
from hasse.models.training.presets import PRESETS, Preset


def test_each_score_of_the_paper_has_the_preset_of_its_name() -> None:
    for score in SCORES:
        config = PRESETS[score].config
        assert config.model.score == score
        assert (config.model.dimension, config.model.word_dimension) == (1024, 300)
        assert config.model.backbone == "torchvision/vgg19"
        assert config.margin == (0.2 if score == "cosine" else 0.05)
        assert (config.batch_size, config.captions_per_image) == (128, 1)
        assert (config.learning_rate, config.clip_norm) == (1e-3, 2.0)


@pytest.mark.parametrize(("name", "unit"), [("mnlm", "lstm"), ("mnlm-linear", "sum")])
def test_presets_of_kiros_have_the_papers_numbers(name: str, unit: str) -> None:
    config = PRESETS[name].config
    assert (config.model.text_encoder, config.model.score) == (unit, "cosine")
    assert (config.model.dimension, config.model.word_dimension) == (300, 300)
    assert (config.batch_size, config.margin, config.loss) == (40, 0.2, "ranking")
    assert (config.optimizer, config.learning_rate) == ("sgd", 1.0)


@pytest.mark.parametrize("name", ["cap2img", "cap2cap", "cap2both", "cap2order"])
def test_presets_of_kiela_have_the_papers_encoder(name: str) -> None:
    config = PRESETS[name].config
    model = config.model
    assert (model.text_encoder, model.states, model.word_vectors) == ("bilstm", 1024, "fixed")
    assert (config.dropout, config.optimizer) == (0.5, "adam")
    assert model.image_map == {"cap2cap": "none", "cap2order": "linear"}.get(name, "identity")
    assert model.score == ("order" if name == "cap2order" else "cosine")
    assert bool(config.decoding) == (name in {"cap2cap", "cap2both"})


@pytest.mark.parametrize(
    ("images", "batch", "rate"),
    [(6000, 512, 8e-3), (4096, 512, 8e-3), (4095, 256, 4e-3), (1000, 64, 1e-3), (20, 32, 5e-4)],
)
def test_few_images_are_learned_in_smaller_batches_at_a_lower_rate(
    images: int, batch: int, rate: float
) -> None:
    config = PRESETS["hasse"].suited(images)
    assert config.batch_size == batch
    assert config.learning_rate == pytest.approx(rate)
    assert PRESETS["order"].suited(images) == PRESETS["order"].config


def test_a_small_batch_is_left_as_it_is() -> None:
    config = TrainingConfig(batch_size=16)
    assert Preset(config, steps=8).suited(20) == config


@pytest.mark.parametrize(("has", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_a_device_without_products_in_bfloat16_learns_without(
    has: bool, precision: Literal["float32", "bfloat16"]
) -> None:
    of = {"cuda:1": has, "cpu": not has}
    there = PRESETS["hasse"].on("cuda:1", of.__getitem__)
    assert there.config == replace(PRESETS["hasse"].config, precision=precision)
    assert there.steps == PRESETS["hasse"].steps
    assert PRESETS["order"].on("cpu") == PRESETS["order"]
