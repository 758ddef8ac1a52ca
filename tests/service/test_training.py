"""What a training reads is what its configuration says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from safetensors.torch import save_file

from models.backbone import build_backbone
from models.datasets import Caption, Dataset, Image
from models.features import extract
from models.inputs import FeatureInput, PixelInput
from models.model import ModelConfig
from models.parts import PARTS
from models.pictures import Preprocessing
from models.trainer import TrainingError
from models.training_config import TrainingConfig
from service.training import from_features, from_pictures, require_chosen, with_choices


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "nan"),
        ("learning_rate", "1e38"),
        ("clip_norm", "nan"),
        ("sharpness", "1e39"),
        ("margin", "inf"),
        ("weight_decay", "-1"),
        ("weight_decay", "nan"),
        ("weight_decay", "1e39"),
        ("entailment", "-1"),
        ("warm_up", "-5"),
        ("unknown_rate", "2"),
        ("min_word_count", "0"),
        ("batch_size", "1"),
        ("seed", "-1"),
        ("dimension", "100000000000000000000"),
        ("word_dimension", "100000000000"),
        ("resize", "100000000000"),
        ("word_range", "nan"),
        ("word_range", "1e39"),
    ],
)
def test_a_value_that_nothing_is_learned_with_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(TrainingError, match=f"do not go together: .*{name}"):
        with_choices(TrainingConfig(), {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("backbone", "resnet50"), ("crop", "224"), ("crop", "300"), ("pooling", "parts")],
)
def test_a_choice_that_features_have_made_is_refused_and_any_other_kept(
    name: str, value: str
) -> None:
    theirs = with_choices(TrainingConfig(), {"backbone": "vgg19", "crop": 256, "resize": 256})
    assert theirs.model.pooling == "average"
    choices = {"seed": "7", "crop": 256, "pooling": "average", "score": "cosine"}
    kept = with_choices(theirs, choices)
    require_chosen(kept, choices)
    with pytest.raises(TrainingError, match=f"{name} cannot be '{value}': the features decide it"):
        require_chosen(kept, choices | {name: value})


def test_views_are_read_only_where_the_configuration_says_so(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "network.safetensors"
    network = build_backbone("shufflenet_v2_x0_5")
    save_file(dict(network.network.state_dict()), weights)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    looks = Preprocessing(resize=36, crop=32)
    extract(dataset, build_backbone(network.name, weights), looks, tmp_path / "f", views=2)
    for config, views in ((TrainingConfig(), None), (TrainingConfig(views=True), (1, 3, 1024))):
        material = from_features(config, tmp_path / "f", weights, (dataset, dataset))
        for images in material.inputs:
            assert isinstance(images, FeatureInput)
            assert images.features.shape == (1, 1024)
            assert (None if images.views is None else images.views.shape) == views


def test_pictures_that_came_after_their_features_are_told_and_left_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "network.safetensors"
    network = build_backbone("shufflenet_v2_x0_5")
    save_file(dict(network.network.state_dict()), weights)
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    first, second, silent = (
        Image(at, f"{at}.png", tmp_path / "a.png", captions=(Caption(at, at, "a dog"),) * told)
        for at, told in ((1, 1), (2, 1), (3, 0))
    )
    before, after = Dataset("one", (first,)), Dataset("more", (first, second, silent))
    extract(before, network, Preprocessing(resize=36, crop=32), tmp_path / "f")
    lines: list[str] = []
    for collections in ((before, before), (after, before)):
        from_features(TrainingConfig(), tmp_path / "f", weights, collections, skipped=lines.append)
    (line,) = lines
    assert line.startswith("pictures without features, left out: 1 of 3, the first is image 2 (2.")


def test_what_is_measured_is_the_model_in_the_precision_it_is_used_in(tmp_path: Path) -> None:
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    config = TrainingConfig(precision="bfloat16", preprocessing=Preprocessing(resize=36, crop=32))
    material = from_pictures(config, None, (dataset, dataset), tmp_path / "cache", workers=1)
    training, validation = material.inputs
    assert isinstance(training, PixelInput)
    assert isinstance(validation, PixelInput)
    assert (training.bfloat16, validation.bfloat16) == (True, False)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_parts_are_read_where_they_are_wanted_and_there(
    there: bool, wanted: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "network.safetensors"
    network = build_backbone("mobilenet_v2")
    save_file(dict(network.network.state_dict()), weights)
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    looks = Preprocessing(resize=36, crop=32)
    extract(dataset, network, looks, tmp_path / "f", parts=there)
    config = TrainingConfig(model=ModelConfig(pooling="parts" if wanted else "average"))
    material = from_features(config, tmp_path / "f", weights, (dataset, dataset))
    assert material.config.model.pooling == ("parts" if wanted and there else "average")
    (images, _) = material.inputs
    assert isinstance(images, FeatureInput)
    assert images.features.shape == ((1, PARTS, 1280) if wanted and there else (1, 1280))
