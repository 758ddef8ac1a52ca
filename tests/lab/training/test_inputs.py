from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hasse.lab.training.inputs import FeatureInput, dataset_points, rows_of, usable_dataset
from hasse.models.datasets import Caption, Dataset, DatasetError, Image
from tests.tiny import tiny_model
from tests.tiny_network import FEATURES


def collection(*captioned: bool) -> Dataset:
    images = []
    for row, has_caption in enumerate(captioned):
        captions = (Caption(row, row, "words"),) if has_caption else ()
        images.append(Image(row, f"{row}.png", Path(f"{row}.png"), captions=captions))
    return Dataset("drawn", tuple(images))


def features(*image_ids: int) -> FeatureInput:
    return FeatureInput(np.array(image_ids), np.zeros((len(image_ids), 4), dtype=np.float32))


def test_images_without_captions_or_features_are_left_out() -> None:
    dataset = collection(False, True, True, True)
    assert [image.id for image in usable_dataset(dataset, features(0, 1, 3)).images] == [1, 3]
    for images in (dataset, collection(False)):
        with pytest.raises(
            DatasetError, match=r"import captions .* or run 'hasse lab features' on"
        ):
            usable_dataset(images, features(9))
    held_out = replace(dataset, images=tuple(replace(i, split="val") for i in dataset.images))
    with pytest.raises(DatasetError, match=r"'.*' in the split val has a caption"):
        usable_dataset(held_out, features(9))


def test_images_are_found_in_any_order_and_one_that_is_not_there_is_named() -> None:
    dataset = collection(True, True, True)
    assert rows_of(dataset, features(2, 7, 0, 1)).tolist() == [2, 3, 0]
    assert rows_of(dataset, features(2, 7, 0, 1, 2)).tolist() == [2, 3, 4]
    with pytest.raises(DatasetError, match=r"image 1 \(1\.png\) has no features"):
        rows_of(dataset, features(2, 0))


def test_a_datasets_points_are_in_its_order_however_many_are_read_at_one_time() -> None:
    model, dataset = tiny_model(), collection(True, True, True, True, True)
    rows = np.random.default_rng(0).random((5, FEATURES), dtype=np.float32)
    images = FeatureInput(np.array([4, 2, 0, 1, 3]), rows)
    points, captions = dataset_points(model, dataset, images, batch_size=2)
    np.testing.assert_allclose(points, model.encode_features(rows[[2, 3, 1, 4, 0]]), atol=1e-6)
    np.testing.assert_array_equal(captions, model.encode_captions(["words"] * 5))
