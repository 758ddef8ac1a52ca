"""What a training reads is what its configuration says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from safetensors.torch import save_file

from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.extraction import ExtractionOptions, extract
from hasse.lab.features.feature_store import FeaturesError, FeatureStore
from hasse.lab.pipelines.training import (
    part_to_measure,
    require_chosen,
    split_for_training,
)
from hasse.lab.pipelines.training_inputs import (
    from_features,
    from_pictures,
    learning_backbone,
    note_weights,
)
from hasse.lab.training.config import TrainingConfig
from hasse.lab.training.inputs import FeatureInput, PixelInput, TrainingInputs
from hasse.lab.training.recipe import Recipe
from hasse.lab.training.run import TrainingError
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.models.encoders.model_config import ModelConfig
from hasse.models.encoders.regions import REGIONS
from hasse.models.images.preprocessing import Preprocessing
from tests.tiny import TINY
from tests.tiny_clip import NAME, tiny_clip
from tests.tiny_network import FEATURES


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "nan"),
        ("learning_rate", "1e38"),
        ("clip_norm", "nan"),
        ("inverse_temperature", "1e39"),
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
def test_value_that_nothing_is_learned_with_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(TrainingError, match=f"do not go together: .*{name}"):
        Recipe().with_options({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("backbone", "torchvision/resnet50"),
        ("crop", "224"),
        ("crop", "300"),
        ("image_pooling", "regions"),
    ],
)
def test_choice_that_features_have_made_is_refused_and_any_other_kept(
    name: str, value: str
) -> None:
    theirs = Recipe().with_options({"backbone": "torchvision/vgg19", "crop": 256, "resize": 256})
    assert theirs.config.model.image_pooling == "average"
    choices = {"seed": "7", "crop": 256, "image_pooling": "average", "score": "cosine"}
    kept = theirs.with_options(choices)
    require_chosen(kept, choices)
    with pytest.raises(TrainingError, match=f"{name} cannot be '{value}': the features decide it"):
        require_chosen(kept, choices | {name: value})


@pytest.mark.parametrize("name", ["learning_rat", "distillation", "model"])
def test_option_that_there_is_not_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(TrainingError, match=f"no training option '{name}'; there are: .*margin"):
        Recipe().with_options({name: "1"})


@pytest.mark.parametrize(("name", "value"), [("epochs", "many"), ("score", "sine")])
def test_value_of_another_type_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(TrainingError, match=f"{name} cannot be '{value}': input should be"):
        Recipe().with_options({name: value})


def test_every_tenth_image_is_held_out_where_there_are_no_splits() -> None:
    def plain(count: int) -> Dataset:
        return Dataset("plain", tuple(Image(at, f"{at}", Path(f"{at}")) for at in range(count)))

    learned, held_out = split_for_training(plain(25), "train", "val")
    assert [image.id for image in held_out.images] == [9, 19]
    assert [image.id for image in learned.images] == [at for at in range(25) if at % 10 != 9]
    with pytest.raises(DatasetError, match=r"has 9 images and no splits: .* at least 10"):
        split_for_training(plain(9), "train", "val")
    lines: list[str] = []
    measured = part_to_measure(plain(25), None, "test", lines.append)
    assert measured.images == held_out.images
    assert "measuring the 2 pictures of 25 that 'hasse lab train' does not learn from" in lines[0]
    assert len(part_to_measure(plain(25), "", "test", lines.append)) == 25
    halves = tuple(replace(image, split="ab"[image.id % 2]) for image in plain(4).images)
    learned, held_out = split_for_training(Dataset("halves", halves), "b", "a")
    assert [[image.id for image in part.images] for part in (learned, held_out)] == [[1, 3], [0, 2]]
    found = part_to_measure(Dataset("halves", halves), None, "b", lines.append)
    assert found == learned
    assert len(lines) == 1, "splits need no remark"


def test_features_are_read_with_their_own_network_and_looks_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    networks = [build_backbone(TINY) for _ in range(2)]
    for name, network in zip(("theirs", "other"), networks, strict=True):
        save_file(dict(network.network.state_dict()), f"{name}.safetensors")
    Pillow.new("RGB", (40, 40)).save("a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    renamed = Dataset("other", (Image(1, "b.png", tmp_path / "a.png"),))
    looks, folder = Preprocessing(resize=36, crop=32), tmp_path / "f"
    extract(dataset, networks[0], looks, folder)

    def read(
        weights: Path | None, held_out: Dataset = dataset, config: TrainingConfig | None = None
    ) -> tuple[TrainingConfig, TrainingInputs]:
        return from_features(config or TrainingConfig(), folder, weights, (dataset, held_out))

    with pytest.raises(
        FeaturesError,
        match=f"weights of {TINY} that are not noted beside them",
    ):
        read(None)
    note_weights(folder, Path("theirs.safetensors"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    config, inputs = read(None)
    assert config.preprocessing == looks
    assert config.model.backbone == TINY
    assert inputs.backbone_weights is not None
    for key, value in networks[0].state_dict().items():
        assert inputs.backbone_weights[key].equal(value), key
    with pytest.raises(
        FeaturesError, match=r"made with other weights .* than .*other\.safetensors"
    ):
        read(tmp_path / "other.safetensors")
    with pytest.raises(FeaturesError, match=r"image 1 is not b\.png"):
        read(None, renamed)
    (tmp_path / "theirs.safetensors").rename(tmp_path / "moved.safetensors")
    with pytest.raises(FeaturesError, match=r"theirs\.safetensors, which is not there any more"):
        read(None)
    read(tmp_path / "moved.safetensors")


def test_weights_that_lie_in_a_folder_are_read_again(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    network, folder = build_backbone(NAME, tmp_path / "clip"), tmp_path / "f"
    extract(dataset, network, network.preprocessing, folder)
    note_weights(folder, tmp_path / "clip")
    _, inputs = from_features(TrainingConfig(), folder, None, (dataset, dataset))
    assert inputs.backbone_weights is not None
    assert inputs.backbone_weights.keys() == network.state_dict().keys()


def test_views_are_read_only_where_the_configuration_says_so(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "network.safetensors"
    network = build_backbone(TINY)
    save_file(dict(network.network.state_dict()), weights)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    looks = Preprocessing(resize=36, crop=32)
    extract(
        dataset,
        build_backbone(network.name, weights),
        looks,
        tmp_path / "f",
        options=ExtractionOptions(views=2),
    )
    whole = FeatureStore.open(tmp_path / "f").select([1], regions=False)
    for config, views in ((TrainingConfig(), None), (TrainingConfig(views=True), (1, 3, FEATURES))):
        _, inputs = from_features(config, tmp_path / "f", weights, (dataset, dataset))
        for _, images in (inputs.training, inputs.validation):
            assert isinstance(images, FeatureInput)
            assert images.features.shape == (1, FEATURES)
            np.testing.assert_array_equal(images.features, whole)
            assert (None if images.views is None else images.views.shape) == views


def test_pictures_that_came_after_their_features_are_told_and_left_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "network.safetensors"
    network = build_backbone(TINY)
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


def test_network_that_learns_begins_with_the_weights_it_is_given(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build_backbone(TINY)
    given = tmp_path / "network.safetensors"
    save_file(dict(network.network.state_dict()), given)
    shape, looks = ModelConfig(backbone=network.name), Preprocessing(resize=36, crop=32)
    config = TrainingConfig(shape, looks)
    assert learning_backbone(config, None) is None
    begun = learning_backbone(config, given)
    assert begun is not None
    assert all(begun[key].equal(value) for key, value in network.state_dict().items())


def test_training_measures_the_model_in_the_precision_it_is_used_in(tmp_path: Path) -> None:
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    config = TrainingConfig(precision="bfloat16", preprocessing=Preprocessing(resize=36, crop=32))
    inputs = from_pictures(config, None, (dataset, dataset), tmp_path / "cache")
    training, validation = inputs.training[1], inputs.validation[1]
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
    network = build_backbone("torchvision/mobilenet_v2")
    save_file(dict(network.network.state_dict()), weights)
    Pillow.new("RGB", (40, 40)).save(tmp_path / "a.png")
    dataset = Dataset("one", (Image(1, "a.png", tmp_path / "a.png"),))
    looks = Preprocessing(resize=36, crop=32)
    extract(dataset, network, looks, tmp_path / "f", options=ExtractionOptions(regions=there))
    config = TrainingConfig(model=ModelConfig(image_pooling="regions" if wanted else "average"))
    config, inputs = from_features(config, tmp_path / "f", weights, (dataset, dataset))
    assert config.model.image_pooling == ("regions" if wanted and there else "average")
    _, images = inputs.training
    assert isinstance(images, FeatureInput)
    assert images.features.shape == ((1, REGIONS, 1280) if wanted and there else (1, 1280))
