"""A dataset through both encoders: what cannot be encoded is told and left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hasse.lab.encoders.registry import build_backbone
from hasse.lab.features.extraction import extract
from hasse.lab.features.feature_store import FeaturesError
from hasse.lab.features.source import with_features
from hasse.lab.pipelines.dataset_encoding import encode_dataset
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from hasse.service.writing.image_source import ImageSource
from tests.service.collection import png
from tests.tiny import tiny_model


def pictures(folder: Path, count: int) -> Dataset:
    """Describe pictures with a caption each, the second of which is cut short."""
    images = []
    for at in range(count):
        path = folder / f"{at}.png"
        path.write_bytes(png(at)[: 900 if at == 1 else None])
        images.append(Image(at, path.name, path, captions=(Caption(at, at, "a dog " * (at + 1)),)))
    return Dataset("some", tuple(images))


@pytest.mark.parametrize("cached", [False, True])
def test_image_that_cannot_be_encoded_is_named_and_left_out_with_its_captions(
    tmp_path: Path, cached: bool
) -> None:
    model, dataset = tiny_model(), pictures(tmp_path, 4)
    features = tmp_path / "features"
    if cached:
        extract(dataset, model.images.backbone, model.preprocessing, features)
    lines: list[str] = []
    told: list[tuple[int, int]] = []
    source = with_features(
        ImageSource(batch_size=2, skipped=lines.append), features if cached else None
    )
    encoded = encode_dataset(model, dataset, source, lambda *now: told.append(now))
    assert [image.id for image in encoded.dataset.images] == [0, 2, 3]
    texts = [caption.text for caption in encoded.dataset.captions]
    np.testing.assert_array_equal(encoded.captions, model.encode_captions(texts))
    assert encoded.images.shape == (3, 16)
    assert told == ([(3, 4)] if cached else [(1, 4), (3, 4)])
    (line,) = lines
    assert line.startswith("image 1 (1.png): " + ("no features" if cached else ""))
    assert line.endswith(": skipped")


def test_dataset_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    model, whole = tiny_model(), pictures(tmp_path, 3)
    damaged = Dataset("some", whole.images[1:2])
    with pytest.raises(DatasetError, match="no picture of the dataset 'some' can be read"):
        encode_dataset(model, damaged, ImageSource(), lambda *_: None)
    mute = replace(whole.images[0], captions=())
    with pytest.raises(DatasetError, match="that have a caption were all left out"):
        encode_dataset(
            model, Dataset("some", (mute, *damaged.images)), ImageSource(), lambda *_: None
        )
    features = tmp_path / "features"
    extract(Dataset("some", whole.images[:1]), model.images.backbone, model.preprocessing, features)
    with pytest.raises(DatasetError, match="run 'hasse lab features' on this dataset"):
        encode_dataset(
            model,
            Dataset("some", whole.images[2:]),
            with_features(ImageSource(), features),
            lambda *_: None,
        )


def test_dataset_without_captions_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    whole = pictures(tmp_path, 2).images
    bare = Dataset("some", tuple(replace(image, captions=()) for image in whole))
    source = with_features(ImageSource(), tmp_path / "features")  # which are not there
    with pytest.raises(DatasetError, match="'some' has a caption, so there is nothing to measure"):
        encode_dataset(tiny_model(), bare, source, lambda *_: None)


def test_features_of_another_network_or_of_pictures_read_otherwise_are_refused(
    tmp_path: Path,
) -> None:
    model, dataset = tiny_model(), pictures(tmp_path, 1)
    looks = replace(model.preprocessing, framing="whole")
    extract(dataset, model.images.backbone, looks, tmp_path / "looks")
    extract(
        dataset,
        build_backbone("torchvision/squeezenet1_1"),
        model.preprocessing,
        tmp_path / "network",
    )
    for name, message in (
        ("looks", "prepared otherwise .* --framing centre"),
        ("network", "were not made with the network of this model"),
    ):
        with pytest.raises(FeaturesError, match=message):
            encode_dataset(
                model, dataset, with_features(ImageSource(), tmp_path / name), lambda *_: None
            )


def test_points_leave_the_gradient_mode_of_the_caller(tmp_path: Path) -> None:
    for _ in ImageSource(batch_size=1).encode(tiny_model(), pictures(tmp_path, 1).images):
        assert not torch.is_inference_mode_enabled()
